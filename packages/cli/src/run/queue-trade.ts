import { performance } from 'node:perf_hooks';

import { LeasedWorker, type LeasedJob, type LeasedWorkerOptions } from '@leasehold/bullmq';
import { LeaseholdError } from '@leasehold/core';
import { DelayedError } from 'bullmq';
import type { Logger } from 'pino';

import type { Metrics } from './metrics.ts';
import { codeOf, type Runs } from './runs.ts';
import type { Trade } from './trade.ts';
import type { Work } from './work.ts';

/** After this the same trouble is told again. */
const TELL_AGAIN_MS = 60_000;
/** For a job that was taken and not begun: until then its worker is closed. */
const PUT_BACK_MS = 100;

/** The worker of a queue of a config. */
export class QueueTrade implements Trade {
  readonly #worker: LeasedWorker;
  readonly #log: Logger;
  #told = { message: '', at: -Infinity };

  /** Connects, but takes no jobs yet. Throws `ConfigError`. */
  constructor(
    work: Work,
    queue: string,
    options: LeasedWorkerOptions,
    { runs, log: baseLog, metrics }: { readonly runs: Runs; readonly log: Logger; readonly metrics: Metrics },
  ) {
    const { name, handler, fencesByName: fences, patienceMs } = work;
    const log = baseLog.child({ job: name });
    this.#log = log;
    const processor = async (its: LeasedJob, token: string, signal: AbortSignal): Promise<unknown> => {
      const job = { name, id: its.id ?? null, data: its.data as unknown };
      const run = { tick: null, trigger: 'queue', attempt: its.attemptsMade + 1 } as const;
      try {
        return await runs.perform({ handler, job, run, lease: its.lease, signal, fences, patienceMs });
      } catch (error) {
        if (runs.hasTold(error) || LeaseholdError.of(error)?.code !== 'NOT_STARTED') throw error;
        // Back into the queue, without using an attempt.
        await its.moveToDelayed(Date.now() + PUT_BACK_MS, token);
        throw new DelayedError();
      }
    };
    this.#worker = new LeasedWorker(queue, processor, { ...options, autorun: false });
    this.#worker.on('leaseBusy', ({ id }, holder, remainingMs) => {
      metrics.busy(name);
      log.debug({ id, holder: holder?.owner, remainingMs }, 'resource is busy');
    });
    // With the scope `worker`.
    this.#worker.on('elected', ({ resource, fencingToken }) =>
      log.info({ resource, token: fencingToken }, 'this process takes the jobs now'),
    );
    this.#worker.on('steppedDown', ({ resource, fencingToken }, reason) =>
      log.info({ resource, token: fencingToken, err: reason }, 'this process takes no more jobs'),
    );
    this.#worker.on('leaseAbandoned', ({ id }, reason) =>
      log.error({ id, err: reason }, 'run ignores its signal and is left behind; its lease runs out by itself'),
    );
    this.#worker.on('failed', (its, err) => {
      // Of a job that did not come to its handler nobody else tells: a resource without a name, for example.
      log[runs.hasTold(err) ? 'debug' : 'error']({ jobId: its?.id, err }, 'job failed');
    });
    this.#worker.on('stalled', (jobId) => log.warn({ jobId }, 'job was begun by a process that is gone'));
    this.#worker.on('error', (err) => {
      const code = codeOf(err);
      if (code === 'STORE_UNAVAILABLE' || code === 'FENCE_UNAVAILABLE') metrics.storeFailed(code);
      log[this.#isNews(err) ? 'warn' : 'debug']({ err }, 'trouble with the queue or the lease store');
    });
  }

  start(): void {
    this.#worker.run().catch((err: unknown) => this.#log.error({ err }, 'the worker has stopped'));
  }

  /** The grace is that of the options. */
  stop(): Promise<void> {
    return this.#worker.close();
  }

  /** While a server is out of reach each of the connections says so each second. */
  #isNews({ message }: Error): boolean {
    const now = performance.now();
    if (message === this.#told.message && now - this.#told.at < TELL_AGAIN_MS) return false;
    this.#told = { message, at: now };
    return true;
  }
}
