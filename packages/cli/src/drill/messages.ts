import type { Grant } from '@leasehold/core';
import type { HistoryLine } from '@leasehold/core/testing/history';
import type { FenceSettings, RedisSettings, TimingSettings } from '../config/settings.ts';
import type { Detours } from '../redis.ts';

/** Which fence is drilled; plain data for another process. */
export type DrillFence =
  /** Of the drill's own, in the store, for who names none. */
  | { readonly kind: 'scratch'; readonly redis: RedisSettings }
  | { readonly kind: 'configured'; readonly name: string; readonly settings: FenceSettings }
  /** The path of a module that exports `openFence`. */
  | { readonly kind: 'module'; readonly file: string };

/** Timing of the owners besides the ttl. */
export type DrillTiming = TimingSettings;

export interface OwnerSetup {
  /** As the history calls it. */
  readonly process: string;
  readonly resource: string;
  /** What it connects to: the store, or a gate in front of it. */
  readonly redis: RedisSettings;
  /** For addresses that the store tells. */
  readonly detours: Detours | undefined;
  readonly ttlMs: number;
  readonly timing: DrillTiming;
  readonly fence: DrillFence;
  /** From one guarded write to the next. */
  readonly writeEveryMs: number;
}

/** What an owner process is told to do. Those with a `call` are answered. */
export type ToOwner =
  | { readonly type: 'set-up'; readonly setup: OwnerSetup }
  /** Acquire, however long it takes, and write until the end of the lease. */
  | { readonly type: 'work' }
  /** End the guarded section and give the lease back. */
  | { readonly type: 'finish' }
  /** One more write through the lease, as its body would. */
  | { readonly type: 'guarded-write'; readonly call: number }
  /** One more write as a worker does that ignores its signal: by the grant alone. */
  | { readonly type: 'late-write'; readonly call: number }
  /** The wall clock of the process goes ahead; then a guarded write. */
  | { readonly type: 'step-clock'; readonly byMs: number; readonly call: number }
  /** The event loop stands still; then a guarded write. */
  | { readonly type: 'block'; readonly forMs: number; readonly call: number };

export type FromOwner =
  | { readonly type: 'ready' }
  /** It cannot go on. */
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'line'; readonly line: HistoryLine }
  | { readonly type: 'acquired'; readonly atMs: number; readonly grant: Grant }
  /** The signal of its body aborted. */
  | { readonly type: 'aborted'; readonly atMs: number; readonly reason: string }
  /** Its section is over: `released`, or the code of an error. */
  | { readonly type: 'ended'; readonly atMs: number; readonly outcome: string }
  | {
      readonly type: 'answer';
      readonly call: number;
      readonly atMs: number;
      readonly outcome: string;
      readonly effect: number;
    };
