import type { Holder, LeaseholdError, LeaseLostError } from '@leasehold/core';
import type { Job } from 'bullmq';
import type { LeasedJob } from './options.ts';

/** Runs the processor, the job's lease in place, under the signal given. */
export type Body<R> = (signal: AbortSignal) => Promise<R> | R;

/** What a run tells its worker. Must not throw. */
export interface RunObserver {
  acquired(job: LeasedJob): void;
  busy(job: Job, holder: Holder | null, remainingMs: number, resource: string): void;
  lost(job: LeasedJob, error: LeaseLostError): void;
  /** Its slot was given back while the processor goes on; `reason` is what its signal was aborted with. */
  abandoned(job: LeasedJob, reason: Error): void;
  /** A job was put back because of this. */
  troubled(error: LeaseholdError): void;
}

/** Stands between BullMQ and the processor of one worker: what has a lease, when, and what becomes of the job. */
export interface JobRunner {
  /**
   * From the start of a job to what BullMQ is told of it: resolves with the job's result, or rejects with what BullMQ is to
   * do with it, always an error that BullMQ can read. `token` is BullMQ's lock of the job, `outer` its signal for it.
   */
  run<R>(job: Job, token: string, outer: AbortSignal | undefined, body: Body<R>): Promise<R>;
  /**
   * BullMQ begins with a job, before it asks to run it. To be called when it is done with it, which is after it was told
   * what became of it: until then a second copy of the job that is started here would share its fate, because BullMQ knows
   * the two by the job's id alone.
   */
  processing?(job: Job): () => void;
  /** BullMQ could not renew its own lock of these jobs: somebody else may run them now. It tells nobody by itself. */
  lockRenewalFailed(jobIds: readonly string[]): void;
  /** Somebody cancels this job: false if it does not run here. */
  cancel(jobId: string, reason: unknown): boolean;
  /** Aborts every live run with this. */
  cancelAll(reason: unknown): void;
  /**
   * The same for a worker that closes by force: what has not given up by the next turn of the event loop is left behind, as
   * after `abandonAfter`. Resolves when BullMQ has been told of all, or does not answer. Never rejects.
   */
  abandonAll?(reason: Error): Promise<void>;
  /** Resolves when the jobs that wait for a resource have been handed on, which begins when the worker closes. Never rejects. */
  handedOn?(): Promise<void>;
  /** How many runs have begun and not yet ended; one whose slot was given back has ended. */
  readonly live: number;
  /** Resolves when no run is live. */
  idle(): Promise<void>;
}
