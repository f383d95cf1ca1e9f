import {
  LeaseholdError,
  LeaseLostError,
  ResourceBusyError,
  type AcquireOptions,
  type BusyReason,
  type ConfigError,
  type Lease,
  type LeaseManager,
  type RunCancelledError,
} from '@leasehold/core';
import type { Job } from 'bullmq';
import { Cancellation } from './cancellation.ts';
import type { LeasedJob, LeaseSettings, ResourceOption } from './options.ts';
import { delayMs, putBack } from './put-back.ts';
import { resourceOf, unrecoverable } from './resource.ts';
import type { Body, JobRunner, RunObserver } from './runner.ts';
import { asError, causesOf, codeOf, isControlError, propertyOf } from './thrown.ts';

/** For how long a job keeps its slot while the lease store does not answer. */
const STORE_PATIENCE_MS = 30_000;
const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 2000;
/** How long a job rests that could not run through no fault of its own. */
const OUTAGE_DELAY_MS = 5000;

/** One job in one process, from its start to what BullMQ is told of it. */
interface Run<R> {
  readonly job: Job;
  readonly token: string;
  readonly resource: string;
  readonly cancellation: Cancellation;
  readonly body: Body<R>;
  /** Set when the body begins. */
  lease: Lease | undefined;
  lossAnnounced: boolean;
}

type Outcome<R> =
  | { readonly value: R }
  | { readonly again: unknown }
  | { readonly putBack: unknown; readonly forMs: number };

/** Runs jobs under leases, for one worker or one wrapped processor. */
export class Runs implements JobRunner {
  readonly #manager: LeaseManager;
  readonly #resource: ResourceOption;
  readonly #acquire: AcquireOptions;
  readonly #observer: RunObserver;
  readonly #closing: AbortSignal;
  /** A set for each job id: BullMQ may start a job again while its earlier run still goes on. */
  readonly #live = new Map<string, Set<Cancellation>>();
  readonly #all = new Set<Cancellation>();
  readonly #idle = new Set<() => void>();

  /** `closing` aborts when no time is to be spent on waiting any more. */
  constructor(manager: LeaseManager, settings: LeaseSettings, observer: RunObserver, closing: AbortSignal) {
    this.#manager = manager;
    this.#resource = settings.resource;
    // A job is nobody's child, wherever its worker was made.
    this.#acquire = { ...settings.acquire, detached: true };
    this.#observer = observer;
    this.#closing = closing;
  }

  /**
   * The processor's value, or whatever BullMQ is to do with the job, thrown: the processor's own error; `DelayedError` if the
   * job was put back, which uses no attempt; `UnrecoverableError` if its resource cannot be named; `LeaseLostError` if the
   * lease was lost and the job could not be put back.
   */
  async run<R>(job: Job, token: string, outer: AbortSignal | undefined, body: Body<R>): Promise<R> {
    const cancellation = new Cancellation(outer);
    const leave = this.#enter(job.id, cancellation);
    try {
      const resource = resourceOf(this.#resource, job);
      if (resource === null) return await body(cancellation.signal);
      return await this.#settle({ job, token, resource, cancellation, body, lease: undefined, lossAnnounced: false });
    } catch (error) {
      throw asError(error);
    } finally {
      leave();
      cancellation.end();
    }
  }

  get live(): number {
    return this.#all.size;
  }

  async idle(): Promise<void> {
    if (this.#all.size > 0) await new Promise<void>((resolve) => this.#idle.add(resolve));
  }

  cancelAll(reason: Error): void {
    for (const cancellation of this.#all) cancellation.cancel(reason);
  }

  lockRenewalFailed(jobIds: readonly string[]): void {
    for (const id of jobIds) {
      for (const cancellation of this.#live.get(id) ?? []) {
        cancellation.cancel(new Error(`BullMQ could not renew its lock of job ${id}`));
      }
    }
  }

  #enter(id: string | undefined, cancellation: Cancellation): () => void {
    this.#all.add(cancellation);
    const live = this.#live.get(id ?? '') ?? new Set();
    this.#live.set(id ?? '', live.add(cancellation));
    return () => {
      live.delete(cancellation);
      if (live.size === 0) this.#live.delete(id ?? '');
      this.#all.delete(cancellation);
      if (this.#all.size > 0) return;
      for (const resolve of this.#idle) resolve();
      this.#idle.clear();
    };
  }

  async #settle<R>(run: Run<R>): Promise<R> {
    const { signal } = run.cancellation;
    const patientUntilMs = performance.now() + STORE_PATIENCE_MS;
    for (let pauseMs = FIRST_RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_RETRY_MS)) {
      const outcome = await this.#try(run);
      if ('value' in outcome) return outcome.value;
      if ('putBack' in outcome) return putBack(run.job, run.token, outcome.forMs, outcome.putBack);
      const leftMs = patientUntilMs - performance.now();
      if (leftMs > 0) await pause(Math.min(pauseMs, leftMs) * (0.75 + Math.random() / 4), signal, this.#closing);
      if (leftMs <= 0 || signal.aborted || this.#closing.aborted) {
        this.#trouble(outcome.again);
        return putBack(run.job, run.token, OUTAGE_DELAY_MS, outcome.again);
      }
    }
  }

  async #try<R>(run: Run<R>): Promise<Outcome<R>> {
    const { job, resource, cancellation } = run;
    try {
      const options = { ...this.#acquire, signal: cancellation.signal };
      const result = await this.#manager.tryRun(resource, options, (lease) => this.#runBody(run, lease));
      if (result.ran) return result;
      const { holder, remainingMs } = result;
      this.#observer.busy(job, holder, remainingMs);
      // No tick was claimed, so none was refused.
      const busy = new ResourceBusyError(resource, { reason: result.reason as BusyReason, holder, remainingMs });
      return { putBack: busy, forMs: delayMs(job, remainingMs) };
    } catch (error) {
      return run.lease === undefined ? this.#notStarted(job, error) : this.#ended(run, run.lease, error);
    }
  }

  async #runBody<R>(run: Run<R>, lease: Lease): Promise<R> {
    const job = withLeaseProperty(run.job, lease);
    const { signal } = lease;
    const announceLoss = (): void => {
      if (LeaseholdError.is(signal.reason, 'LEASE_LOST')) this.#announceLoss(run, job, signal.reason as LeaseLostError);
    };
    run.lease = lease;
    signal.addEventListener('abort', announceLoss);
    try {
      this.#observer.acquired(job);
      return await run.body(signal);
    } finally {
      signal.removeEventListener('abort', announceLoss);
    }
  }

  /** What an acquisition that came to nothing means for the job; throws what is to be recorded as its failure. */
  #notStarted(job: Job, error: unknown): Outcome<never> {
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
      case 'MANAGER_CLOSED':
      case 'STORE_AUTH':
      case 'STORE_VERSION':
      case 'RUN_CANCELLED':
        break;
      default:
        throw error;
    }
    this.#trouble(error);
    return { putBack: error, forMs: OUTAGE_DELAY_MS };
  }

  /** What an error of a run that had begun means for the job; throws what is to be recorded as its failure. */
  #ended<R>(run: Run<R>, lease: Lease, error: unknown): Outcome<never> {
    const loss = lossOf(run.resource, lease, error);
    if (loss !== undefined) {
      this.#announceLoss(run, run.job as LeasedJob, loss);
      const { settled } = loss;
      // What the processor has told BullMQ about the job it has done as well: moved it, for example.
      if (settled !== undefined && 'error' in settled && isControlError(settled.error)) throw settled.error;
      return { putBack: loss, forMs: delayMs(run.job, Infinity) };
    }
    const reason: unknown = lease.signal.reason;
    const shutdown = codeOf(reason) === 'RUN_CANCELLED' && (reason as RunCancelledError).reason === 'shutdown';
    // A process that goes away is no failure of the job.
    if (shutdown && causesOf(error).includes(reason)) return { putBack: error, forMs: delayMs(run.job, Infinity) };
    throw error;
  }

  #announceLoss(run: Run<unknown>, job: LeasedJob, error: LeaseLostError): void {
    if (run.lossAnnounced) return;
    run.lossAnnounced = true;
    this.#observer.lost(job, error);
  }

  /** That a closing worker or manager does not start jobs is no trouble. */
  #trouble(error: unknown): void {
    const code = codeOf(error);
    if (code === 'RUN_CANCELLED' || (code === 'MANAGER_CLOSED' && this.#closing.aborted)) return;
    this.#observer.troubled(error as LeaseholdError);
  }
}

/** Not enumerable: a job's own properties are what BullMQ serialises and people log. */
function withLeaseProperty(job: Job, lease: Lease): LeasedJob {
  return Object.defineProperty(job, 'lease', { value: lease, configurable: true }) as LeasedJob;
}

/**
 * The loss that ended a run: the manager's word; or a fence's, which the manager has not heard when the write was given the
 * bare grant.
 */
function lossOf(resource: string, lease: Lease, error: unknown): LeaseLostError | undefined {
  const { leaseId, fencingToken } = lease;
  if (codeOf(error) === 'LEASE_LOST' && (error as LeaseLostError).leaseId === leaseId) return error as LeaseLostError;
  // By its fields: what a fence said in another process or thread comes without its class.
  const isStale = (at: unknown): boolean =>
    propertyOf(at, 'code') === 'STALE_TOKEN' &&
    propertyOf(at, 'resource') === lease.grant.resource &&
    propertyOf(at, 'fencingToken') === fencingToken;
  if (isControlError(error) || !causesOf(error).some(isStale)) return undefined;
  return new LeaseLostError(resource, { reason: 'fenced', leaseId, fencingToken, settled: { error }, cause: error });
}

/** Resolves after `forMs`, or as soon as one of the signals is aborted. */
async function pause(forMs: number, ...signals: readonly AbortSignal[]): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      for (const signal of signals) signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, forMs);
    for (const signal of signals) {
      if (signal.aborted) done();
      else signal.addEventListener('abort', done);
    }
  });
}
