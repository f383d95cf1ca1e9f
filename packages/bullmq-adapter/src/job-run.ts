import type { Lease } from '@leasehold/core';
import type { Job } from 'bullmq';
import { Cancellation } from './cancellation.ts';
import type { Question } from './parking.ts';
import { Patience } from './patience.ts';
import { settlesWithin } from './pause.ts';
import { CLOSING_PATIENCE_MS } from './put-back.ts';
import type { Body } from './runner.ts';

/** Longer than any move takes. */
const PROBE_LOCK_MS = 30_000;

/** One job in one process, from its start to what BullMQ is told of it. */
export class JobRun<R = unknown> {
  readonly job: Job;
  /** BullMQ's lock of the job. */
  readonly token: string;
  readonly body: Body<R>;
  readonly cancellation: Cancellation;
  readonly patience: Patience;
  /** Set when the body begins, if it has one. */
  lease: Lease | undefined;
  /** What the body has; set when it begins. */
  signal: AbortSignal | undefined;
  lossAnnounced = false;
  /** Its question to the store, while that has no answer. */
  question: Question | undefined;
  #isInDoubt = false;

  constructor(
    job: Job,
    token: string,
    outer: AbortSignal | undefined,
    body: Body<R>,
    abandonAfterMs: number,
    cancelledAs?: (reason: Error) => Error,
  ) {
    this.job = job;
    this.token = token;
    this.body = body;
    this.cancellation = new Cancellation(outer, cancelledAs);
    this.patience = new Patience(abandonAfterMs);
  }

  /** The body is about to begin under this signal. */
  begin(signal: AbortSignal): void {
    this.signal = signal;
    this.patience.begin(signal);
  }

  /** BullMQ is said to have given the job to another run. */
  get isInDoubt(): boolean {
    return this.#isInDoubt;
  }

  /** Ends it, because what becomes of the job is not for it to say any more. */
  disown(reason: Error): void {
    this.#isInDoubt = true;
    this.cancellation.cancel(reason);
  }

  /**
   * Whether BullMQ would refuse whatever is said of the job; asked only if there is reason to think so. A worker that closes
   * does not wait for ever.
   */
  async isDisowned(closing?: AbortSignal): Promise<boolean> {
    if (!this.#isInDoubt) return false;
    try {
      const asked = this.job.extendLock(this.token, PROBE_LOCK_MS);
      return !(await settlesWithin(asked, CLOSING_PATIENCE_MS, closing)) || !(await asked);
    } catch {
      return true;
    }
  }

  end(): void {
    this.patience.end();
    this.cancellation.end();
  }
}
