import { LeaseLostError, type Lease, type StaleTokenError } from '@leasehold/core';
import type { JobRun } from './job-run.ts';
import type { Losses } from './losses.ts';
import type { LeasedJob, LeaseSettings } from './options.ts';
import { ABANDONED } from './patience.ts';
import { delayMs, putBack } from './put-back.ts';
import { unrecoverable } from './resource.ts';
import type { RunObserver } from './runner.ts';
import type { Seat, Term } from './term.ts';
import { asError, causesOf, codeOf, isControlError, propertyOf } from './thrown.ts';

type Settled<R> = { readonly value: R } | { readonly error: unknown };

/** What the runs of a worker have in common. */
export interface TermRunContext {
  readonly settings: LeaseSettings;
  readonly observer: RunObserver;
  readonly losses: Losses;
  /** Aborted when the worker begins to close. */
  readonly closing: AbortSignal;
  /** A processor of the term was left behind. */
  abandoned(term: Term): void;
}

/** One job under a term, from its start to what BullMQ is told of it. */
export class TermRun<R> implements Seat {
  readonly #term: Term;
  readonly #run: JobRun<R>;
  readonly #context: TermRunContext;
  #giveUp: () => void = () => {};

  constructor(term: Term, run: JobRun<R>, context: TermRunContext) {
    this.#term = term;
    this.#run = run;
    this.#context = context;
    run.lease = term.lease;
    // Not enumerable: a job's own properties are what BullMQ serialises and people log.
    Object.defineProperty(run.job, 'lease', { value: term.lease, configurable: true });
  }

  cancel(reason: Error): void {
    this.#run.cancellation.cancel(reason);
    if (codeOf(reason) === 'LEASE_LOST') this.#announceLoss(reason as LeaseLostError);
  }

  giveUp(): void {
    this.#giveUp();
  }

  /**
   * The processor's value, or what BullMQ is to do with the job, thrown: the processor's own error; `DelayedError` if the job
   * was put back; what `whenLost` says.
   */
  async settle(): Promise<R> {
    this.#context.observer.acquired(this.#job);
    // Those who listen take their time as well.
    if (!this.#term.isOpen) return this.#handBack(this.#term.end);
    const processor = settled(() => this.#run.body(this.#signal));
    const outcome = await this.#patiently(processor);
    return outcome === ABANDONED ? this.#abandon(processor) : this.#conclude(outcome);
  }

  get #lease(): Lease {
    return this.#term.lease;
  }

  get #job(): LeasedJob {
    return this.#run.job as LeasedJob;
  }

  get #signal(): AbortSignal {
    return this.#run.cancellation.signal;
  }

  #patiently(processor: Promise<Settled<R>>): Promise<Settled<R> | typeof ABANDONED> {
    this.#run.begin(this.#signal);
    return new Promise((resolve) => {
      this.#giveUp = () => resolve(ABANDONED);
      void this.#run.patience.with(processor).then(resolve);
    });
  }

  /** The term is over as well: under the next one the job may run beside what is left behind, which the fence refuses then. */
  #abandon(processor: Promise<Settled<R>>): Promise<never> {
    const reason = asError(this.#signal.reason);
    this.#term.leaveBehind(processor);
    this.#context.abandoned(this.#term);
    this.#context.observer.abandoned(this.#job, reason);
    return this.#lease.isHeld() ? this.#handBack(reason) : this.#lose(undefined);
  }

  /** Decided at the instant when the processor has settled. */
  async #conclude(outcome: Settled<R>): Promise<R> {
    if ('error' in outcome) this.#hearRefusal(outcome.error);
    if (!this.#lease.isHeld()) return this.#lose(outcome);
    this.#context.losses.forget(this.#job);
    if ('value' in outcome) return outcome.value;
    const { error } = outcome;
    if (isControlError(error)) throw error;
    // The end of a term is no failure of the job, whatever its processor makes of it.
    const { end } = this.#term;
    const why: unknown = this.#signal.reason;
    // A worker that was paused lets its jobs go on; then they hear of what ends the lease.
    if (end !== undefined && (why === end || why === this.#lease.signal.reason)) return this.#handBack(error);
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
    // Or what another client made of a guard of ours: the fence that made it knows.
    const stale = causesOf(error).find(isRefusal) ?? this.#refusalIn(error, isRefusal);
    // A control error is what the processor wants, whatever it was made from.
    if (stale !== undefined && !isControlError(error)) holding.refused(stale as StaleTokenError);
  }

  #refusalIn(error: unknown, isRefusal: (at: unknown) => boolean): StaleTokenError | undefined {
    for (const fence of this.#context.settings.acquire.fences ?? []) {
      try {
        const refusal = fence.refusalOf?.(error);
        if (isRefusal(refusal)) return refusal;
      } catch {
        // A fence that cannot say is no reason to lose the processor's own error.
      }
    }
    return undefined;
  }

  async #lose(outcome: Settled<R> | undefined): Promise<never> {
    const loss = lossOf(this.#lease);
    this.#announceLoss(loss);
    // What the processor has told BullMQ about the job it has done as well: moved it, for example.
    if (outcome !== undefined && 'error' in outcome && isControlError(outcome.error)) throw outcome.error;
    const { whenLost } = this.#context.settings;
    if (whenLost === 'fail') throw unrecoverable(loss);
    if (this.#context.losses.add(this.#job) || whenLost === 'retry') throw loss;
    return this.#handBack(loss);
  }

  #handBack(why: unknown): Promise<never> {
    return putBack(this.#job, this.#run.token, delayMs(this.#job, Infinity), why, this.#context.closing);
  }

  #announceLoss(error: LeaseLostError): void {
    if (this.#run.lossAnnounced) return;
    this.#run.lossAnnounced = true;
    this.#context.observer.lost(this.#job, error);
  }
}

/** Called in a promise, so that a processor that throws at once is no different from one that rejects. Never rejects. */
async function settled<R>(body: () => Promise<R> | R): Promise<Settled<R>> {
  try {
    return { value: await body() };
  } catch (error) {
    return { error };
  }
}

/** Of a lease that is not held. */
function lossOf(lease: Lease): LeaseLostError {
  try {
    lease.assertHeld();
  } catch (error) {
    return error as LeaseLostError;
  }
  const { resource, leaseId, fencingToken } = lease;
  return new LeaseLostError(resource, { reason: 'expired', leaseId, fencingToken });
}
