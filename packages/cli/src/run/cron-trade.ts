import type { LeaseManager } from '@leasehold/core';
import { leasedCron, type CronEvents, type CronRun, type LeasedNodeCron, type ScheduleOptions } from '@leasehold/cron';
import type { Logger } from 'pino';

import type { Metrics } from './metrics.ts';
import { Repeats } from './repeats.ts';
import { codeOf, type Runs } from './runs.ts';
import { tellSkipped } from './skips.ts';
import type { Trade } from './trade.ts';
import type { Work } from './work.ts';

/** The cron jobs of a config, on one `leasedCron`. */
export class CronTrade implements Trade {
  readonly #cron: LeasedNodeCron;
  readonly #tasks: ReturnType<LeasedNodeCron['createTask']>[] = [];
  readonly #runs: Runs;
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #repeats = new Repeats();

  constructor(manager: LeaseManager, runs: Runs, log: Logger, metrics: Metrics) {
    this.#cron = leasedCron({ manager });
    this.#runs = runs;
    this.#log = log;
    this.#metrics = metrics;
    this.#listen();
  }

  /** Not started yet. Throws `ConfigError`, and what node-cron throws for an expression. */
  add(work: Work, expression: string, options: ScheduleOptions): void {
    const { name, handler, fencesByName: fences, patienceMs } = work;
    const task = (run: CronRun): Promise<unknown> => {
      const { tick, trigger, attempt, lease, signal } = run;
      const job = { name, id: null, data: undefined };
      return this.#runs.perform({ handler, job, run: { tick, trigger, attempt }, lease, signal, fences, patienceMs });
    };
    const log = this.#log.child({ job: name });
    this.#tasks.push(this.#cron.createTask(expression, task, { ...options, name, logger: this.#nodeCronLog(log) }));
  }

  start(): void {
    for (const task of this.#tasks) void task.start();
  }

  stop(graceMs: number): Promise<void> {
    return this.#cron.shutdown(graceMs);
  }

  #listen(): void {
    this.#cron.on('skipped', (skipped) => tellSkipped(this.#log, this.#metrics, skipped));
    this.#cron.on('waiting', ({ job, tick, reason, holder }) =>
      this.#log.debug({ job, tick, reason, holder: holder?.owner }, `tick waits: ${reason}`),
    );
    this.#cron.on('unavailable', ({ job, tick, error }: CronEvents['unavailable'][0]) => {
      const code = codeOf(error);
      this.#metrics.storeFailed(code);
      const repeats = this.#repeats.tell(`${job} ${code}`);
      if (repeats === undefined) return;
      this.#log.warn(
        { job, tick, err: error, ...(repeats > 0 && { repeats }) },
        'the store or a fence cannot be asked, so nothing runs',
      );
    });
    this.#cron.on('stillRunning', ({ job, tick, fencingToken, sinceLostMs }) =>
      this.#log.error(
        { job, tick, token: fencingToken, sinceLostMs },
        'run goes on without its lease and ignores its signal',
      ),
    );
  }

  /** What node-cron says by itself. The errors of runs are told of as such, and those of the store by the events above. */
  #nodeCronLog(log: Logger): NonNullable<ScheduleOptions['logger']> {
    const failed = (message: string | Error, error?: Error): void => {
      const err = error ?? (message instanceof Error ? message : undefined);
      const isKnown = err !== undefined && (this.#runs.hasTold(err) || codeOf(err) !== 'OTHER');
      log[isKnown ? 'debug' : 'error']({ err }, `node-cron: ${message instanceof Error ? message.message : message}`);
    };
    return {
      debug: (message) => log.debug({}, `node-cron: ${message instanceof Error ? message.message : message}`),
      info: (message) => log.debug({}, `node-cron: ${message}`),
      warn: (message) => log.warn({}, `node-cron: ${message}`),
      error: failed,
    };
  }
}
