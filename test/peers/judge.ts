import { ATTEMPTS, entries, type Entry } from './ledger.ts';
import type { Owner, Stage } from './stage.ts';

/** Delays of waiters that ask again and again, and of a busy machine. */
export const SLACK_MS = 700;

/** Somebody who acts does it each 25 ms. Whoever has not for so long has stopped. */
const QUIET_MS = 400;

export interface Finding {
  readonly verdict: 'holds' | 'fails' | 'left out';
  /** For a cell of the table. */
  readonly text: string;
  readonly measured: Readonly<Record<string, number | string | boolean | null>>;
}

type Named = Pick<Owner, 'name'>;

/** Writes of `former` that were accepted after the first one of `next`. */
export function lateWrites(accepted: readonly Entry[], former: Named, next: Named): readonly Entry[] {
  const from = accepted.findIndex(({ owner }) => owner === next.name);
  return from < 0 ? [] : accepted.slice(from).filter(({ owner }) => owner === former.name);
}

/** From the first write of `next` to the last accepted one of `former`. */
export function overlapMs(accepted: readonly Entry[], former: Named, next: Named): number {
  const last = lateWrites(accepted, former, next).at(-1);
  const first = accepted.find(({ owner }) => owner === next.name);
  return last === undefined || first === undefined ? 0 : last.atMs - first.atMs;
}

/** How long after `sinceMs` the owner tried its last act; null if it was still at it at the end. */
export async function stoppedAfterMs(
  stage: Stage,
  owner: Owner,
  sinceMs: number,
  endMs: number,
): Promise<number | null> {
  const its = (await entries(stage.ledger, ATTEMPTS)).filter((entry) => entry.owner === owner.name);
  const lastMs = Math.max(...its.map(({ atMs }) => atMs));
  const isOver = await Promise.race([owner.over.then(() => true), Promise.resolve().then(() => false)]);
  if (!isOver && endMs - lastMs < QUIET_MS) return null;
  return Math.max(0, lastMs - sinceMs);
}

/** The largest token that the resource accepted from this owner. */
export function tokenOf(accepted: readonly Entry[], owner: Owner): number | null {
  const tokens = accepted.filter((entry) => entry.owner === owner.name).flatMap(({ token }) => token ?? []);
  return tokens.length === 0 ? null : Math.max(...tokens);
}

export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

export function told(stoppedMs: number | null, crash: string | null, watchedMs: number): string {
  if (stoppedMs === null) return `still acting after ${seconds(watchedMs)}`;
  if (crash !== null) return `its process crashed after ${seconds(stoppedMs)}`;
  return stoppedMs < 100 ? 'stopped at once' : `stopped after ${seconds(stoppedMs)}`;
}

export function lateText(late: readonly Entry[]): string {
  return late.length === 0 ? 'no late write' : `**${late.length} late write${late.length === 1 ? '' : 's'} accepted**`;
}

export function noSuccessor(stage: Stage): Finding {
  return {
    verdict: 'fails',
    text: `no successor in ${seconds(stage.peer.patienceMs(stage.leaseMs) + stage.leaseMs * 2)}`,
    measured: { takeOverMs: null },
  };
}
