import { RunCancelledError, type LeaseManager } from '@leasehold/core';
import { DelayedError, type Job } from 'bullmq';
import { Candidate, type TermObserver } from './candidate.ts';
import type { Engine } from './engine.ts';
import { JobRun } from './job-run.ts';
import { LiveRuns } from './live-runs.ts';
import { Losses } from './losses.ts';
import type { LeaseSettings } from './options.ts';
import { delayMs, putBack } from './put-back.ts';
import type { Body, JobRunner, RunObserver } from './runner.ts';
import { TermRun, type TermRunContext } from './term-run.ts';
import { asError, codeOf, propertyOf } from './thrown.ts';

/** How long a job rests that reached a worker out of office. By then the next one is at work. */
const TURNED_AWAY_MS = 50;

/**
 * Runs jobs under the one lease of their worker, and only while it is held. BullMQ's pause lets jobs through that were asked
 * for before; this is what they come to.
 */
export class WorkerScope implements JobRunner {
  readonly candidate: Candidate;
  readonly #settings: LeaseSettings;
  readonly #live = new LiveRuns();
  readonly #context: TermRunContext;
  /** What a processor hears is one of Leasehold's errors, whatever was asked for. */
  readonly #cancelledAs = (reason: Error): Error => {
    const code = codeOf(reason);
    return code === 'LEASE_LOST' || code === 'RUN_CANCELLED' ? reason : this.#cancelled(reason);
  };

  constructor(manager: LeaseManager, settings: LeaseSettings, observer: RunObserver & TermObserver, engine: Engine) {
    const candidate = new Candidate(manager, settings, observer, engine);
    this.candidate = candidate;
    this.#settings = settings;
    this.#context = {
      settings,
      observer,
      losses: new Losses(),
      closing: candidate.closing,
      abandoned: (term) => candidate.abandon(term),
    };
  }

  async run<R>(job: Job, token: string, outer: AbortSignal | undefined, body: Body<R>): Promise<R> {
    const run = new JobRun(job, token, outer, body, this.#settings.abandonAfterMs, this.#cancelledAs);
    const copies = this.#live.enter(run);
    const { closing } = this.candidate;
    try {
      const earlier = copies instanceof Promise ? await copies : copies;
      const value = await this.#runUnderTerm(run, earlier);
      if (await run.isDisowned(closing)) throw new DelayedError();
      return value;
    } catch (error) {
      if (propertyOf(error, 'name') !== 'DelayedError' && (await run.isDisowned(closing))) throw new DelayedError();
      throw asError(error);
    } finally {
      this.#live.leave(run);
      run.end();
    }
  }

  processing(job: Job): () => void {
    return this.#live.processing(job);
  }

  lockRenewalFailed(jobIds: readonly string[]): void {
    for (const id of jobIds) {
      for (const run of this.#live.of(id)) run.disown(new Error(`BullMQ could not renew its lock of job ${id}`));
    }
  }

  cancel(jobId: string, reason: unknown): boolean {
    return this.#live.cancel(jobId, reason);
  }

  cancelAll(reason: unknown): void {
    this.#live.cancelAll(reason);
  }

  get live(): number {
    return this.#live.size;
  }

  idle(): Promise<void> {
    return this.#live.idle();
  }

  async #runUnderTerm<R>(run: JobRun<R>, earlier: readonly JobRun[]): Promise<R> {
    const { job, token } = run;
    const { term, closing } = this.candidate;
    if (term === undefined || !term.isOpen) {
      const why = term?.end ?? this.#cancelled();
      return putBack(job, token, TURNED_AWAY_MS, why, closing);
    }
    if (earlier.length > 0) {
      // Within a term a fence cannot tell one copy of a job from another, so the second one never runs beside the first.
      const why = new Error(`BullMQ started job ${job.id} again: its lock had run out while this run went on`);
      for (const its of earlier) its.disown(why);
      return putBack(job, token, delayMs(job, Infinity), why, closing);
    }
    const seat = new TermRun(term, run, this.#context);
    term.enter(seat);
    try {
      return await seat.settle();
    } finally {
      term.leave(seat);
    }
  }

  #cancelled(cause?: Error): RunCancelledError {
    const { term } = this.candidate;
    return new RunCancelledError(this.#settings.resource as string, 'caller', term?.lease.fencingToken, cause);
  }
}
