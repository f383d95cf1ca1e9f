import type { LeaseManager } from '@leasehold/core';
import { RunCancelledError } from '@leasehold/core';
import type { Job } from 'bullmq';
import { Candidate, type Engine, type TermObserver } from './candidate.ts';
import type { LeaseSettings } from './options.ts';
import { putBack } from './put-back.ts';
import type { Body, JobRunner, RunObserver } from './runner.ts';
import { Seat } from './seat.ts';
import type { Term } from './term.ts';
import { asError } from './thrown.ts';

/** How long a job rests that reached a worker out of office. By then the next one is at work. */
const TURNED_AWAY_MS = 50;
/** How long a second copy of a job rests, so that the first can end. */
const SECOND_COPY_MS = 1000;

/**
 * Runs jobs under the one lease of their worker, and only while it is held. BullMQ's pause lets jobs through that were asked
 * for before; this is what they come to.
 */
export class WorkerScope implements JobRunner {
  readonly candidate: Candidate;
  readonly #settings: LeaseSettings;
  readonly #observer: RunObserver;
  readonly #idle = new Set<() => void>();
  #live = 0;

  constructor(manager: LeaseManager, settings: LeaseSettings, observer: RunObserver & TermObserver, engine: Engine) {
    this.candidate = new Candidate(manager, settings, observer, engine);
    this.#settings = settings;
    this.#observer = observer;
  }

  async run<R>(job: Job, token: string, outer: AbortSignal | undefined, body: Body<R>): Promise<R> {
    this.#live++;
    try {
      const { term } = this.candidate;
      if (term === undefined || !term.isOpen) return await putBack(job, token, TURNED_AWAY_MS, this.#outOfOffice(term));
      const first = term.holderOf(job.id);
      if (first === undefined) return await this.#runUnder(term, job, token, outer, body);
      // BullMQ has taken it for stalled, and tracks both by the job's id alone: the end of one would end the lock of the other.
      const again = new Error(`BullMQ started job ${job.id} again while it ran: it had lost its lock`);
      first.cancel(again);
      return await putBack(job, token, SECOND_COPY_MS, again);
    } catch (error) {
      throw asError(error);
    } finally {
      this.#live--;
      if (this.#live === 0) {
        for (const resolve of this.#idle) resolve();
        this.#idle.clear();
      }
    }
  }

  lockRenewalFailed(jobIds: readonly string[]): void {
    for (const id of jobIds) {
      this.candidate.term?.holderOf(id)?.cancel(new Error(`BullMQ could not renew its lock of job ${id}`));
    }
  }

  cancelAll(reason: Error): void {
    this.candidate.term?.abort(reason);
  }

  get live(): number {
    return this.#live;
  }

  async idle(): Promise<void> {
    if (this.#live > 0) await new Promise<void>((resolve) => this.#idle.add(resolve));
  }

  async #runUnder<R>(term: Term, job: Job, token: string, outer: AbortSignal | undefined, body: Body<R>): Promise<R> {
    const seat = new Seat<R>(term, job, token, outer, this.#settings, this.#observer);
    let leftBehind: Promise<unknown> | undefined;
    term.enter(job.id, seat);
    try {
      return await seat.run(body, (processor) => {
        leftBehind = processor;
        this.candidate.abandon(term);
      });
    } finally {
      term.leave(job.id, leftBehind);
    }
  }

  #outOfOffice(term: Term | undefined): Error {
    return term?.end ?? new RunCancelledError(this.#settings.resource as string, 'caller');
  }
}
