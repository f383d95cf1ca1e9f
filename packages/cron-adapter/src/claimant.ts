import { LeaseholdError, type Refusal } from '@leasehold/core';

import { Claim } from './claim.ts';
import { warn, type SkipReason } from './events.ts';
import { MAX_AHEAD_MS, type Job } from './job.ts';
import { pause } from './pause.ts';
import { slotNear, type Schedule } from './slots.ts';

/** How long a clock that is ahead of the store's is waited for, at most. Beyond it the clock is wrong. */
const MAX_CLOCK_WAIT_MS = 60_000;
/** How much later than planned node-cron's timers may begin a run that was elected. */
const BEGIN_MARGIN_MS = 1000;

/** Why a tick begins no run here. */
export class Skip {
  readonly reason: SkipReason;
  readonly refusal: Refusal | null;

  constructor(reason: SkipReason, refusal: Refusal | null = null) {
    this.reason = reason;
    this.refusal = refusal;
  }

  /** Whether a run of this very job, in another process, is in the way. */
  isBehind(job: Job): boolean {
    return this.reason === 'held' && this.refusal !== null && isOfJob(job, this.refusal);
  }
}

/** What ends the waiting of a claimant. */
export interface Ends {
  /** Ends everything that has not been begun. */
  readonly stopping: AbortSignal;
  /** Ends the waiting for a resource that another job has: its next tick takes over. */
  readonly newer: AbortSignal;
}

/**
 * Asks for ticks of one job. What only needs patience is waited for here: a resource that another job has, in the store's
 * queue, and a store's clock that is behind ours. Every way out is bounded: calls to the store have their deadlines, waiting
 * ends with `startingDeadline`.
 */
export class Claimant {
  readonly #job: Job;
  readonly #patienceMs: number;
  readonly #schedule: Schedule | undefined;
  #warnedOfClock = false;

  /** A claim is begun within `maxDelayMs` of its grant, or given back soon after. The schedule, where it is known. */
  constructor(job: Job, maxDelayMs: number, schedule?: Schedule) {
    this.#job = job;
    this.#patienceMs = maxDelayMs + BEGIN_MARGIN_MS;
    this.#schedule = schedule;
  }

  /** Rejects only when the store or a fence cannot be asked. */
  async claim(tick: number, ends: Ends): Promise<Claim | Skip> {
    const { settings, clock } = this.#job;
    let waitMs = 0;
    for (;;) {
      // Also a run that has lost its lease: it must not get a second copy beside it.
      if (this.#job.isRunningHere) return new Skip('running-here');
      const answer = await this.#ask(tick, waitMs, ends);
      const ended = ends.stopping.aborted
        ? 'stopped'
        : waitMs > 0 && ends.newer.aborted
          ? 'newer-tick'
          : this.#lateMs(tick) > settings.startingDeadlineMs
            ? 'too-late'
            : null;
      if (ended !== null) {
        if (answer instanceof Claim) await answer.giveBack();
        return new Skip(ended);
      }
      if (answer === null || answer instanceof Claim) return answer ?? new Skip('stopped');
      const leftMs = settings.startingDeadlineMs - this.#lateMs(tick);
      switch (answer.reason) {
        case 'already-ran':
        case 'superseded':
        case 'too-late':
          return new Skip(answer.reason, answer);
        case 'clock-ahead':
          if (answer.remainingMs > Math.min(settings.startingDeadlineMs, MAX_CLOCK_WAIT_MS)) {
            this.#warnOfClock(answer.remainingMs);
            return new Skip(answer.reason, answer);
          }
          this.#tellWaiting(tick, answer);
          // The schedule keeps the process alive, if it is to be kept.
          await pause(clock, Math.max(1, Math.ceil(answer.remainingMs)), { signal: ends.stopping, ref: false });
          break;
        case 'held':
        case 'turn':
        case 'quarantine':
          if (leftMs <= 0 || isOfJob(this.#job, answer)) return new Skip(answer.reason, answer);
          if (waitMs === 0) this.#tellWaiting(tick, answer);
          waitMs = leftMs;
          break;
      }
    }
  }

  /** Null when it was ended before there was an answer. */
  async #ask(tick: number, waitMs: number, { stopping, newer }: Ends): Promise<Claim | Refusal | null> {
    const { manager, clock } = this.#job;
    const cancel = this.#job.newCancel();
    const end = (): void => cancel.abort();
    const enders = waitMs > 0 ? [stopping, newer] : [];
    for (const signal of enders) signal.addEventListener('abort', end);
    try {
      if (enders.some(({ aborted }) => aborted)) return null;
      const acquisition = this.#job.acquisition(tick, cancel, waitMs, this.#maxAheadMs(tick));
      const answer = await Claim.ask(manager, acquisition, { clock, ms: this.#patienceMs });
      if (!(answer instanceof Claim)) {
        this.#job.forget(cancel);
        return answer;
      }
      void this.#job.track(answer.over()).then(() => this.#job.forget(cancel));
      return answer;
    } catch (error) {
      this.#job.forget(cancel);
      // By us, or by the shutdown that closes the manager: no failure of the store.
      if (cancel.signal.aborted && LeaseholdError.is(error, 'RUN_CANCELLED')) return null;
      if (stopping.aborted && LeaseholdError.is(error, 'MANAGER_CLOSED')) return null;
      throw error;
    } finally {
      // From here on it is the run's: a newer tick does not cancel a run that has begun.
      for (const signal of enders) signal.removeEventListener('abort', end);
    }
  }

  /** By the clock that the schedule went by, so that this machine's error does not count. */
  #lateMs(tick: number): number {
    return this.#job.clock.wallMs() - tick;
  }

  /**
   * Whoever claims a tick shuts out the one before it. So that one must have been due for half of the time between them:
   * by then whoever runs it has asked.
   */
  #maxAheadMs(tick: number): number {
    if (this.#schedule === undefined) return MAX_AHEAD_MS;
    const before = slotNear(this.#schedule, tick - 1, 2 * MAX_AHEAD_MS, 0);
    return before === null ? MAX_AHEAD_MS : Math.min(MAX_AHEAD_MS, Math.floor((tick - before) / 2));
  }

  #tellWaiting(tick: number, { reason, holder, aheadMs }: Refusal): void {
    const { announce, settings } = this.#job;
    announce('waiting', { job: settings.name, tick: new Date(tick), reason, holder, aheadMs });
  }

  #warnOfClock(aheadMs: number): void {
    if (this.#warnedOfClock) return;
    this.#warnedOfClock = true;
    const { name } = this.#job.settings;
    warn(`job ${name} does not run here: the clock of this machine is ${Math.round(aheadMs)} ms ahead of the store's`);
  }
}

/** A resource of the job's own is held by nobody but this job: its run before, or one that was begun by hand. */
function isOfJob({ settings }: Job, { reason, holder }: Refusal): boolean {
  return reason === 'held' && (holder?.job === settings.name || settings.resource === settings.name);
}
