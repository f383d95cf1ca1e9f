import { LeaseLostError, RunCancelledError, type Lease, type StaleTokenError } from '@leasehold/core';
import { UnrecoverableError, type Job } from 'bullmq';
import { Cancellation } from './cancellation.ts';
import type { LeasedJob, LeaseSettings } from './options.ts';
import { delayMs, putBack } from './put-back.ts';
import type { Body, RunObserver } from './runner.ts';
import type { Term } from './term.ts';
import { causesOf, codeOf, isControlError, propertyOf } from './thrown.ts';

type Settled<R> = { readonly value: R } | { readonly error: unknown };

/** One job under a term, from its start to what BullMQ is told of it. */
export class Seat<R = unknown> {
  readonly #term: Term;
  readonly #job: LeasedJob;
  readonly #token: string;
  readonly #settings: LeaseSettings;
  readonly #observer: RunObserver;
  readonly #cancellation: Cancellation;
  /** What the processor hears: one of Leasehold's errors, whatever was asked for. */
  readonly #controller = new AbortController();
  #lossAnnounced = false;

  constructor(
    term: Term,
    job: Job,
    token: string,
    outer: AbortSignal | undefined,
    settings: LeaseSettings,
    observer: RunObserver,
  ) {
    this.#term = term;
    // Not enumerable: a job's own properties are what BullMQ serialises and people log.
    this.#job = Object.defineProperty(job, 'lease', { value: term.lease, configurable: true }) as LeasedJob;
    this.#token = token;
    this.#settings = settings;
    this.#observer = observer;
    this.#cancellation = new Cancellation(outer);
    const { signal } = this.#cancellation;
    if (signal.aborted) this.#abort();
    else signal.addEventListener('abort', () => this.#abort());
  }

  /** Asks the processor to end. Only the first reason counts. */
  cancel(reason: Error): void {
    this.#cancellation.cancel(reason);
  }

  /**
   * The processor's value, or what BullMQ is to do with the job, thrown: the processor's own error; `DelayedError` if the job
   * was put back; what `whenLost` says. `leftBehind` hears of a processor that goes on although its job is no longer its own.
   */
  async run(body: Body<R>, leftBehind: (processor: Promise<unknown>) => void): Promise<R> {
    try {
      this.#observer.acquired(this.#job);
      // Listeners take their time as well.
      if (!this.#term.isOpen) return await this.#handBack(this.#whyEnded());
      const processor = settle(body, this.#controller.signal);
      const settled = await this.#orAbandoned(processor);
      if (settled !== undefined) return await this.#conclude(settled);
      const reason = this.#controller.signal.reason as Error;
      leftBehind(processor);
      this.#observer.abandoned(this.#job, reason);
      return await (this.#lease.isHeld() ? this.#handBack(reason) : this.#lose(undefined));
    } finally {
      this.#cancellation.end();
    }
  }

  get #lease(): Lease {
    return this.#term.lease;
  }

  #abort(): void {
    const { resource, fencingToken } = this.#lease;
    const reason: unknown = this.#cancellation.signal.reason;
    const code = codeOf(reason);
    const isOurs = code === 'LEASE_LOST' || code === 'RUN_CANCELLED';
    this.#controller.abort(isOurs ? reason : new RunCancelledError(resource, 'caller', fencingToken, reason));
    if (code === 'LEASE_LOST') this.#announceLoss(reason as LeaseLostError);
  }

  /** What the processor came to; undefined if it had not settled `abandonAfter` after its signal was aborted. */
  async #orAbandoned(processor: Promise<Settled<R>>): Promise<Settled<R> | undefined> {
    const { abandonAfterMs } = this.#settings;
    if (abandonAfterMs === Infinity) return processor;
    const { signal } = this.#controller;
    let timer: NodeJS.Timeout | undefined;
    const abandoned = new Promise<undefined>((resolve) => {
      const arm = (): void => void (timer = setTimeout(() => resolve(undefined), abandonAfterMs));
      if (signal.aborted) arm();
      else signal.addEventListener('abort', arm, { once: true });
    });
    try {
      return await Promise.race([processor, abandoned]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Decided at the instant when the processor has settled. */
  async #conclude(settled: Settled<R>): Promise<R> {
    if ('error' in settled) this.#hearRefusal(settled.error);
    if (!this.#lease.isHeld()) return this.#lose(settled);
    if ('value' in settled) return settled.value;
    const { error } = settled;
    const reason: unknown = this.#controller.signal.reason;
    // The end of a term is no failure of the job.
    const gaveWay = this.#term.end !== undefined && this.#term.end === reason && causesOf(error).includes(reason);
    if (gaveWay) return this.#handBack(error);
    throw error;
  }

  /** A write by the bare grant has no lease behind it to tell. By its fields: it may come from another process. */
  #hearRefusal(error: unknown): void {
    const { grant, holding } = this.#lease;
    const isRefusal = (at: unknown): boolean =>
      propertyOf(at, 'code') === 'STALE_TOKEN' &&
      propertyOf(at, 'resource') === grant.resource &&
      propertyOf(at, 'fencingToken') === grant.fencingToken &&
      Number.isSafeInteger(propertyOf(propertyOf(at, 'highest'), 'fencingToken'));
    const stale = causesOf(error).find(isRefusal);
    // A control error is what the processor wants, whatever it was made from.
    if (stale !== undefined && !isControlError(error)) holding.refused(stale as StaleTokenError);
  }

  async #lose(settled: Settled<R> | undefined): Promise<never> {
    const loss = this.#loss(settled);
    this.#announceLoss(loss);
    // What the processor has told BullMQ about the job it has done as well: moved it, for example.
    if (settled !== undefined && 'error' in settled && isControlError(settled.error)) throw settled.error;
    switch (this.#settings.whenLost) {
      case 'requeue':
        return this.#handBack(loss);
      case 'retry':
        throw loss;
      case 'fail':
        throw Object.assign(new UnrecoverableError(loss.message), { cause: loss });
    }
  }

  #loss(settled: Settled<R> | undefined): LeaseLostError {
    const { resource, leaseId, fencingToken } = this.#lease;
    try {
      this.#lease.assertHeld();
    } catch (error) {
      return error as LeaseLostError;
    }
    const cause = settled !== undefined && 'error' in settled ? settled.error : undefined;
    return new LeaseLostError(resource, { reason: 'fenced', leaseId, fencingToken, settled, cause });
  }

  #whyEnded(): Error {
    return this.#term.end ?? this.#loss(undefined);
  }

  #handBack(why: unknown): Promise<never> {
    return putBack(this.#job, this.#token, delayMs(this.#job, Infinity), why);
  }

  #announceLoss(error: LeaseLostError): void {
    if (this.#lossAnnounced) return;
    this.#lossAnnounced = true;
    this.#observer.lost(this.#job, error);
  }
}

/** Called in a promise, so that a processor that throws at once is no different from one that rejects. Never rejects. */
async function settle<R>(body: Body<R>, signal: AbortSignal): Promise<Settled<R>> {
  try {
    return { value: await body(signal) };
  } catch (error) {
    return { error };
  }
}
