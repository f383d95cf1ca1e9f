import { ResourceBusyError, systemClock, type Lease, type LeaseManager } from '@leasehold/core';
import nodeCron, { type ScheduledTask, type TaskContext } from 'node-cron';

import { cronRun, type CronTask } from './cron-run.ts';
import { Elector } from './elector.ts';
import type { TaskSettings } from './options.ts';

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
  readonly #executions = new Set<Promise<unknown>>();
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
      runCoordinator: this.#elector,
    });
    this.scheduled.on('task:started', () => this.#elector.start());
    this.scheduled.on('task:stopped', () => this.#elector.stop());
  }

  get name(): string {
    return this.#settings.name;
  }

  /** Resolves when every execution that has begun is over. Never rejects. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#executions);
  }

  #track<T>(execution: Promise<T>): Promise<T> {
    this.#executions.add(execution);
    const over = (): void => void this.#executions.delete(execution);
    execution.then(over, over);
    return execution;
  }

  async #execute(context: TaskContext): Promise<unknown> {
    const { resource, lease } = this.#settings;
    // `execute()` is not asked about anywhere: it comes here without an election and without a tick.
    const tick = context.execution?.reason === 'scheduled' ? context.date : null;
    const body = (held: Lease): Promise<unknown> => this.#body(context, held, tick);
    if (tick === null) return this.#manager.run(resource, lease, this.#alone(body));
    return (
      this.#elector.begin(tick, body) ??
      // Stopped between its election and now, which gave the claim back; node-cron goes on, so it has to be asked for again.
      this.#manager.run(resource, { ...lease, tick: this.#elector.tickOptions(tick.getTime()) }, this.#alone(body))
    );
  }

  /** A run that has lost its lease and has not ended must not get a second copy beside it, though the lease is free. */
  #alone(body: (held: Lease) => Promise<unknown>): (held: Lease) => Promise<unknown> {
    const before = this.#running;
    if (before === undefined || before.isHeld()) return body;
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
