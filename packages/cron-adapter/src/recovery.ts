import { LeaseholdError, type TickInfo } from '@leasehold/core';

import { Claim } from './claim.ts';
import type { Claimant, Ends } from './claimant.ts';
import type { Job } from './job.ts';
import { pause } from './pause.ts';
import { latestMissed, type Schedule } from './slots.ts';

/** After a failure of the store, or of the run, it doubles from the first to the last. */
const FIRST_DELAY_MS = 1000;
const LAST_DELAY_MS = 30_000;
/** A slot that is younger may still be run by a schedule that is a little late. */
const SETTLING_MS = 1000;

/** Begins the run of a claim for this tick (epoch ms), and resolves when it is over: whether it succeeded. */
export type Begin = (claim: Claim, tick: number) => Promise<boolean>;

/**
 * Runs that no beat of the schedule begins: of the newest tick that nobody ran (`catchUp`), and of a tick whose run died,
 * was lost or failed (`retry`). One tick at a time, the newest: a newer one that somebody claims would refuse it anyway.
 *
 * Nobody watches over runs but those who may have to take their place, and they ask when the lease that they know of would
 * have run out, so a run costs the store about one request a ttl and instance.
 */
export class Recovery {
  readonly #job: Job;
  readonly #claimant: Claimant;
  readonly #schedule: Schedule;
  readonly #catchesUp: boolean;
  readonly #begin: Begin;
  /** Undefined while the schedule is stopped. */
  #stopping: AbortController | undefined;
  #pursuit: { readonly tick: number; readonly end: AbortController } | undefined;
  /** The last tick that was refused here because of a run of this job, and the token of that run. */
  #refused: { readonly tick: number; readonly token: number } | undefined;
  /** The last tick that was told to be missed for good. */
  #tooLate: number | undefined;
  /** Whether somebody asked for a look while one was under way. */
  #looking: 'no' | 'yes' | 'again' = 'no';

  constructor(job: Job, claimant: Claimant, schedule: Schedule, options: { catchUp: boolean; begin: Begin }) {
    this.#job = job;
    this.#claimant = claimant;
    this.#schedule = schedule;
    this.#catchesUp = options.catchUp;
    this.#begin = options.begin;
  }

  start(): void {
    this.#stopping = new AbortController();
    this.look();
  }

  stop(): void {
    this.#stopping?.abort();
    this.#stopping = undefined;
    this.#pursuit?.end.abort();
    this.#pursuit = undefined;
    this.#refused = undefined;
  }

  /** This tick was refused because a run of this job with this token, in another process, was in the way. */
  behind(tick: number, token: number): void {
    if (this.#job.settings.retry === 0) return;
    this.#refused = { tick, token };
    this.look();
  }

  /** The run of this tick has failed here. */
  failed(tick: number, attempt: number): void {
    if (attempt <= this.#job.settings.retry) this.#pursue(tick, delayAfter(attempt));
  }

  /**
   * Something may have been missed, or another process runs what may have to be run again: looks what the store knows of
   * the job's last tick. Never fails.
   */
  look(): void {
    if (!this.#catchesUp && this.#job.settings.retry === 0) return;
    const stopping = this.#stopping;
    if (stopping === undefined) return;
    if (this.#looking === 'no') void this.#job.track(this.#look(stopping.signal));
    else this.#looking = 'again';
  }

  async #look(stopping: AbortSignal): Promise<void> {
    this.#looking = 'yes';
    const { clock, manager, settings } = this.#job;
    const giveUpAt = clock.monotonicMs() + settings.startingDeadlineMs;
    let hasWaited = false;
    for (let failures = 0; !stopping.aborted;) {
      try {
        const [last] = await manager.runs(settings.name, { resource: settings.resource });
        if (stopping.aborted) break;
        if (this.#isAskedAgain()) {
          hasWaited = false;
          continue;
        }
        const settlesInMs = last === undefined || hasWaited ? 0 : this.#settlesInMs(last);
        if (settlesInMs > 0) {
          // Once: where every second is a slot there is always one that is too young.
          hasWaited = true;
          await pause(clock, settlesInMs, { signal: stopping, ref: false });
          continue;
        }
        const tick = last === undefined ? null : this.#dueAfter(last);
        if (tick !== null) this.#pursue(tick, 0);
        else this.#askAfterGivenBack(last);
        break;
      } catch {
        // The store's state is told by whoever runs something there; here it only means: later.
        failures++;
        if (clock.monotonicMs() > giveUpAt) break;
        await pause(clock, delayAfter(failures), { signal: stopping, ref: false });
      }
    }
    const again = this.#isAskedAgain();
    this.#looking = 'no';
    // By a schedule that was started again meanwhile.
    if (again) this.look();
  }

  #isAskedAgain(): boolean {
    const again = this.#looking === 'again';
    this.#looking = 'yes';
    return again;
  }

  /** How long until it is certain that no schedule runs the newest slot any more; 0 if it is now, or if there is none. */
  #settlesInMs(last: TickInfo): number {
    if (!this.#catchesUp) return 0;
    const nowMs = this.#job.clock.wallMs();
    const newest = latestMissed(this.#schedule, { afterMs: Math.max(last.tick.getTime(), nowMs - SETTLING_MS), nowMs });
    return newest === null ? 0 : newest + SETTLING_MS - nowMs;
  }

  #dueAfter(last: TickInfo): number | null {
    const { clock, settings } = this.#job;
    const { retry, startingDeadlineMs } = settings;
    const nowMs = clock.wallMs();
    const lastMs = last.tick.getTime();
    if (this.#catchesUp) {
      const earliestMs = nowMs - startingDeadlineMs;
      const missed = latestMissed(this.#schedule, { afterMs: lastMs, nowMs: nowMs - SETTLING_MS, earliestMs });
      if (missed !== null) return missed;
      this.#tellTooLate(latestMissed(this.#schedule, { afterMs: lastMs, nowMs: nowMs - SETTLING_MS }));
    }
    const mayBeRetried = last.status !== 'done' && last.attempt <= retry && lastMs >= nowMs - startingDeadlineMs;
    return mayBeRetried ? lastMs : null;
  }

  /** Nobody ran it, and nobody will: said once in each process. */
  #tellTooLate(tick: number | null): void {
    if (tick === null || tick === this.#tooLate) return;
    this.#tooLate = tick;
    const { announce, settings } = this.#job;
    const event = { job: settings.name, tick: new Date(tick) };
    announce('skipped', { ...event, reason: 'too-late', holder: null, aheadMs: null });
  }

  /**
   * The run that was in the way has no claim on any tick: it gave back the one that it had, before it was looked for, and all others have
   * been refused. (Or it was begun by hand, and goes on.)
   */
  #askAfterGivenBack(last: TickInfo | undefined): void {
    const refused = this.#refused;
    this.#refused = undefined;
    if (refused === undefined) return;
    if (last !== undefined && (last.tick.getTime() >= refused.tick || last.fencingToken === refused.token)) return;
    this.#pursue(refused.tick, 0, refused.token);
  }

  /** With `after`, once the run with that token is out of the way; it is not waited for. */
  #pursue(tick: number, delayMs: number, after?: number): void {
    if (this.#stopping === undefined) return;
    const before = this.#pursuit;
    if (before !== undefined && before.tick >= tick) return;
    before?.end.abort();
    const pursuit = { tick, end: new AbortController() };
    this.#pursuit = pursuit;
    const over = (): void => {
      if (this.#pursuit === pursuit) this.#pursuit = undefined;
    };
    void this.#job
      .track(this.#run(tick, delayMs, { stopping: this.#stopping.signal, newer: pursuit.end.signal }, after))
      .then(over);
  }

  async #run(tick: number, delayMs: number, ends: Ends, after: number | undefined): Promise<void> {
    const { clock, settings } = this.#job;
    const { stopping, newer } = ends;
    const isOver = (): boolean =>
      stopping.aborted || newer.aborted || clock.wallMs() - tick > settings.startingDeadlineMs;
    let waitMs = delayMs;
    for (let failures = 0; ;) {
      if (waitMs > 0) await pause(clock, waitMs, { signal: newer, ref: false });
      if (isOver()) return;
      try {
        const answer = await this.#claimant.claim(tick, ends);
        if (answer instanceof Claim) {
          if (isOver()) return await answer.giveBack();
          const { attempt } = answer;
          if ((await this.#begin(answer, tick)) || attempt > settings.retry) return;
          waitMs = delayAfter(attempt);
        } else if (answer.isBehind(this.#job) && settings.retry > 0) {
          if (after !== undefined) {
            const token = answer.refusal?.holder?.fencingToken ?? after;
            // Another process was the first to ask again.
            if (token !== after) this.behind(tick, token);
            return;
          }
          waitMs = Math.max(answer.refusal?.remainingMs ?? 0, 1) + 1;
        } else {
          return;
        }
        failures = 0;
      } catch (error) {
        if (LeaseholdError.is(error, 'CONFIG')) return;
        failures++;
        waitMs = delayAfter(failures);
      }
    }
  }
}

function delayAfter(times: number): number {
  return Math.min(FIRST_DELAY_MS * 2 ** Math.max(0, times - 1), LAST_DELAY_MS);
}
