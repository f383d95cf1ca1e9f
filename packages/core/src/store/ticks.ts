/**
 * Ticks: the instants of a schedule that leases claim. Pure: each function takes what is stored and returns what is to be
 * stored. Whatever was claimed counts as run, unless the request allows a further attempt or the claim is given back.
 */

import type { TickReason } from '../errors.ts';
import type { ReleaseRequest, TickRecord } from './store.ts';
import type { ClaimedTick, TickRequest } from './tick-request.ts';

export interface StoredTick extends ClaimedTick {
  readonly status: 'claimed' | 'done' | 'failed' | 'aborted';
  /** The lease that claimed it; only that lease writes its outcome. */
  readonly leaseId: string;
  readonly fencingToken: number;
  /** The owner's line. */
  readonly owner: string;
  /** µs by the store's clock; null if it is never forgotten. */
  readonly keptUntilUs: number | null;
  /** What stood here before the claim, and comes back if the run was not started. */
  readonly previous: Omit<StoredTick, 'previous'> | null;
}

/** The lease that claims. */
export type Claimant = Pick<StoredTick, 'leaseId' | 'fencingToken' | 'owner'>;

export type Ticks = ReadonlyMap<string, StoredTick>;

export interface TickRefusal {
  readonly reason: TickReason;
  readonly aheadMs: number;
  readonly remainingMs: number;
}

/** Why this tick cannot be claimed, or null. A tick that is done with is never reported as merely early. */
export function refuseTick(ticks: Ticks, request: TickRequest, nowUs: number): TickRefusal | null {
  const stored = ticks.get(request.job);
  const isOver = stored !== undefined && (stored.status === 'done' || stored.attempt > request.retry);
  /** Of an instant, as exact as the clock is. */
  const untilMs = (ms: number): number => (ms * 1000 - nowUs) / 1000;
  if (request.at === null) {
    const remainingMs = stored === undefined ? 0 : untilMs(stored.at + request.minHoldMs);
    if (stored === undefined || remainingMs <= 0 || !isOver) return null;
    return { reason: 'already-ran', aheadMs: untilMs(stored.at), remainingMs };
  }
  const aheadMs = untilMs(request.at);
  if (stored !== undefined && stored.at > request.at) return { reason: 'superseded', aheadMs, remainingMs: 0 };
  if (stored?.at === request.at && isOver) return { reason: 'already-ran', aheadMs, remainingMs: 0 };
  if (-aheadMs > request.startingDeadlineMs) return { reason: 'too-late', aheadMs, remainingMs: 0 };
  if (aheadMs > request.maxAheadMs) return { reason: 'clock-ahead', aheadMs, remainingMs: aheadMs };
  return null;
}

/**
 * The last tick of a job without a schedule lies ahead: the clock went back (or the job had a schedule). It gets its full
 * time from now on, and no more.
 */
export function writeBackTick(ticks: Ticks, request: TickRequest | undefined, nowUs: number): Ticks {
  if (request === undefined || request.at !== null) return ticks;
  const stored = ticks.get(request.job);
  const nowMs = Math.floor(nowUs / 1000);
  return stored === undefined || stored.at <= nowMs ? ticks : new Map(ticks).set(request.job, { ...stored, at: nowMs });
}

/** Whether the tick asked for is the one that the lease `leaseId` has claimed. */
export function hasClaimed(ticks: Ticks, request: TickRequest, leaseId: string): boolean {
  const stored = ticks.get(request.job);
  return stored?.leaseId === leaseId && (request.at === null || stored.at === request.at);
}

/** The tick that the lease `leaseId` has claimed of this job, or null. */
export function claimOf(ticks: Ticks, job: string | undefined, leaseId: string): ClaimedTick | null {
  const stored = job === undefined ? undefined : ticks.get(job);
  return stored?.leaseId === leaseId ? { at: stored.at, attempt: stored.attempt } : null;
}

/** What a claim of this tick claims. One that takes the place of `replaces` keeps what that one has. */
export function nextClaim(ticks: Ticks, request: TickRequest, replaces: string, nowUs: number): ClaimedTick {
  const stored = ticks.get(request.job);
  if (stored !== undefined && replaces !== '' && hasClaimed(ticks, request, replaces)) return stored;
  const isSame =
    stored !== undefined &&
    (request.at === null ? nowUs < (stored.at + request.minHoldMs) * 1000 : stored.at === request.at);
  return { at: request.at ?? Math.floor(nowUs / 1000), attempt: isSame ? stored.attempt + 1 : 1 };
}

/** Claims the tick for `leaseId`. A claim that takes the place of `replaces` keeps what stood there before either. */
export function claimTick(
  ticks: Ticks,
  request: TickRequest,
  claimed: ClaimedTick,
  claim: Claimant & { readonly replaces: string; readonly keptUntilUs: number | null },
): Ticks {
  const stored = ticks.get(request.job);
  const { leaseId, fencingToken, owner, keptUntilUs } = claim;
  let previous: StoredTick['previous'] = null;
  if (stored !== undefined) {
    const taken = claim.replaces !== '' && hasClaimed(ticks, request, claim.replaces);
    previous = taken ? stored.previous : withoutPrevious(stored);
  }
  const { at, attempt } = claimed;
  const next = { at, attempt, status: 'claimed', leaseId, fencingToken, owner, keptUntilUs, previous } as const;
  return new Map(ticks).set(request.job, next);
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
export function endTick(
  ticks: Ticks,
  { job, leaseId, outcome, retentionMs }: Pick<ReleaseRequest, 'job' | 'leaseId' | 'outcome' | 'retentionMs'>,
  nowUs: number,
): Ticks {
  const stored = job === undefined ? undefined : ticks.get(job);
  if (job === undefined || stored?.leaseId !== leaseId || stored.status !== 'claimed') return ticks;
  const keptUntilUs = keptUntil(retentionMs, nowUs) ?? (outcome === 'not-started' ? null : stored.keptUntilUs);
  const next = new Map(ticks);
  if (outcome !== 'not-started') next.set(job, { ...stored, status: outcome, keptUntilUs });
  else if (stored.previous === null) next.delete(job);
  else next.set(job, { ...stored.previous, keptUntilUs, previous: null });
  return next;
}

/** Null without a retention. */
export function keptUntil(retentionMs: number | undefined, nowUs: number): number | null {
  return retentionMs === undefined ? null : nowUs + retentionMs * 1000;
}

/** The ticks that are not to be forgotten by now. */
export function keptTicks(ticks: Ticks, nowUs: number): Ticks {
  const isOver = ({ keptUntilUs }: StoredTick): boolean => keptUntilUs !== null && keptUntilUs <= nowUs;
  if (![...ticks.values()].some(isOver)) return ticks;
  return new Map([...ticks].filter(([, tick]) => !isOver(tick)));
}

function withoutPrevious({ previous: _, ...tick }: StoredTick): Omit<StoredTick, 'previous'> {
  return tick;
}

function toRecord({ at, attempt, status, fencingToken, owner }: Omit<StoredTick, 'previous'>): TickRecord {
  return { at, attempt, status, fencingToken, owner };
}
