import { ResourceBusyError, systemClock, type Lease, type LeaseManager } from '@leasehold/core';
import nodeCron, { type ScheduledTask, type TaskContext } from 'node-cron';

import { cronRun, type CronTask } from './cron-run.ts';
import { Elector } from './elector.ts';
import { acquireOptions, type TaskSettings } from './options.ts';

/**
 * One task of node-cron under a lease. Two halves: the elector answers node-cron's question whether a tick runs here, and
 * the function that node-cron then calls runs the task under the lease of that election.
 */
export class LeasedTask {
  readonly scheduled: ScheduledTask;
  readonly #manager: LeaseManager;
  readonly #settings: TaskSettings;
  readonly #task: CronTask;
  readonly #elector: Elector;
  readonly #underWay = new Set<Promise<unknown>>();
  /** The lease of the run that goes on here, lost or not. */
  #running: Lease | undefined;

  /** Throws what node-cron throws for the expression. Does not start it. */
  constructor(manager: LeaseManager, expression: string, task: CronTask, settings: TaskSettings) {
    this.#manager = manager;
    this.#settings = settings;
    this.#task = task;
    this.#elector = new Elector(manager, settings, systemClock, () => this.#running !== undefined);
    this.scheduled = nodeCron.createTask(expression, (context) => this.#track(this.#execute(context)), {
      ...settings.cron,
      distributed: true,
      runCoordinator: {
        shouldRun: (key) => this.#track(this.#elector.shouldRun(key)),
        onComplete: (key) => this.#elector.onComplete(key),
      },
    });
    this.scheduled.on('task:started', () => this.#elector.start());
    this.scheduled.on('task:stopped', () => this.#track(this.#elector.stop()));
  }

  /** Resolves when everything that has begun is over: elections, executions, claims given back. Never rejects. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#underWay.add(work);
    const over = (): void => void this.#underWay.delete(work);
    work.then(over, over);
    return work;
  }

  async #execute(context: TaskContext): Promise<unknown> {
    // `execute()` is not asked about anywhere: it comes here without an election and without a tick.
    const tick = context.execution?.reason === 'scheduled' ? context.date : null;
    const body = (held: Lease): Promise<unknown> => this.#body(context, held, tick);
    const claim = tick === null ? undefined : this.#elector.take(tick);
    if (claim?.isOpen === true) return claim.begin(body);
    // Given back or lost since its election, and node-cron goes on all the same: then the tick is asked for again.
    await claim?.giveBack();
    this.#refuseSecondCopy();
    const options = acquireOptions(this.#settings, tick?.getTime() ?? null);
    return this.#manager.run(this.#settings.resource, options, body);
  }

  /** A run that has lost its lease and has not ended must not get another one beside it, though the resource is free. */
  #refuseSecondCopy(): void {
    const before = this.#running;
    if (before === undefined || before.isHeld()) return;
    throw new ResourceBusyError(this.#settings.resource, {
      reason: 'held',
      holder: {
        owner: 'this process, by a run that has lost its lease and has not ended',
        fencingToken: before.fencingToken,
      },
      remainingMs: 0,
    });
  }

  async #body(context: TaskContext, lease: Lease, tick: Date | null): Promise<unknown> {
    this.#running = lease;
    try {
      return await this.#task(cronRun(context, lease, tick));
    } finally {
      this.#running = undefined;
    }
  }
}
