import type { Lease } from '@leasehold/core';
import type { TaskContext } from 'node-cron';

/** What a task is called with: node-cron's context, and the lease that this run holds. */
export interface CronRun extends TaskContext {
  /** What fences take, and what tells at any moment whether this run may still act. */
  readonly lease: Lease;
  /** Aborts when the lease is lost (`LeaseLostError`), or when the run is to end (`RunCancelledError`). */
  readonly signal: AbortSignal;
  /** Larger for each later run of the resource. */
  readonly fencingToken: number;
  /** The instant that the schedule names, also when the run begins later; null for `execute()`. */
  readonly tick: Date | null;
  readonly trigger: 'schedule' | 'manual';
}

/** A task of node-cron is one of these as well. Its value is the result of the execution. */
export type CronTask = (run: CronRun) => unknown;

export function cronRun(context: TaskContext, lease: Lease, tick: Date | null): CronRun {
  return {
    ...context,
    lease,
    // Made when first asked for: most tasks never look at it.
    get signal() {
      return lease.signal;
    },
    fencingToken: lease.fencingToken,
    tick,
    trigger: tick === null ? 'manual' : 'schedule',
  };
}
