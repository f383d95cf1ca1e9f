/** What an acquisition claims together with the resource: part of the port (`store.ts`). */

interface Claim {
  /** The job the tick belongs to. Ticks belong to (resource, job): two jobs may share a resource. */
  readonly job: string;
  /**
   * How many times more a tick may be claimed that was claimed before and did not end `done`: the store counts its claims,
   * and answers `already-ran` once they are more than this. While the claim before is HELD the answer is `held`.
   */
  readonly retry: number;
}

/** The instant that a schedule names, claimed in the same step as the lease. */
export interface ScheduledTick extends Claim {
  /** Epoch milliseconds UTC, from the schedule, never "now". */
  readonly at: number;
  /** A tick older than this by the store's clock is `too-late`. Milliseconds. */
  readonly startingDeadlineMs: number;
  /** A tick that lies farther ahead of the store's clock is `clock-ahead`: come back, never skip. Milliseconds. */
  readonly maxAheadMs: number;
}

/**
 * The beginning of a run that no schedule names: the store's now, in whole milliseconds, claimed in the same step as the
 * lease.
 */
export interface TriggeredTick extends Claim {
  readonly at: null;
  /**
   * `already-ran` for so long after the tick that the job claimed last, unless that one may be claimed again. A last tick
   * ahead of the store's clock (it went back) is written back to now. Milliseconds.
   */
  readonly minHoldMs: number;
}

export type TickRequest = ScheduledTick | TriggeredTick;

/** What a lease has claimed. */
export interface ClaimedTick {
  /** Epoch milliseconds. */
  readonly at: number;
  /** 1 for the first claim of a tick, one more for each further one. Claims that were given back do not count. */
  readonly attempt: number;
}
