import { performance } from 'node:perf_hooks';
import { setImmediate as turn } from 'node:timers/promises';

import { LeaseholdError, NotStartedError, type Lease } from '@leasehold/core';
import type { Logger } from 'pino';

import type { AnyJobHandler, JobContext, JobInfo, RunInfo } from './context.ts';
import type { Metrics } from './metrics.ts';
import { readable } from './thrown.ts';

/** More than this a timer of Node cannot wait. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * What became of a run. `cancelled`: it was told to end and gave up with an error, its lease still held. `lost`: it had no lease
 * any more when it ended, whatever it returned.
 */
export type RunOutcome = 'done' | 'failed' | 'cancelled' | 'lost';

/** A run that is about to begin. */
export interface RunStart {
  readonly handler: AnyJobHandler;
  readonly job: JobInfo;
  readonly run: RunInfo;
  readonly lease: Lease;
  readonly signal: AbortSignal;
  readonly fences: object;
  /** How long the handler may ignore its signal before it counts as abandoned. Milliseconds. */
  readonly patienceMs: number;
}

/** The runs of this process, of all jobs: begun, counted and told of in one way, whoever triggers them. */
export class Runs {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #onAbandoned: (() => void) | undefined;
  readonly #told = new WeakSet<object>();
  #active = 0;
  #isClosing = false;
  readonly #waiting = new Set<() => void>();

  /** `onAbandoned` is called for each handler that goes on for so long after its signal was aborted. */
  constructor(log: Logger, metrics: Metrics, onAbandoned?: () => void) {
    this.#log = log;
    this.#metrics = metrics;
    this.#onAbandoned = onAbandoned;
  }

  /** How many go on. */
  get active(): number {
    return this.#active;
  }

  /** None begins any more: `perform` throws `NotStartedError`. */
  close(): void {
    this.#isClosing = true;
  }

  /** Resolves when none goes on. */
  idle(): Promise<void> {
    if (this.#active === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  /** Whether an error is that of a run, and so was told of. */
  hasTold(error: unknown): boolean {
    return typeof error === 'object' && error !== null && this.#told.has(error);
  }

  /**
   * Runs the handler. Settles as it does; what it threw and nobody can read becomes an error that says so. Rejects with `NotStartedError` when
   * the shutdown or another end of the run, and with `LeaseLostError` when the end of the lease, came before the handler was called.
   */
  async perform({ handler, job, run, lease, signal, fences, patienceMs }: RunStart): Promise<unknown> {
    // A handler that blocked the event loop has kept a signal from being heard, and an answer of the store may be read before it. Node hears of
    // signals where it polls, which is once in each turn.
    await turn();
    if (this.#isClosing) throw new NotStartedError(lease.resource, 'the shutdown came first');
    // Other handlers may have blocked meanwhile.
    lease.assertHeld();
    if (signal.aborted) throw new NotStartedError(lease.resource, 'it was told to end first', signal.reason);
    const { name, id } = job;
    const fields = {
      job: name,
      ...(id === null ? {} : { jobId: id }),
      resource: lease.resource,
      token: lease.fencingToken,
    };
    const log = this.#log.child(fields);
    const context: JobContext = { job, run, lease, signal, fences: fences as JobContext['fences'], log };
    const began = performance.now();
    this.#active++;
    this.#metrics.began(name);
    log.info({ tick: run.tick, trigger: run.trigger, attempt: run.attempt }, 'run begins');
    const stopWatching = this.#watch(signal, patienceMs, log);
    let failed = false;
    let error: unknown;
    try {
      return await (handler as (context: JobContext) => unknown)(context);
    } catch (thrown) {
      const err = readable(thrown);
      failed = true;
      error = err;
      // What was not even begun, as for a thread that was being started, is put back by who took it.
      if (!signal.aborted || LeaseholdError.of(err)?.code !== 'NOT_STARTED') this.#told.add(err);
      throw err;
    } finally {
      stopWatching();
      const durationMs = Math.round(performance.now() - began);
      const outcome = outcomeOf(lease.isHeld(), failed, signal.aborted);
      if (--this.#active === 0) this.#wake();
      this.#metrics.ended(name, outcome, durationMs);
      if (outcome === 'done') log.info({ outcome, durationMs }, 'run is done');
      else if (outcome === 'failed') log.error({ outcome, durationMs, err: error }, 'run failed');
      else if (outcome === 'cancelled')
        log.warn({ outcome, durationMs, err: error }, 'run gave up, as it was told to end');
      else
        log.warn({ outcome, durationMs, err: error }, 'run ended without its lease; what it returned does not count');
    }
  }

  /** Returns what is to be called when the handler has ended. */
  #watch(signal: AbortSignal, patienceMs: number, log: Logger): () => void {
    const onAbandoned = this.#onAbandoned;
    if (onAbandoned === undefined) return () => {};
    let timer: NodeJS.Timeout | undefined;
    const aborted = (): void => {
      timer = setTimeout(
        () => {
          log.error({ patienceMs }, 'handler ignores its signal and is left behind');
          onAbandoned();
        },
        Math.min(patienceMs, MAX_TIMER_MS),
      );
    };
    signal.addEventListener('abort', aborted, { once: true });
    return () => {
      signal.removeEventListener('abort', aborted);
      clearTimeout(timer);
    };
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

function outcomeOf(isHeld: boolean, failed: boolean, aborted: boolean): RunOutcome {
  if (!isHeld) return 'lost';
  if (!failed) return 'done';
  return aborted ? 'cancelled' : 'failed';
}

/** The code of one of our errors, and a word for any other. */
export function codeOf(error: unknown): string {
  return LeaseholdError.find(error)?.code ?? 'OTHER';
}
