/**
 * Ticks: the instants of a schedule that leases claim. Pure: each function takes what is stored and returns what is to be
 * stored. Whatever was claimed counts as run, unless the request allows a retry or the claim is given back.
 */

import type { TickReason } from '../errors.ts';
import type { Outcome, TickRecord, TickRequest } from './store.ts';

export interface StoredTick {
  readonly at: number;
  readonly status: 'claimed' | 'done' | 'failed' | 'aborted';
  /** The lease that claimed it; only that lease writes its outcome. */
  readonly leaseId: string;
  readonly fencingToken: number;
  /** The owner's line. */
  readonly owner: string;
  /** What stood here before the claim, and comes back if the run was not started. */
  readonly previous: Omit<StoredTick, 'previous'> | null;
}

/** The lease that claims. */
export type Claimant = Pick<StoredTick, 'leaseId' | 'fencingToken' | 'owner'>;

export type Ticks = ReadonlyMap<string, StoredTick>;

/** Why this tick cannot be claimed, or null. A tick that is done with is never reported as merely early. */
export function refuseTick(
  ticks: Ticks,
  request: TickRequest,
  nowUs: number,
): { readonly reason: TickReason; readonly aheadMs: number } | null {
  const stored = ticks.get(request.job);
  const nowMs = nowUs / 1000;
  if (stored !== undefined && stored.at > request.at) return { reason: 'superseded', aheadMs: 0 };
  if (stored !== undefined && stored.at === request.at && (stored.status === 'done' || !request.retry)) {
    return { reason: 'already-ran', aheadMs: 0 };
  }
  if (nowMs > request.at + request.startingDeadlineMs) return { reason: 'too-late', aheadMs: 0 };
  if (request.at > nowMs + request.maxAheadMs) return { reason: 'clock-ahead', aheadMs: request.at - nowMs };
  return null;
}

/** Whether the tick asked for is the one that the lease `leaseId` has claimed. */
export function hasClaimed(ticks: Ticks, request: TickRequest, leaseId: string): boolean {
  const stored = ticks.get(request.job);
  return stored !== undefined && stored.leaseId === leaseId && stored.at === request.at;
}

/** Claims the tick for `leaseId`. A claim that takes the place of `replaces` keeps what stood there before either. */
export function claimTick(ticks: Ticks, request: TickRequest, claim: Claimant & { readonly replaces: string }): Ticks {
  const stored = ticks.get(request.job);
  const { leaseId, fencingToken, owner } = claim;
  let previous: StoredTick['previous'] = null;
  if (stored !== undefined) {
    const taken = claim.replaces !== '' && hasClaimed(ticks, request, claim.replaces);
    previous = taken ? stored.previous : withoutPrevious(stored);
  }
  const next = new Map(ticks);
  next.set(request.job, { at: request.at, status: 'claimed', leaseId, fencingToken, owner, previous });
  return next;
}

/** The claim that `from` has on the tick of this job, if it has one, becomes the claim of the lease that adopts it. */
export function handOverTick(ticks: Ticks, job: string | undefined, from: string, to: Claimant): Ticks {
  const stored = job === undefined ? undefined : ticks.get(job);
  if (job === undefined || stored?.leaseId !== from) return ticks;
  const { leaseId, fencingToken, owner } = to;
  return new Map(ticks).set(job, { ...stored, leaseId, fencingToken, owner });
}

/** The last tick of a job and the one before it. */
export function readTicks(ticks: Ticks, job: string): readonly TickRecord[] {
  const stored = ticks.get(job);
  if (stored === undefined) return [];
  return stored.previous === null ? [toRecord(stored)] : [toRecord(stored), toRecord(stored.previous)];
}

/** Writes how the work ended, once, if `leaseId` still has the claim; it may have lost its lease. */
export function endTick(ticks: Ticks, job: string | undefined, leaseId: string, outcome: Outcome): Ticks {
  const stored = job === undefined ? undefined : ticks.get(job);
  if (job === undefined || stored?.leaseId !== leaseId || stored.status !== 'claimed') return ticks;
  const next = new Map(ticks);
  if (outcome !== 'not-started') next.set(job, { ...stored, status: outcome });
  else if (stored.previous === null) next.delete(job);
  else next.set(job, { ...stored.previous, previous: null });
  return next;
}

function withoutPrevious(tick: StoredTick): Omit<StoredTick, 'previous'> {
  const { at, status, leaseId, fencingToken, owner } = tick;
  return { at, status, leaseId, fencingToken, owner };
}

function toRecord({ at, status, fencingToken, owner }: Omit<StoredTick, 'previous'>): TickRecord {
  return { at, status, fencingToken, owner };
}
