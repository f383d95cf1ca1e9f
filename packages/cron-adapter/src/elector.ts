import { LeaseholdError, type Clock, type LeaseManager, type Refusal } from '@leasehold/core';
import type { RunCoordinator } from 'node-cron';

import { Claim } from './claim.ts';
import { acquireOptions, type TaskSettings } from './options.ts';
import { pause } from './pause.ts';

/** How long a clock that is ahead of the store's is waited for, at most. Beyond it the clock is wrong. */
const MAX_CLOCK_WAIT_MS = 60_000;
/** How much later than planned node-cron's timers may begin a run that was elected. */
const BEGIN_MARGIN_MS = 1000;
const MIN_POLL_MS = 20;
const MAX_POLL_MS = 500;

/**
 * Decides for one task whether this process runs a tick: node-cron asks before it says `execution:started`, so its events
 * and counters stay true. An elected tick is a `Claim`, which the task's function takes when node-cron calls it.
 *
 * Every way out of `shouldRun` is bounded: calls to the store have their deadlines, waiting ends with `startingDeadline`.
 * It throws only when the store or a fence cannot be asked, which node-cron reports as `coordinator-error`.
 */
export class Elector implements RunCoordinator {
  readonly #manager: LeaseManager;
  readonly #settings: TaskSettings;
  readonly #clock: Clock;
  readonly #isRunningHere: () => boolean;
  /** By the tick's epoch milliseconds. */
  readonly #claims = new Map<number, Claim>();
  #stopping = new AbortController();
  /** Ends the waiting of the tick before, once the next one has come. */
  #newer = new AbortController();
  #warnedOfClock = false;

  constructor(manager: LeaseManager, settings: TaskSettings, clock: Clock, isRunningHere: () => boolean) {
    this.#manager = manager;
    this.#settings = settings;
    this.#clock = clock;
    this.#isRunningHere = isRunningHere;
  }

  async shouldRun(key: string): Promise<boolean> {
    const tick = tickOf(key);
    const stopping = this.#stopping.signal;
    this.#newer.abort();
    this.#newer = new AbortController();
    const { signal: newer } = this.#newer;
    for (;;) {
      // Also a run that has lost its lease: it must not get a second copy beside it.
      if (this.#isRunningHere()) return false;
      const answer = await this.#ask(tick, stopping);
      if (stopping.aborted || this.#lateMs(tick) > this.#settings.startingDeadlineMs) {
        if (answer instanceof Claim) await answer.giveBack();
        return false;
      }
      if (answer instanceof Claim) {
        this.#claims.set(tick, answer);
        return true;
      }
      if (answer === null) return false;
      const waitMs = this.#waitMs(tick, answer);
      if (waitMs === null) return false;
      // A newer tick takes over the waiting for a resource; a tick that is only early keeps its own turn.
      const ends = answer.reason === 'clock-ahead' ? stopping : AbortSignal.any([stopping, newer]);
      // The schedule keeps the process alive, if it is to be kept.
      await pause(this.#clock, waitMs, { signal: ends, ref: false });
      if (ends.aborted) return false;
    }
  }

  /** Node-cron calls it after the run; a claim that is still here never began. */
  async onComplete(key: string): Promise<void> {
    const tick = tickOf(key);
    const claim = this.#claims.get(tick);
    this.#claims.delete(tick);
    await claim?.giveBack();
  }

  /** The claim of this tick, for the one who begins its run. */
  take(tick: Date): Claim | undefined {
    const claim = this.#claims.get(tick.getTime());
    this.#claims.delete(tick.getTime());
    return claim;
  }

  start(): void {
    this.#stopping = new AbortController();
  }

  /** Ends the waiting and gives back what node-cron has not begun: its timer is gone. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#settings.maxRandomDelayMs === 0) return; // those that are here begin within this turn of the event loop
    const claims = [...this.#claims.values()];
    this.#claims.clear();
    await Promise.all(claims.map((claim) => claim.giveBack()));
  }

  /** Null when the manager was closed by our own shutdown, which is no failure. */
  async #ask(tick: number, stopping: AbortSignal): Promise<Claim | Refusal | null> {
    const { resource, maxRandomDelayMs } = this.#settings;
    const patience = { clock: this.#clock, ms: maxRandomDelayMs + BEGIN_MARGIN_MS };
    try {
      return await Claim.ask(this.#manager, resource, acquireOptions(this.#settings, tick), patience);
    } catch (error) {
      if (stopping.aborted && LeaseholdError.is(error, 'MANAGER_CLOSED')) return null;
      throw error;
    }
  }

  /** How long to wait before asking again, or null if this tick is not for us. */
  #waitMs(tick: number, refusal: Refusal): number | null {
    const { reason, remainingMs } = refusal;
    const leftMs = this.#settings.startingDeadlineMs - this.#lateMs(tick);
    switch (reason) {
      case 'already-ran':
      case 'superseded':
      case 'too-late':
        return null;
      case 'clock-ahead':
        if (remainingMs > Math.min(this.#settings.startingDeadlineMs, MAX_CLOCK_WAIT_MS)) {
          this.#warnOfClock(remainingMs);
          return null;
        }
        return Math.max(1, Math.ceil(remainingMs));
      case 'held':
      case 'turn':
      case 'quarantine':
        if (leftMs <= 0 || (reason === 'held' && this.#isHeldByThisJob())) return null;
        return Math.min(Math.max(remainingMs, MIN_POLL_MS), MAX_POLL_MS, leftMs);
    }
  }

  /** By the clock that the schedule went by, so that this machine's error does not count. */
  #lateMs(tick: number): number {
    return this.#clock.wallMs() - tick;
  }

  /** A resource of the job's own is held by nobody but this job, whose run before goes on somewhere. */
  #isHeldByThisJob(): boolean {
    return this.#settings.resource === this.#settings.name;
  }

  #warnOfClock(aheadMs: number): void {
    if (this.#warnedOfClock) return;
    this.#warnedOfClock = true;
    process.emitWarning(
      `job ${this.#settings.name} does not run here: the clock of this machine is ${Math.round(aheadMs)} ms ahead of the store's`,
      { type: 'LeaseholdWarning' },
    );
  }
}

/** node-cron's key is `<name>:<ISO instant>`; names may contain colons, the instant has a fixed length. */
function tickOf(key: string): number {
  return Date.parse(key.slice(-24));
}
