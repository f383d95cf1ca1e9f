import type { Fence, Lease } from '@leasehold/core';
import type { Logger } from 'pino';

/** The job that a run is of, as the config names it. */
export interface JobInfo<Data = unknown> {
  readonly name: string;
  /** Of a queue's job, BullMQ's id; null for cron and interval jobs. */
  readonly id: string | null;
  /** Of a queue's job, what its producer gave; undefined for cron and interval jobs. Nobody has checked it. */
  readonly data: Data;
}

/** Why this run began. `queue`: a job of the queue was taken. The others are those of a cron job; `interval` has no tick. */
export type RunTrigger = 'schedule' | 'manual' | 'catch-up' | 'retry' | 'interval' | 'queue';

export interface RunInfo {
  /** The instant that the schedule names, however late the run is; null for runs without one. Work for it, not for now. */
  readonly tick: Date | null;
  readonly trigger: RunTrigger;
  /** 1 for the first run of this tick or of this job of a queue. */
  readonly attempt: number;
}

/**
 * The fences of a job by name. What a body is given, its `tx`, is the fence's own: type the parameter,
 * `(tx: RedisTx) => …`, or give `defineJob` a second type with the fences of the job.
 */
export type JobFences = Readonly<Record<string, Fence<never>>>;

/** What a handler is called with, of whatever kind its job is. */
export interface JobContext<Data = unknown, Fences extends object = JobFences> {
  readonly job: JobInfo<Data>;
  readonly run: RunInfo;
  /**
   * What fences take, and what tells at any moment whether this run may still act. In a thread or process of its own (`isolate`) it has
   * `resource grant fencingToken leaseId ttlMs signal remainingMs isHeld assertHeld toJSON` and nothing else.
   */
  readonly lease: Lease;
  /**
   * Aborts when the lease is lost (`LeaseLostError`), or when the run is to end (`RunCancelledError`: shutdown, `maxHold`, revoked).
   * Give it to whatever can be aborted.
   */
  readonly signal: AbortSignal;
  /** Those that the job names in `lease.fences`. Asking for another one of the config throws `ConfigError`. */
  readonly fences: Fences;
  /** Writes `job`, `resource` and `token` with each line, and of a queue's job `jobId`. A field of that name is there twice if it is logged as well. */
  readonly log: Logger;
}

/** What does the work of a job. What it throws fails the run; what it returns is the result of a queue's job. */
export type JobHandler<Data = unknown, Fences extends object = JobFences> = (
  context: JobContext<Data, Fences>,
) => unknown;

/** A handler of whatever data and fences, to be kept. */
export type AnyJobHandler = (context: never) => unknown;

/** The handler itself, with its context typed: `export const pay = defineJob<Payment>(async ({ job, lease, fences }) => …)`. */
export function defineJob<Data = unknown, Fences extends object = JobFences>(
  handler: JobHandler<Data, Fences>,
): JobHandler<Data, Fences> {
  return handler;
}
