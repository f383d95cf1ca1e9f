import { AsyncLocalStorage } from 'node:async_hooks';

import { ConfigError } from '@leasehold/core';
import nodeCron, { type ScheduledTask, type TaskContext } from 'node-cron';

import type { Claim } from './claim.ts';
import { Claimant, type Skip } from './claimant.ts';
import type { RunKind } from './cron-run.ts';
import { Elector } from './elector.ts';
import { warn } from './events.ts';
import { gapWarning } from './gaps.ts';
import type { Job } from './job.ts';
import type { ScheduleSettings } from './options.ts';
import { Recovery } from './recovery.ts';
import { latestMissed, Schedule } from './slots.ts';

/** A run that we begin through node-cron's `execute()`, so that its events are told as for any other. */
interface Begun {
  readonly claim: Claim;
  readonly tick: Date;
  taken: boolean;
}

/**
 * One task of node-cron under a lease. Two halves: the elector answers node-cron's question whether a tick runs here, and
 * the function that node-cron then calls runs the task under the lease of that election.
 */
export class Task {
  readonly scheduled: ScheduledTask;
  readonly job: Job;
  readonly #elector: Elector;
  readonly #recovery: Recovery;
  readonly #begun = new AsyncLocalStorage<Begun>();
  readonly #catchesUp: boolean;

  /** Throws `ConfigError` for an expression that names no instants. Does not start it. */
  constructor(job: Job, expression: string, { catchUp, maxRandomDelayMs, cron }: ScheduleSettings) {
    this.job = job;
    this.#catchesUp = catchUp === 'latest';
    const schedule = scheduleOf(expression, job);
    const claimant = new Claimant(job, maxRandomDelayMs, schedule);
    this.#recovery = new Recovery(job, claimant, schedule, {
      catchUp: this.#catchesUp,
      begin: (claim, tick) => this.#begin(claim, new Date(tick)),
    });
    const observer = {
      skipped: (tick: number, skip: Skip) => {
        if (skip.isBehind(job)) this.#recovery.behind(tick, skip.refusal?.holder?.fencingToken ?? 0);
      },
      unavailable: () => this.#recovery.look(),
    };
    this.#elector = new Elector(job, claimant, observer, maxRandomDelayMs > 0);
    this.scheduled = nodeCron.createTask(expression, (context) => job.track(this.#execute(context)), {
      ...cron,
      distributed: true,
      runCoordinator: {
        shouldRun: (key) => job.track(this.#elector.shouldRun(key)),
        onComplete: (key) => this.#elector.onComplete(key),
      },
    });
    this.scheduled.on('task:started', () => {
      this.#elector.start();
      this.#recovery.start();
    });
    this.scheduled.on('task:stopped', () => {
      this.#recovery.stop();
      return job.track(this.#elector.stop());
    });
    // With a listener node-cron says nothing itself of what was missed, so there is one only where something is done.
    if (this.#catchesUp) this.scheduled.on('execution:missed', () => this.#recovery.look());
    const odd = gapWarning(schedule, job.clock.wallMs(), 1)?.missing;
    if (odd !== undefined && odd !== null) warn(`${job.settings.name}: ${odd.message}`);
  }

  async #execute(context: TaskContext): Promise<unknown> {
    const begun = this.#begun.getStore();
    if (begun?.taken === false && context.execution?.reason === 'invoked') {
      begun.taken = true;
      const { claim, tick } = begun;
      const trigger = claim.attempt > 1 || !this.#catchesUp ? 'retry' : 'catch-up';
      return claim.begin(this.job.body({ context, tick, trigger }));
    }
    // `execute()` is not asked about anywhere: it comes here without an election and without a tick.
    if (context.execution?.reason !== 'scheduled') {
      return this.job.runManually({ context, tick: null, trigger: 'manual' });
    }
    return this.#runElected({ context, tick: context.date, trigger: 'schedule' }, context.date);
  }

  async #runElected(kind: RunKind, tick: Date): Promise<unknown> {
    const claim = this.#elector.take(tick);
    if (claim?.isOpen === true) {
      const { attempt } = claim;
      try {
        return await claim.begin(this.job.body(kind));
      } catch (error) {
        this.#recovery.failed(tick.getTime(), attempt);
        throw error;
      }
    }
    // Given back or lost since its election, and node-cron goes on all the same: then the tick is asked for again.
    await claim?.giveBack();
    return this.job.run(kind, tick.getTime());
  }

  /** Through node-cron, with the claim beside it. Whether the run succeeded. */
  async #begin(claim: Claim, tick: Date): Promise<boolean> {
    const begun: Begun = { claim, tick, taken: false };
    try {
      await this.#begun.run(begun, () => this.scheduled.execute());
      return true;
    } catch {
      // node-cron has told it (`execution:failed`), and so have our events.
      return false;
    } finally {
      await claim.giveBack();
    }
  }
}

function scheduleOf(expression: string, { settings, clock }: Job): Schedule {
  try {
    const schedule = new Schedule(expression, settings.timezone);
    // Some expressions are read, and then no day has all that they name: they would throw when the task is started.
    if (latestMissed(schedule, { afterMs: 0, nowMs: clock.wallMs() }) !== null) return schedule;
    const probe = nodeCron.createTask(expression, () => {}, { timezone: 'UTC' });
    void probe.destroy();
    probe.getNextRuns(1);
    return schedule;
  } catch (error) {
    throw new ConfigError('expression', `'${expression}' cannot be scheduled: ${messageOf(error)}`, error);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
