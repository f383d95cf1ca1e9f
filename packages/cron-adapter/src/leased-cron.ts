import {
  ConfigError,
  LeaseManager,
  ManagerClosedError,
  parseDuration,
  parseOptions,
  systemClock,
  type Duration,
  type LeaseManagerOptions,
} from '@leasehold/core';
import { redisStore, type RedisSource } from '@leasehold/core/redis';
import nodeCron, { type NodeCron, type ScheduledTask } from 'node-cron';
import { z } from 'zod';

import type { CronTask } from './cron-run.ts';
import { LeasedTask } from './leased-task.ts';
import { parseTaskOptions, type LeasedTaskOptions } from './options.ts';
import { pause } from './pause.ts';

/** A manager that is yours: `shutdown` does not close it. */
type SharedManager = { readonly manager: LeaseManager } & { readonly [K in keyof OwnManager]?: never };

/** A manager of its own, with these options: `shutdown` closes it. */
interface OwnManager extends Omit<LeaseManagerOptions, 'store'> {
  /** A URL, ioredis' options, or a client of ioredis, which stays yours: its settings are used, not its connection. */
  readonly connection: RedisSource;
  /** The namespace of the leases. @default 'leasehold' */
  readonly prefix?: string;
}

export type LeasedCronOptions = SharedManager | OwnManager;

/** node-cron's surface for tasks under a lease. Its functions can be taken off it, as node-cron's can. */
export interface LeasedCron
  extends Omit<NodeCron, 'schedule' | 'createTask' | 'setRunCoordinator' | 'shutdown'>, AsyncDisposable {
  readonly manager: LeaseManager;
  /**
   * Runs `task` once for each tick of `expression`, in one of all the processes that schedule a job of this name. Throws
   * `ConfigError` for options that cannot work, and what node-cron throws for the expression.
   *
   * In the task's events, `execution:skipped` with reason `not-elected` means that the tick ran elsewhere, is too old, or
   * found the run before it still going on; `coordinator-error` that the store could not be asked. An execution fails with
   * the task's own error, or with `LeaseLostError` when the lease was lost before the task ended.
   *
   * The task's `execute()` takes the lease but claims no tick: it rejects with `ResourceBusyError` while another run has it.
   */
  schedule(expression: string, task: CronTask, options: LeasedTaskOptions): ScheduledTask;
  /** As `schedule`, but not started. */
  createTask(expression: string, task: CronTask, options: LeasedTaskOptions): ScheduledTask;
  /**
   * Stops this object's tasks (not those of others in the process); waits up to `timeout` for those that run; destroys
   * them. A manager of its own is closed: tasks that still run after `timeout` are cancelled (`RunCancelledError`,
   * `shutdown`) and waited for as long again; one that still goes on then keeps its lease, which runs out. Milliseconds
   * or a text such as `'20s'`. @default 5000
   */
  shutdown(timeout?: Duration): Promise<void>;
}

/** node-cron whose tasks run under leases of one manager. Throws `ConfigError` for options that cannot work. */
export function leasedCron(options: LeasedCronOptions): LeasedCron {
  const { manager, isOurs } = managerOf(options);
  const tasks = new Map<string, LeasedTask>();
  let isClosed = false;

  function createTask(expression: string, task: CronTask, taskOptions: LeasedTaskOptions): ScheduledTask {
    if (isClosed) throw new ManagerClosedError();
    if (typeof task !== 'function') {
      throw new ConfigError(
        'task',
        'must be a function; a file that node-cron runs in another process cannot be given a lease',
      );
    }
    const settings = parseTaskOptions(taskOptions);
    const { name } = settings;
    manager.checkOptions(settings.lease);
    if (tasks.has(name)) throw new ConfigError('name', `'${name}' is the name of another task here; each has its own`);
    const leased = new LeasedTask(manager, expression, task, settings);
    tasks.set(name, leased);
    leased.scheduled.on('task:destroyed', () => {
      if (tasks.get(name) === leased) tasks.delete(name);
    });
    return leased.scheduled;
  }

  function schedule(expression: string, task: CronTask, taskOptions: LeasedTaskOptions): ScheduledTask {
    const scheduled = createTask(expression, task, taskOptions);
    void scheduled.start();
    return scheduled;
  }

  async function shutdown(timeout: Duration = 5000): Promise<void> {
    const timeoutMs = parseDuration('timeout', timeout);
    isClosed ||= isOurs;
    const stopped = [...tasks.values()];
    for (const { scheduled } of stopped) void scheduled.stop();
    // What was elected in this turn of the event loop begins in it.
    await new Promise((resolve) => setImmediate(resolve));
    const settled = Promise.all(stopped.map((task) => task.settled()));
    if (isOurs) {
      const { unsettled } = await manager.close({ grace: timeoutMs, abandonAfter: timeoutMs });
      // The last steps, from the release to node-cron's events.
      if (unsettled.length === 0) await settled;
    } else {
      const over = new AbortController();
      await Promise.race([settled, pause(systemClock, timeoutMs, { signal: over.signal, ref: true })]);
      over.abort();
    }
    for (const { scheduled } of stopped) void scheduled.destroy();
  }

  const { validate, validateDetailed, parse, getTasks, getTask, setLogger } = nodeCron;
  return {
    manager,
    schedule,
    createTask,
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

const sharedSchema = z.strictObject({
  manager: z.custom<LeaseManager>(
    (value) => typeof (value as Partial<LeaseManager> | null)?.tryRun === 'function',
    'must be a LeaseManager',
  ),
});

function managerOf(options: LeasedCronOptions): { readonly manager: LeaseManager; readonly isOurs: boolean } {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('options', 'are missing; give a connection, or a manager');
  }
  if ('manager' in options) return { manager: parseOptions(sharedSchema, options).manager, isOurs: false };
  const { connection, prefix, ...others } = options;
  if (connection === undefined) {
    throw new ConfigError('connection', 'is missing; give the URL of a Redis, a client, or a manager');
  }
  const store = redisStore(connection, prefix === undefined ? {} : { prefix });
  return { manager: new LeaseManager({ ...others, store }), isOurs: true };
}
