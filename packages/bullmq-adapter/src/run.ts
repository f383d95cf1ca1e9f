import {
  type LeaseLostError,
  ResourceBusyError,
  RunCancelledError,
  type AcquireOptions,
  type BusyReason,
  type ConfigError,
  type Lease,
  type LeaseholdError,
  type LeaseManager,
  type Refusal,
} from '@leasehold/core';
import { DelayedError, type Job } from 'bullmq';
import { JobRun } from './job-run.ts';
import { LiveRuns } from './live-runs.ts';
import { LiveWaiter, type Wait } from './live-waiter.ts';
import { Losses } from './losses.ts';
import { lossNow, lossOf } from './loss.ts';
import { LossWatch } from './loss-watch.ts';
import type { LeasedJob, LeaseSettings, SkippedResult } from './options.ts';
import { ParkedJob } from './parked-job.ts';
import { Parking, type Lot, type Spot } from './parking.ts';
import { ABANDONED } from './patience.ts';
import { pause, settlesWithin } from './pause.ts';
import { busyDelayMs, delayMs, moveBack } from './put-back.ts';
import { resourceOf, unrecoverable } from './resource.ts';
import type { Body, JobRunner, RunObserver } from './runner.ts';
import { asError, codeOf, isControlError, propertyOf, withoutOrders } from './thrown.ts';

/** For how long a job keeps its slot while the lease store does not answer. */
const STORE_PATIENCE_MS = 30_000;
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 2000;
/** How long a job rests that could not run through no fault of its own. */
const OUTAGE_DELAY_MS = 5000;
/** How long BullMQ may take to hear of all jobs, when no processor is waited for. */
const FORCED_MS = 5000;
/** How many jobs a closing worker brings back for others to wait for. */
const MOST_HANDED_ON = 1000;

type Outcome<R> =
  | { readonly value: R | SkippedResult }
  /** The lease store gave no answer: to be asked again. */
  | { readonly again: unknown }
  | { readonly putBack: unknown; readonly forMs: number; readonly spot?: Spot | undefined };

/** Runs jobs under leases, for one worker or one wrapped processor. */
export class Runs implements JobRunner {
  readonly #manager: LeaseManager;
  readonly #settings: LeaseSettings;
  readonly #acquire: AcquireOptions;
  /** Of a job that does not wait for its resource: checked once, with the first. */
  #prepared: ReturnType<LeaseManager['jobs']['prepare']> | undefined;
  readonly #observer: RunObserver;
  readonly #closing: AbortSignal;
  readonly #watch: LossWatch;
  readonly #live = new LiveRuns();
  readonly #losses = new Losses();
  readonly #waiter = new LiveWaiter();
  readonly #lot: Lot | undefined;
  #isForced = false;
  /** Settled when those that wait have been brought back for others, which begins when the worker closes. */
  #handedOn: Promise<void> = Promise.resolve();

  /** `closing` aborts when no time is to be spent on waiting any more. */
  constructor(manager: LeaseManager, settings: LeaseSettings, observer: RunObserver, closing: AbortSignal) {
    this.#manager = manager;
    this.#settings = settings;
    // A job is nobody's child, wherever its worker was made.
    this.#acquire = { ...settings.acquire, detached: true };
    this.#observer = observer;
    this.#closing = closing;
    this.#watch = LossWatch.of(manager);
    if (settings.whenBusy !== 'delay') return;
    const lot = Parking.of(manager).open();
    this.#lot = lot;
    closing.addEventListener('abort', () => {
      this.#handedOn = lot.close(MOST_HANDED_ON);
    });
  }

  get live(): number {
    return this.#live.size;
  }

  async idle(): Promise<void> {
    await this.#live.idle();
    if (this.#lot !== undefined) await Parking.of(this.#manager).rest();
    await this.#manager.jobs.released();
  }

  processing(job: Job): () => void {
    return this.#live.processing(job);
  }

  cancel(jobId: string, reason: unknown): boolean {
    return this.#live.cancel(jobId, reason);
  }

  cancelAll(reason: unknown): void {
    this.#live.cancelAll(reason);
  }

  async abandonAll(reason: Error): Promise<void> {
    this.#isForced = true;
    this.cancelAll(reason);
    if (!(await settlesWithin(this.#live.idle(), 0))) this.#live.giveUpAll();
    await settlesWithin(this.idle(), FORCED_MS);
  }

  handedOn(): Promise<void> {
    return this.#handedOn;
  }

  lockRenewalFailed(jobIds: readonly string[]): void {
    for (const id of jobIds) {
      for (const run of this.#live.of(id)) run.disown(new Error(`BullMQ could not renew its lock of job ${id}`));
    }
  }

  /**
   * The processor's value, or whatever BullMQ is to do with the job, thrown: the processor's own error; `DelayedError` if the
   * job was put back, or is not for this run to speak of any more; what `whenBusy` and `whenLost` say;
   * `UnrecoverableError` if its resource cannot be named.
   */
  async run<R>(job: Job, token: string, outer: AbortSignal | undefined, body: Body<R>): Promise<R> {
    const run = new JobRun(job, token, outer, body, this.#settings.abandonAfterMs);
    const copies = this.#live.enter(run);
    this.#lot?.arrived(job);
    try {
      const earlier = copies instanceof Promise ? await copies : copies;
      if (earlier.length > 0) await this.#refuseCopy(run, earlier);
      const resource = resourceOf(this.#settings.resource, job);
      const sinceMs = performance.now();
      const outcome = await this.#try(run, resource);
      // A promise for each job is worth to be saved where nothing is the matter.
      const value = 'value' in outcome ? (outcome.value as R) : await this.#goOn(run, resource, outcome, sinceMs);
      if (run.isInDoubt && (await run.isDisowned(this.#closing))) throw new DelayedError();
      return value;
    } catch (error) {
      if (run.isInDoubt && propertyOf(error, 'name') !== 'DelayedError' && (await run.isDisowned(this.#closing)))
        throw new DelayedError();
      throw asError(error);
    } finally {
      if (run.lease !== undefined) this.#watch.end(run.lease);
      this.#live.leave(run);
      run.end();
    }
  }

  /**
   * BullMQ has taken its own job for stalled while we still run it. To run both would break its tracking: the end of the
   * first would end the renewal of the second one's lock.
   */
  async #refuseCopy(run: JobRun, earlier: readonly JobRun[]): Promise<never> {
    const reason = new Error(`BullMQ started job ${run.job.id} again: its lock had run out while this run went on`);
    for (const its of earlier) its.disown(reason);
    return this.#putBack(run, { putBack: reason, forMs: delayMs(run.job, Infinity) });
  }

  /** After a first try, made at `sinceMs`, that came to no value. */
  async #goOn<R>(run: JobRun<R>, resource: string | null, first: Outcome<R>, sinceMs: number): Promise<R> {
    const patientUntilMs = sinceMs + STORE_PATIENCE_MS;
    let outcome = first;
    for (let pauseMs = FIRST_RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_RETRY_MS)) {
      if ('value' in outcome) return outcome.value as R;
      if ('putBack' in outcome) return this.#putBack(run, outcome);
      const { cancellation } = run;
      const leftMs = patientUntilMs - performance.now();
      if (leftMs > 0)
        await pause(Math.min(pauseMs, leftMs) * (0.75 + Math.random() / 4), cancellation.signal, this.#closing);
      if (this.#wasCancelled(run))
        throw new RunCancelledError(String(resource), 'caller', undefined, cancellation.reason);
      if (leftMs <= 0 || cancellation.aborted || this.#closing.aborted) {
        this.#trouble(outcome.again);
        return this.#putBack(run, { putBack: outcome.again, forMs: OUTAGE_DELAY_MS });
      }
      outcome = await this.#try(run, resource);
    }
  }

  async #putBack(run: JobRun, { putBack, forMs, spot }: Extract<Outcome<never>, { putBack: unknown }>): Promise<never> {
    const result = await moveBack(run.job, run.token, forMs, this.#closing, () => !this.#isForced);
    if (spot !== undefined) {
      if (result === 'moved') spot.moved(forMs);
      else spot.gone();
      // Not to be brought back here before BullMQ is done with it.
      this.#live.whenDone(run, () => spot.ready());
    }
    throw result === 'failed' ? putBack : new DelayedError();
  }

  async #try<R>(run: JobRun<R>, resource: string | null): Promise<Outcome<R>> {
    // What BullMQ had fetched before it heard that its worker closes.
    if (this.#closing.aborted)
      return { putBack: new Error('the worker is closing'), forMs: delayMs(run.job, Infinity) };
    try {
      const outcome = await run.patience.with(this.#begin(run, resource));
      if (outcome !== ABANDONED) {
        if ('value' in outcome) this.#losses.forget(run.job);
        return 'reason' in outcome ? this.#busy(run, String(resource), outcome) : outcome;
      }
    } catch (error) {
      if (run.signal !== undefined) return this.#ended(run, error);
      return this.#notStarted(run, error);
    } finally {
      run.question?.over();
      run.question = undefined;
    }
    return this.#abandoned(run);
  }

  #begin<R>(run: JobRun<R>, resource: string | null): Promise<Outcome<R> | Refusal> {
    if (resource === null) return this.#runBare(run);
    const wait = this.#waitOf(run.job);
    if (wait !== undefined) return this.#runWaiting(run, resource, wait);
    const { jobs } = this.#manager;
    this.#prepared ??= jobs.prepare({ ...this.#acquire, park: this.#settings.whenBusy === 'delay' });
    const body = (lease: Lease): Promise<R> | R => this.#runBody(run, lease);
    return jobs.tryRun(resource, this.#prepared, run.cancellation, body, () => this.#asks(run, resource));
  }

  #asks(run: JobRun, resource: string): void {
    run.question = this.#lot?.ask(resource);
  }

  async #runBare<R>(run: JobRun<R>): Promise<Outcome<R>> {
    const { signal } = run.cancellation;
    run.begin(signal);
    return { value: await run.body(signal) };
  }

  async #runWaiting<R>(run: JobRun<R>, resource: string, wait: Wait): Promise<Outcome<R> | Refusal> {
    this.#asks(run, resource);
    const stop = this.#endOnClosing(run, resource);
    const options = { ...this.#acquire, wait: wait.forMs, signal: run.cancellation.signal };
    try {
      const result = await this.#manager.tryRun(resource, options, (lease) => {
        stop();
        wait.end(false);
        return this.#runBody(run, lease);
      });
      // Standing in line is not leaving a name.
      if (!result.ran) this.#lot?.leaveName(resource);
      return result;
    } finally {
      stop();
      wait.end(true);
    }
  }

  #waitOf(job: Job): Wait | undefined {
    if (this.#settings.whenBusy === 'hold') return { forMs: Infinity, end() {} };
    return this.#settings.whenBusy === 'delay' ? this.#waiter.claim(job) : undefined;
  }

  /** Whoever waits in line does so no longer when the worker closes. Returns what ends this. */
  #endOnClosing(run: JobRun, resource: string): () => void {
    const end = (): void => run.cancellation.cancel(new RunCancelledError(resource, 'shutdown'));
    this.#closing.addEventListener('abort', end);
    return () => this.#closing.removeEventListener('abort', end);
  }

  #runBody<R>(run: JobRun<R>, lease: Lease): Promise<R> | R {
    run.question?.granted();
    this.#lot?.begins(lease.resource);
    const job = withLeaseProperty(run.job, lease);
    const { signal } = lease;
    run.lease = lease;
    run.begin(signal);
    this.#watch.begin(lease, (error) => this.#announceLoss(run, error));
    this.#observer.acquired(job);
    return run.body(signal);
  }

  #busy({ job, question }: JobRun, resource: string, refusal: Refusal): Outcome<never> {
    const { holder } = refusal;
    const remainingMs = Math.ceil(refusal.remainingMs);
    this.#observer.busy(job, holder, remainingMs, resource);
    if (this.#settings.whenBusy === 'skip') return { value: { skipped: 'busy', resource } };
    // No tick was claimed, so none was refused.
    const busy = new ResourceBusyError(resource, { reason: refusal.reason as BusyReason, holder, remainingMs });
    if (this.#settings.whenBusy === 'fail') throw busy;
    const spot = question?.refused(new ParkedJob(job), holder?.fencingToken);
    return { putBack: busy, forMs: busyDelayMs(job, remainingMs), spot };
  }

  /** What an acquisition that came to nothing means for the job; throws what is to be recorded as its failure. */
  #notStarted(run: JobRun, error: unknown): Outcome<never> {
    const { job } = run;
    switch (codeOf(error)) {
      case 'STORE_UNAVAILABLE':
        return { again: error };
      case 'CONFIG':
        // Only what is wrong with this job's resource is this job's fault.
        if ((error as ConfigError).option === 'resource') throw unrecoverable(error as ConfigError);
        break;
      case 'STALE_TOKEN':
      case 'FENCE_UNAVAILABLE':
      case 'LEASE_LOST':
        this.#trouble(error);
        return { putBack: error, forMs: Math.max(1000, delayMs(job, Infinity)) };
      case 'RUN_CANCELLED':
        if (this.#wasCancelled(run)) throw error;
        break;
      case 'MANAGER_CLOSED':
      case 'STORE_AUTH':
      case 'STORE_VERSION':
        break;
      default:
        // Nobody has moved it.
        throw withoutOrders(error, 'was thrown before the job began');
    }
    this.#trouble(error);
    return { putBack: error, forMs: OUTAGE_DELAY_MS };
  }

  /** Somebody cancelled the job itself (`worker.cancelJob`): it fails, as it does when its processor hears of it. */
  #wasCancelled({ cancellation, isInDoubt }: JobRun): boolean {
    const { aborted, reason } = cancellation;
    return aborted && !isInDoubt && !isShutdown(reason);
  }

  /** What an error of a run that had begun means for the job; throws what is to be recorded as its failure. */
  #ended(run: JobRun, error: unknown): Outcome<never> {
    const loss = run.lease === undefined ? undefined : lossOf(run.lease, error);
    if (loss !== undefined) return this.#lost(run, loss);
    this.#losses.forget(run.job);
    if (isControlError(error)) throw error;
    // A process that goes away is no failure of the job, whatever its processor makes of it.
    if (isShutdown(run.signal?.reason)) return { putBack: error, forMs: delayMs(run.job, Infinity) };
    throw error;
  }

  /** The body goes on, without its slot; its lease runs out, as it is not to be given to another beside it. */
  #abandoned(run: JobRun): Outcome<never> {
    const { job, lease, signal } = run;
    const reason = asError(signal?.reason);
    lease?.abandon();
    this.#observer.abandoned(job as LeasedJob, reason);
    const loss = lease === undefined ? undefined : lossNow(lease);
    if (loss !== undefined) return this.#lost(run, loss);
    return { putBack: reason, forMs: delayMs(job, Infinity) };
  }

  #lost(run: JobRun, loss: LeaseLostError): Outcome<never> {
    this.#announceLoss(run, loss);
    const { settled } = loss;
    // What the processor has told BullMQ about the job it has done as well: moved it, for example.
    if (settled !== undefined && 'error' in settled && isControlError(settled.error)) throw settled.error;
    const { whenLost } = this.#settings;
    if (whenLost === 'fail') throw unrecoverable(loss);
    if (this.#losses.add(run.job) || whenLost === 'retry') throw loss;
    return { putBack: loss, forMs: delayMs(run.job, Infinity) };
  }

  #announceLoss(run: JobRun, error: LeaseLostError): void {
    if (run.lossAnnounced) return;
    run.lossAnnounced = true;
    this.#observer.lost(run.job as LeasedJob, error);
  }

  /** That a closing worker or manager does not start jobs is no trouble. */
  #trouble(error: unknown): void {
    const code = codeOf(error);
    if (code === 'RUN_CANCELLED' || (code === 'MANAGER_CLOSED' && this.#closing.aborted)) return;
    this.#observer.troubled(error as LeaseholdError);
  }
}

function isShutdown(reason: unknown): boolean {
  return codeOf(reason) === 'RUN_CANCELLED' && propertyOf(reason, 'reason') === 'shutdown';
}

/** Not enumerable: a job's own properties are what BullMQ serialises and people log. */
function withLeaseProperty(job: Job, lease: Lease): LeasedJob {
  return Object.defineProperty(job, 'lease', { value: lease, configurable: true }) as LeasedJob;
}
