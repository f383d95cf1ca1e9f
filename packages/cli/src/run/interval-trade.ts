import type { LeaseManager } from '@leasehold/core';
import { leasedTask, type CronRun, type LeasedTask, type LeasedTaskOptions } from '@leasehold/cron';
import type { Logger } from 'pino';

import type { Metrics } from './metrics.ts';
import { Repeats } from './repeats.ts';
import { codeOf, type Runs } from './runs.ts';
import { tellSkipped } from './skips.ts';
import type { Trade } from './trade.ts';
import type { Work } from './work.ts';

/**
 * A job without a schedule: a run begins when about `everyMs` have passed since the last one began, in whatever process. Each process asks
 * at its start and then in its own rhythm, so the job goes on wherever one is left.
 */
export class IntervalTrade implements Trade {
  readonly #task: LeasedTask;
  readonly #everyMs: number;
  readonly #log: Logger;
  readonly #runs: Runs;
  readonly #metrics: Metrics;
  readonly #repeats = new Repeats();
  #timer: NodeJS.Timeout | undefined;

  /** Throws `ConfigError`. */
  constructor(
    work: Work,
    everyMs: number,
    options: Omit<LeasedTaskOptions, 'name' | 'onSkipped'>,
    parts: { readonly manager: LeaseManager; readonly runs: Runs; readonly log: Logger; readonly metrics: Metrics },
  ) {
    const { manager, runs, log, metrics } = parts;
    const { name, handler, fencesByName: fences, patienceMs } = work;
    this.#everyMs = everyMs;
    this.#log = log.child({ job: name });
    this.#runs = runs;
    this.#metrics = metrics;
    const task = ({ attempt, lease, signal }: CronRun): Promise<unknown> => {
      const job = { name, id: null, data: undefined };
      const run = { tick: null, trigger: 'interval', attempt } as const;
      return runs.perform({ handler, job, run, lease, signal, fences, patienceMs });
    };
    this.#task = leasedTask(task, {
      ...options,
      manager,
      name,
      onSkipped: (skipped) => tellSkipped(log, metrics, skipped),
    });
  }

  start(): void {
    this.#timer = setInterval(() => void this.#call(), this.#everyMs);
    void this.#call();
  }

  stop(graceMs: number): Promise<void> {
    clearInterval(this.#timer);
    return this.#task.close(graceMs);
  }

  async #call(): Promise<void> {
    try {
      await this.#task();
    } catch (err) {
      if (this.#runs.hasTold(err)) return;
      const code = codeOf(err);
      // A lost lease is told of by the manager, and a run that was told to end, or not to begin, by the shutdown.
      if (code === 'LEASE_LOST' || code === 'RUN_CANCELLED' || code === 'NOT_STARTED') return;
      this.#metrics.storeFailed(code);
      const repeats = this.#repeats.tell(code);
      if (repeats === undefined) return;
      this.#log.warn({ err, ...(repeats > 0 && { repeats }) }, 'the store or a fence cannot be asked, so nothing runs');
    }
  }
}
