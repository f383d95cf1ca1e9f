import type { Account } from './ledger.ts';

/** Short, so that nobody has to wait long for what a dead owner has left. */
export const TTL_MS = 2000;

/** What every process of the demo is told when it starts. */
export interface Setting {
  readonly url: string;
  /** All keys of this run of the demo begin with it. */
  readonly prefix: string;
  readonly name: string;
  readonly fenced: boolean;
}

/** A payment: one job of the queue. */
export interface Payment {
  readonly account: string;
  readonly amount: number;
}

/** One job in the hands of one owner. */
interface Work extends Payment {
  readonly job: string;
  readonly token: number;
}

/** What a process tells the parent. */
export type Report =
  | { readonly type: 'ready' }
  | ({ readonly type: 'busy'; readonly holder: string } & Omit<Work, 'token'>)
  | ({ readonly type: 'read'; readonly before: Account } & Work)
  /** Is about to write, and waits for `go`. */
  | ({ readonly type: 'set' } & Work)
  /** The job was applied by an earlier delivery. */
  | ({ readonly type: 'known' } & Work)
  /** Looks at its lease a last time, and stops itself. */
  | ({ readonly type: 'stopping' } & Work)
  | ({ readonly type: 'woken'; readonly wasHeld: boolean; readonly stoppedMs: number } & Work)
  | ({ readonly type: 'written'; readonly after: Account } & Work)
  | ({ readonly type: 'refused'; readonly highest: number } & Work)
  | ({ readonly type: 'lost'; readonly reason: string } & Work)
  | { readonly type: 'done'; readonly job: string }
  | { readonly type: 'tick'; readonly tick: string; readonly token: number }
  | { readonly type: 'trouble'; readonly message: string };

/** What the parent tells a process. */
export type Order =
  | { readonly type: 'go'; readonly job: string; readonly stopFirst: boolean }
  | { readonly type: 'end' };
