import type { Holder, Lease, LeaseholdError, LeaseLostError } from '@leasehold/core';
import type { Job, Worker } from 'bullmq';
import type { TermObserver } from './candidate.ts';
import type { LeasedJob } from './options.ts';
import type { RunObserver } from './runner.ts';
import type { TermEnd } from './term.ts';
import { asError, propertyOf } from './thrown.ts';

/** The events of a leased worker, beside BullMQ's. */
export interface LeaseEvents {
  /** A job has its lease, its fences are activated, its processor is about to begin. */
  leaseAcquired: (job: LeasedJob) => void;
  /**
   * Somebody else has the job's resource, for `remainingMs` if nobody prolongs it; null if nobody has it but it is kept for
   * another. What becomes of the job, `whenBusy` says; with `hold` nothing is said.
   */
  leaseBusy: (job: Job, holder: Holder | null, remainingMs: number) => void;
  /** Once for each run that lost its lease. When the processor has settled, the job becomes what `whenLost` says. */
  leaseLost: (job: LeasedJob, error: LeaseLostError) => void;
  /**
   * The processor had not settled `abandonAfter` after its signal was aborted, with `reason`: its slot is free, its job is
   * put back (or as `whenLost` says), its lease runs out.
   */
  leaseAbandoned: (job: LeasedJob, reason: Error) => void;
  /** With scope `worker`: this worker has the lease and begins to take jobs. */
  elected: (lease: Lease) => void;
  /**
   * With scope `worker`: this worker takes no more jobs, because its lease is lost (`LeaseLostError`) or is to be given back
   * (`RunCancelledError`) when the jobs that run have ended. Once for each `elected`.
   */
  steppedDown: (lease: Lease, reason: TermEnd) => void;
}

declare module 'bullmq' {
  // The base of WorkerListener. That one itself has other type parameters in BullMQ 5 than in 6, so it cannot be added to
  // for both. Option types are left alone: a plain Worker would accept `lease` and ignore it.
  interface IoredisListener extends LeaseEvents {}
}

/** The worker's events. What a listener throws or rejects with goes to `error`; neither the run nor the others notice. */
export class WorkerEvents implements RunObserver, TermObserver {
  readonly #worker: Worker;

  constructor(worker: Worker) {
    this.#worker = worker;
  }

  acquired(job: LeasedJob): void {
    this.#announce('leaseAcquired', job);
  }

  busy(job: Job, holder: Holder | null, remainingMs: number, _resource: string): void {
    this.#announce('leaseBusy', job, holder, remainingMs);
  }

  lost(job: LeasedJob, error: LeaseLostError): void {
    this.#announce('leaseLost', job, error);
  }

  abandoned(job: LeasedJob, reason: Error): void {
    this.#announce('leaseAbandoned', job, reason);
  }

  troubled(error: LeaseholdError): void {
    this.#fail(error);
  }

  elected(lease: Lease): void {
    this.#announce('elected', lease);
  }

  steppedDown(lease: Lease, reason: TermEnd): void {
    this.#announce('steppedDown', lease, reason);
  }

  failed(error: Error): void {
    this.#fail(error);
  }

  #announce(event: keyof LeaseEvents, ...args: unknown[]): void {
    if (this.#worker.listenerCount(event) === 0) return;
    for (const listener of this.#worker.rawListeners(event)) {
      try {
        const result: unknown = (listener as (...args: unknown[]) => unknown).apply(this.#worker, args);
        if (typeof propertyOf(result, 'then') === 'function') {
          Promise.resolve(result).catch((error: unknown) => this.#fail(error));
        }
      } catch (error) {
        this.#fail(error);
      }
    }
  }

  /** BullMQ's own emit survives an `error` that nobody listens to. */
  #fail(error: unknown): void {
    this.#worker.emit('error', asError(error));
  }
}
