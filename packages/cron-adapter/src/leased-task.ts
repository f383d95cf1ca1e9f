import {
  ConfigError,
  LeaseholdError,
  parseDuration,
  RunCancelledError,
  systemClock,
  type Duration,
  type LeaseManager,
  type Refusal,
} from '@leasehold/core';
import type { TaskContext } from 'node-cron';

import { contextOfCall, isNodeCronContext, slotOfCall } from './call.ts';
import { Claim } from './claim.ts';
import { Claimant, Skip } from './claimant.ts';
import type { CronRun } from './cron-run.ts';
import { CronEmitter, warn, type Announce, type SkipReason } from './events.ts';
import { Job } from './job.ts';
import { Zone } from './local-time.ts';
import { managerOf, type ManagerSource } from './manager.ts';
import {
  LEASED_TASK_OPTIONS,
  parseLeasedTaskOptions,
  splitLeasedTaskOptions,
  type LeasedTaskOptions,
  type LeasedTaskSettings,
} from './options.ts';
import { ParentClaim } from './parent-claim.ts';
import { Schedule } from './slots.ts';
import { isWithin } from './within.ts';

/**
 * A function for a scheduler to call, with whatever arguments it has. Each call asks for its tick, or for its distance to
 * the run before (`minHold`).
 *
 * Resolves with the handler's value when the run is over, and with undefined for a call that begins none (`onSkipped`).
 * Rejects with the handler's own error; with `LeaseLostError` when the lease was lost before the handler ended; with the
 * errors of `LeaseManager.run` when the store or a fence cannot be asked; with `ConfigError` for a call that nothing says
 * the tick of; and a manual call of node-cron with `ResourceBusyError` while another run has the lease.
 */
export interface LeasedTask<T = unknown> extends AsyncDisposable {
  (context?: unknown, ...others: readonly unknown[]): Promise<T | undefined>;
  readonly manager: LeaseManager;
  /**
   * Begins no run any more; waits up to `grace` for what runs; cancels what still does (`RunCancelledError`, reason
   * `shutdown`) and waits for as long again; then closes a manager of its own. Milliseconds or a text such as `'20s'`.
   * @default 5000
   */
  close(grace?: Duration): Promise<void>;
}

/**
 * A task for schedulers that know nothing of leases: a file that node-cron runs in a process of its own, `cron`, croner.
 * Throws `ConfigError` for options that cannot work; connects at the first call.
 */
export function leasedTask<T>(
  handler: (run: CronRun) => T,
  options: LeasedTaskOptions & ManagerSource,
): LeasedTask<Awaited<T>> {
  // What becomes of a run is told by the promise of its call, and of a call without one by `onSkipped`.
  return announcedTask(handler, options, () => {});
}

/** As `leasedTask`, for an owner that tells of its runs. */
export function announcedTask<T>(
  handler: (run: CronRun) => T,
  options: LeasedTaskOptions & ManagerSource,
  announce: Announce,
): LeasedTask<Awaited<T>> {
  if (typeof handler !== 'function') throw new ConfigError('handler', 'must be a function, the first argument');
  const { task: taskOptions, source } = splitLeasedTaskOptions(options);
  const settings = parseLeasedTaskOptions(taskOptions);
  const { manager, isOurs } = managerOf(source as ManagerSource, LEASED_TASK_OPTIONS);
  try {
    manager.checkOptions(settings.job.lease);
  } catch (error) {
    if (isOurs) void manager.close();
    throw error;
  }
  const calls = new Calls(manager, handler, settings, announce);
  let closed: Promise<void> | undefined;

  async function closeNow(graceMs: number): Promise<void> {
    const managerClosed = isOurs ? manager.close({ grace: graceMs, abandonAfter: graceMs }) : undefined;
    await calls.close(graceMs);
    await managerClosed;
  }

  async function close(grace: Duration = 5000): Promise<void> {
    const graceMs = parseDuration('grace', grace);
    closed ??= closeNow(graceMs);
    return closed;
  }

  const task = (context?: unknown): Promise<Awaited<T> | undefined> =>
    calls.call(context) as Promise<Awaited<T> | undefined>;
  return Object.assign(task, { manager, close, [Symbol.asyncDispose]: () => close() });
}

/** The calls of one task. */
class Calls {
  readonly #job: Job;
  readonly #claimant: Claimant;
  readonly #parent: ParentClaim;
  readonly #schedule: Schedule | undefined;
  readonly #zone: Zone;
  readonly #minHoldMs: number | undefined;
  readonly #events = new CronEmitter();
  readonly #stopping = new AbortController();
  /** Ends the waiting of the tick before, once the next one has come. */
  #newer = new AbortController();
  #warnedOfSlot = false;

  constructor(
    manager: LeaseManager,
    handler: (run: CronRun) => unknown,
    settings: LeasedTaskSettings,
    announce: Announce,
  ) {
    const { job, schedule, minHoldMs, onSkipped } = settings;
    this.#job = new Job({ manager, clock: systemClock, announce }, handler, job);
    this.#schedule = schedule === undefined ? undefined : new Schedule(schedule, job.timezone);
    this.#claimant = new Claimant(this.#job, 0, this.#schedule);
    this.#parent = new ParentClaim(manager, job);
    this.#zone = this.#schedule?.zone ?? new Zone(job.timezone);
    this.#minHoldMs = minHoldMs;
    if (onSkipped !== undefined) this.#events.on('skipped', onSkipped);
  }

  call(context: unknown): Promise<unknown> {
    return this.#job.track(this.#call(context));
  }

  /** Resolves when it is over, or after twice the time. Never rejects. */
  async close(graceMs: number): Promise<void> {
    this.#stopping.abort();
    const settled = this.#job.settled();
    if (await isWithin(settled, graceMs)) return;
    this.#job.cancel();
    await isWithin(settled, graceMs);
  }

  async #call(given: unknown): Promise<unknown> {
    const { settings, clock } = this.#job;
    const isStopped = this.#stopping.signal.aborted;
    if (isNodeCronContext(given)) {
      if (given.execution.reason === 'invoked') {
        if (isStopped) throw new RunCancelledError(settings.resource, 'shutdown');
        return this.#job.runManually({ context: given, tick: null, trigger: 'manual' });
      }
      if (isStopped) return this.#skip(given.date, 'stopped');
      return this.#minHoldMs === undefined ? this.#runTick(given) : this.#runSpaced(given, this.#minHoldMs);
    }
    if (isStopped) return this.#skip(null, 'stopped');
    const nowMs = clock.wallMs();
    if (this.#minHoldMs !== undefined) {
      return this.#runSpaced(contextOfCall(nowMs, nowMs, this.#zone), this.#minHoldMs);
    }
    if (this.#schedule === undefined) {
      throw new ConfigError(
        'schedule',
        `is missing, and so is minHold: ${settings.name} was called by something other than node-cron, so nothing says which tick it is for; give the expression of that scheduler, or minHold for intervals`,
      );
    }
    const tick = slotOfCall(this.#schedule, nowMs, settings.startingDeadlineMs);
    if (tick === null) {
      this.#warnOfSlot(nowMs);
      return this.#skip(null, 'no-slot');
    }
    return this.#runTick(contextOfCall(tick, nowMs, this.#zone));
  }

  async #runTick(context: TaskContext): Promise<unknown> {
    const tick = context.date;
    this.#newer.abort();
    this.#newer = new AbortController();
    const ends = { stopping: this.#stopping.signal, newer: this.#newer.signal };
    const answer = await this.#claimant.claim(tick.getTime(), ends).catch(stoppedBy);
    if (answer instanceof Claim) {
      this.#parent.exclude();
      return answer.begin(this.#job.body({ context, tick, trigger: 'schedule' }));
    }
    if (isNodeCronContext(context)) await this.#parent.check(answer);
    return this.#skip(tick, answer.reason, answer.refusal);
  }

  async #runSpaced(context: TaskContext, minHoldMs: number): Promise<unknown> {
    // Also a run that has lost its lease: it must not get a second copy beside it.
    if (this.#job.isRunningHere) return this.#skip(null, 'running-here');
    let hasBegun = false;
    try {
      const result = await this.#job.tryRun(
        { context, tick: null, trigger: 'schedule' },
        (cancel) => this.#job.acquisition({ minHoldMs }, cancel),
        () => {
          hasBegun = true;
        },
      );
      return result.ran ? result.value : this.#skip(null, result.reason, result);
    } catch (error) {
      if (hasBegun) throw error;
      if (this.#stopping.signal.aborted && LeaseholdError.is(error, 'RUN_CANCELLED'))
        return this.#skip(null, 'stopped');
      return this.#skip(null, stoppedBy(error).reason);
    }
  }

  #skip(tick: Date | null, reason: SkipReason, refusal: Refusal | null = null): undefined {
    const { name: job } = this.#job.settings;
    const { holder = null, aheadMs = null } = refusal ?? {};
    const skipped = { job, tick, reason, holder, aheadMs };
    // The emitter guards its listeners.
    this.#events.announce('skipped', skipped);
    this.#job.announce('skipped', skipped);
    return undefined;
  }

  #warnOfSlot(nowMs: number): void {
    if (this.#warnedOfSlot) return;
    this.#warnedOfSlot = true;
    warn(
      `${this.#job.settings.name} was called at ${new Date(nowMs).toISOString()}, which is no time of its schedule in ${this.#zone.name}, and did not run; give schedule and timezone as the scheduler has them`,
    );
  }
}

/**
 * A program may close its manager before it stops its scheduler. The call in between begins nothing, and is no failure:
 * as a rejection it would end the process, for few schedulers handle one.
 */
function stoppedBy(error: unknown): Skip {
  if (LeaseholdError.is(error, 'MANAGER_CLOSED')) return new Skip('stopped');
  throw error;
}
