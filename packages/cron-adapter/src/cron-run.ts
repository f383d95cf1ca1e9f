import { ConfigError, type Lease } from '@leasehold/core';
import type { TaskContext } from 'node-cron';

/**
 * Why a run began: its tick, `execute()`, a tick that nobody ran in time (`catchUp`), or a tick whose run died, was lost or
 * failed (`retry`).
 */
export type CronTrigger = 'schedule' | 'manual' | 'catch-up' | 'retry';

/** What a task is called with: node-cron's context, and the lease that this run holds. */
export interface CronRun extends TaskContext {
  /**
   * What fences take, and what tells at any moment whether this run may still act. A run that passes by the lease
   * (`manual: 'bypass'`) has none: asking for it, or for the token, throws `ConfigError`.
   */
  readonly lease: Lease;
  /** Aborts when the lease is lost (`LeaseLostError`), or when the run is to end (`RunCancelledError`). */
  readonly signal: AbortSignal;
  /** Larger for each later run of the resource. */
  readonly fencingToken: number;
  /** The instant that the schedule names, also when the run begins later; null for a run without one. */
  readonly tick: Date | null;
  readonly trigger: CronTrigger;
  /** 1 for the first run of this tick; more only with `retry`. */
  readonly attempt: number;
}

/** A task of node-cron is one of these as well. Its value is the result of the execution. */
export type CronTask = (run: CronRun) => unknown;

/** Which run this is, whoever begins it. */
export interface RunKind {
  readonly context: TaskContext;
  readonly tick: Date | null;
  readonly trigger: CronTrigger;
}

export function cronRun({ context, tick, trigger }: RunKind, lease: Lease): CronRun {
  return {
    ...context,
    lease,
    // Made when first asked for: most tasks never look at it.
    get signal() {
      return lease.signal;
    },
    fencingToken: lease.fencingToken,
    tick,
    trigger,
    attempt: lease.tick?.attempt ?? 1,
  };
}

/** A run that was told to pass by the lease. What needs one fails, so nothing is written through a fence by it. */
export function unleasedRun({ context, tick, trigger }: RunKind, job: string, signal: AbortSignal): CronRun {
  function missing(): never {
    throw new ConfigError(
      'manual',
      `is 'bypass', so this run of ${job} has no lease; use 'lease' for runs that need one`,
    );
  }
  const run = { ...context, signal, tick, trigger, attempt: 1 };
  // Not enumerable: a run that is copied or printed asks for nothing.
  Object.defineProperties(run, { lease: { get: missing }, fencingToken: { get: missing } });
  return run as unknown as CronRun;
}
