import { ConfigError, type LeaseManager } from '@leasehold/core';
import type { ScheduledTask } from 'node-cron';

import type { CronTask } from './cron-run.ts';
import type { Announce } from './events.ts';
import { announcedTask, type LeasedTask } from './leased-task.ts';
import { marksOf, taskOf, type Mark, type ScheduledMark, type TriggeredMark } from './marks.ts';
import { nestDecoratorOf, withNestMetadata } from './nest-metadata.ts';
import type { ScheduleOptions } from './options.ts';

/** What objects are registered with. */
interface RegistryParts {
  readonly manager: LeaseManager;
  readonly announce: Announce;
  createTask(expression: string, task: CronTask, options: ScheduleOptions): ScheduledTask;
  /** The names of the scheduled jobs. */
  readonly names: { has(name: string): boolean };
}

/** The objects whose marked methods one `leasedCron` schedules, and guards for other schedulers. */
export class Registry {
  readonly #parts: RegistryParts;
  /** What other schedulers trigger, by the names of the jobs. */
  readonly #triggered = new Map<string, LeasedTask>();

  constructor(parts: RegistryParts) {
    this.#parts = parts;
  }

  /** Whether a job that another scheduler triggers has this name. */
  has(name: string): boolean {
    return this.#triggered.has(name);
  }

  /** All marked methods of the object, or none. Gives those that are scheduled here. */
  register(instance: object): readonly ScheduledTask[] {
    const marks = typeof instance === 'object' && instance !== null ? marksOf(instance) : [];
    if (marks.length === 0) {
      throw new ConfigError(
        'instance',
        'has no method with @LeasedCron or @Leased; give an object of a class that has one, not the class',
      );
    }
    const bindings = this.#bindings(instance, marks.filter(isTriggered));
    const tasks = this.#createTasks(instance, marks.filter(isScheduled), bindings);
    for (const [name, { mark, task }] of bindings) {
      mark.bound.set(instance, task);
      this.#triggered.set(name, task);
    }
    for (const task of tasks) void task.start();
    return tasks;
  }

  /** Ends what other schedulers trigger, as `LeasedTask.close` does. */
  async close(graceMs: number): Promise<void> {
    const closing = [...this.#triggered].map(async ([name, task]) => {
      await task.close(graceMs);
      this.#triggered.delete(name);
    });
    await Promise.all(closing);
  }

  /** Changes nothing yet. */
  #bindings(instance: object, marks: readonly TriggeredMark[]): ReadonlyMap<string, Binding> {
    const { manager, announce } = this.#parts;
    const bindings = new Map<string, Binding>();
    for (const mark of marks) {
      const options = withNestMetadata(mark.method, mark.label, mark.options);
      const { name } = options;
      if (mark.bound.has(instance)) {
        throw new ConfigError(
          'instance',
          `is registered already, with its job '${name}'; an object is registered once`,
        );
      }
      this.#checkName(name, bindings);
      bindings.set(name, {
        mark,
        task: announcedTask(taskOf(mark.handler, instance), { ...options, manager }, announce),
      });
    }
    return bindings;
  }

  /** Starts none. Those made so far are gone when one is refused. */
  #createTasks(
    instance: object,
    marks: readonly ScheduledMark[],
    bindings: ReadonlyMap<string, Binding>,
  ): readonly ScheduledTask[] {
    const tasks: ScheduledTask[] = [];
    try {
      for (const { method, label, expression, options } of marks) {
        refuseNest(method, label);
        // Checked by `createTask`, with the other options.
        const { name } = (options as Partial<ScheduleOptions> | undefined) ?? {};
        if (name !== undefined) this.#checkName(name, bindings);
        tasks.push(this.#parts.createTask(expression, taskOf(method, instance), options));
      }
    } catch (error) {
      for (const task of tasks) void task.destroy();
      throw error;
    }
    return tasks;
  }

  #checkName(name: string, bindings: ReadonlyMap<string, Binding>): void {
    if (!bindings.has(name) && !this.#triggered.has(name) && !this.#parts.names.has(name)) return;
    throw new ConfigError('name', `'${name}' is the name of another task here; each has its own`);
  }
}

interface Binding {
  readonly mark: TriggeredMark;
  readonly task: LeasedTask;
}

function isTriggered(mark: Mark): mark is TriggeredMark {
  return mark.decorator === '@Leased';
}

function isScheduled(mark: Mark): mark is ScheduledMark {
  return mark.decorator === '@LeasedCron';
}

/** Two schedulers would call it, one of them without a lease. */
function refuseNest(method: object, label: string): void {
  const decorator = nestDecoratorOf(method);
  if (decorator === undefined) return;
  throw new ConfigError(
    '@LeasedCron',
    `schedules ${label} by itself, and ${decorator} would call it without a lease; leave out ${decorator}, or put @Leased in place of @LeasedCron`,
  );
}
