import {
  ConfigError,
  ManagerClosedError,
  parseDuration,
  systemClock,
  type Duration,
  type LeaseManager,
} from '@leasehold/core';
import nodeCron, { type NodeCron, type ScheduledTask } from 'node-cron';

import type { CronTask } from './cron-run.ts';
import { CronEmitter, type CronEvents } from './events.ts';
import { Job } from './job.ts';
import { managerOf, type ManagerSource } from './manager.ts';
import { parseScheduleOptions, type ScheduleOptions } from './options.ts';
import { Registry } from './registry.ts';
import { Task } from './task.ts';
import { isWithin } from './within.ts';

export type LeasedCronOptions = ManagerSource;

/** node-cron's surface for tasks under a lease. Its functions can be taken off it, as node-cron's can. */
export interface LeasedNodeCron
  extends Omit<NodeCron, 'schedule' | 'createTask' | 'setRunCoordinator' | 'shutdown'>, AsyncDisposable {
  readonly manager: LeaseManager;
  /**
   * Runs `task` once for each tick of `expression`, in one of all the processes that schedule a job of this name. Throws
   * `ConfigError` for options that cannot work, and for an expression that node-cron cannot read or that no day fulfils.
   *
   * In the task's events, `execution:skipped` with reason `not-elected` means that the tick ran elsewhere, is too old, or
   * found the run before it still going on; `coordinator-error` that the store could not be asked. An execution fails with
   * the task's own error, or with `LeaseLostError` when the lease was lost before the task ended.
   *
   * The task's `execute()` takes the lease but claims no tick: it rejects with `ResourceBusyError` while another run has it
   * (`manual`).
   */
  schedule(expression: string, task: CronTask, options: ScheduleOptions): ScheduledTask;
  /** As `schedule`, but not started. */
  createTask(expression: string, task: CronTask, options: ScheduleOptions): ScheduledTask;
  /**
   * Schedules the methods of the object that have `@LeasedCron`, and lets those with `@Leased` run: all or none. Gives the
   * scheduled tasks, started. Inherited methods count, and a method that overrides another with its own decorator or with
   * none. Throws `ConfigError` for an object without any, for options that cannot work, for the name of a job that is here
   * already (so also for an object that is registered, or another one of its class).
   */
  register(instance: object): readonly ScheduledTask[];
  /** What becomes of ticks and runs (`CronEvents`). A listener that fails becomes a warning of the process, and nothing else. */
  on<K extends keyof CronEvents>(event: K, listener: (payload: CronEvents[K][0]) => unknown): void;
  off<K extends keyof CronEvents>(event: K, listener: (payload: CronEvents[K][0]) => unknown): void;
  /**
   * Stops this object's tasks (not those of others in the process), so that nothing begins any more; waits up to `timeout`
   * for what runs; cancels what still does (`RunCancelledError`, reason `shutdown`) and waits for as long again; then
   * destroys the tasks, and closes a manager of its own. Leases are extended while their runs go on, and released when those
   * have ended: a run that ignores its signal keeps its lease, which under a manager of its own runs out. The object with a
   * manager of yours can schedule again after it.
   * Milliseconds or a text such as `'20s'`. @default 5000
   */
  shutdown(timeout?: Duration): Promise<void>;
}

/** node-cron whose tasks run under leases of one manager. Throws `ConfigError` for options that cannot work. */
export function leasedCron(options: LeasedCronOptions): LeasedNodeCron {
  const { manager, isOurs } = managerOf(options);
  const events = new CronEmitter();
  const tasks = new Map<string, Task>();
  /** Also of tasks that were destroyed, until what they began is over. */
  const jobs = new Set<Job>();
  const registry = new Registry({ manager, announce: events.announce, createTask, names: tasks });
  let isClosed = false;

  function createTask(expression: string, task: CronTask, taskOptions: ScheduleOptions): ScheduledTask {
    if (isClosed) throw new ManagerClosedError();
    if (typeof task !== 'function') {
      throw new ConfigError(
        'task',
        'must be a function; for a file that node-cron runs in another process, export leasedTask(…) from it and schedule the file with plain node-cron',
      );
    }
    const settings = parseScheduleOptions(taskOptions);
    const { name } = settings.job;
    manager.checkOptions(settings.job.lease);
    if (tasks.has(name) || registry.has(name)) {
      throw new ConfigError('name', `'${name}' is the name of another task here; each has its own`);
    }
    const job = new Job({ manager, clock: systemClock, announce: events.announce }, task, settings.job);
    const leased = new Task(job, expression, settings);
    tasks.set(name, leased);
    jobs.add(job);
    leased.scheduled.on('task:destroyed', () => {
      if (tasks.get(name) === leased) tasks.delete(name);
      return job.settled().then(() => void jobs.delete(job));
    });
    return leased.scheduled;
  }

  function schedule(expression: string, task: CronTask, taskOptions: ScheduleOptions): ScheduledTask {
    const scheduled = createTask(expression, task, taskOptions);
    void scheduled.start();
    return scheduled;
  }

  function register(instance: object): readonly ScheduledTask[] {
    if (isClosed) throw new ManagerClosedError();
    return registry.register(instance);
  }

  async function shutdown(timeout: Duration = 5000): Promise<void> {
    const timeoutMs = parseDuration('timeout', timeout);
    isClosed ||= isOurs;
    const stopped = [...tasks.values()];
    const ending = [...jobs];
    for (const { scheduled } of stopped) void scheduled.stop();
    const triggered = registry.close(timeoutMs);
    // What was elected in this turn of the event loop begins in it.
    await new Promise((resolve) => setImmediate(resolve));
    for (const job of ending) job.end();
    const settled = Promise.all(ending.map((job) => job.settled()));
    const closed = isOurs ? manager.close({ grace: timeoutMs, abandonAfter: timeoutMs }) : undefined;
    if (!(await isWithin(settled, timeoutMs))) {
      for (const job of ending) job.cancel();
      await isWithin(settled, timeoutMs);
    }
    await triggered;
    await closed;
    for (const { scheduled } of stopped) void scheduled.destroy();
  }

  const { validate, validateDetailed, parse, getTasks, getTask, setLogger } = nodeCron;
  return {
    manager,
    schedule,
    createTask,
    register,
    on: (event, listener) => void events.on(event, listener as never),
    off: (event, listener) => void events.off(event, listener as never),
    validate,
    validateDetailed,
    parse,
    getTasks,
    getTask,
    setLogger,
    shutdown,
    [Symbol.asyncDispose]: () => shutdown(),
  };
}
