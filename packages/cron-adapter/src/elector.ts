import { setMaxListeners } from 'node:events';

import { LeaseholdError } from '@leasehold/core';
import type { RunCoordinator } from 'node-cron';

import { Claim } from './claim.ts';
import type { Claimant, Ends, Skip } from './claimant.ts';
import type { Job } from './job.ts';

/** What else is done about a tick that does not run here. */
export interface ElectionObserver {
  /** It was refused, or given up. */
  skipped(tick: number, skip: Skip): void;
  /** The store or a fence could not be asked. */
  unavailable(tick: number): void;
}

/**
 * Decides for one task whether this process runs a tick: node-cron asks before it says `execution:started`, so its events
 * and counters stay true. An elected tick is a `Claim`, which the task's function takes when node-cron calls it.
 *
 * It throws only when the store or a fence cannot be asked, which node-cron reports as `coordinator-error`.
 */
export class Elector implements RunCoordinator {
  readonly #job: Job;
  readonly #claimant: Claimant;
  readonly #observer: ElectionObserver;
  /** Whether node-cron may begin an elected run later than in this turn of the event loop. */
  readonly #beginsLater: boolean;
  /** By the tick's epoch milliseconds. */
  readonly #claims = new Map<number, Claim>();
  #stopping = endlessly();
  /** Ends the waiting of the tick before, once the next one has come. */
  #newer = new AbortController();

  constructor(job: Job, claimant: Claimant, observer: ElectionObserver, beginsLater: boolean) {
    this.#job = job;
    this.#claimant = claimant;
    this.#observer = observer;
    this.#beginsLater = beginsLater;
  }

  async shouldRun(key: string): Promise<boolean> {
    const tick = tickOf(key);
    this.#newer.abort();
    this.#newer = new AbortController();
    const ends: Ends = { stopping: this.#stopping.signal, newer: this.#newer.signal };
    let answer: Claim | Skip;
    try {
      answer = await this.#claimant.claim(tick, ends);
    } catch (error) {
      this.#job.announce('unavailable', { ...this.#event(tick), error });
      if (!LeaseholdError.is(error, 'CONFIG')) this.#observer.unavailable(tick);
      throw error;
    }
    if (answer instanceof Claim) {
      this.#claims.set(tick, answer);
      return true;
    }
    const { reason, refusal } = answer;
    const { holder = null, aheadMs = null } = refusal ?? {};
    this.#job.announce('skipped', { ...this.#event(tick), reason, holder, aheadMs });
    this.#observer.skipped(tick, answer);
    return false;
  }

  /** Node-cron calls it after the run; a claim that is still here never began. */
  async onComplete(key: string): Promise<void> {
    await this.take(new Date(tickOf(key)))?.giveBack();
  }

  /** The claim of this tick, for the one who begins its run. */
  take(tick: Date): Claim | undefined {
    const claim = this.#claims.get(tick.getTime());
    this.#claims.delete(tick.getTime());
    return claim;
  }

  start(): void {
    this.#stopping = endlessly();
  }

  /** Ends the waiting and gives back what node-cron has not begun: its timer is gone. Never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    if (!this.#beginsLater) return; // those that are here begin within this turn of the event loop
    const claims = [...this.#claims.values()];
    this.#claims.clear();
    await Promise.all(claims.map((claim) => claim.giveBack()));
  }

  #event(tick: number): { readonly job: string; readonly tick: Date } {
    return { job: this.#job.settings.name, tick: new Date(tick) };
  }
}

/** node-cron's key is `<name>:<ISO instant>`; names may contain colons, the instant has a fixed length. */
export function tickOf(key: string): number {
  return Date.parse(key.slice(-24));
}

/** As many ticks may wait as there are: where a clock is ahead, each waits for its time. */
function endlessly(): AbortController {
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  return stopping;
}
