import type { Clock, Timer } from '../clock.ts';
import { LeaseholdError } from '../errors.ts';
import { clamp } from './term.ts';
import { within } from './within.ts';

interface Errand {
  readonly send: () => Promise<unknown>;
  readonly untilMs: number;
  readonly finished: Promise<boolean>;
  readonly done: (confirmed: boolean) => void;
  sending: boolean;
  /** The store came back while a try was under way that may still fail: the next one is due at once. */
  again: boolean;
  tries: number;
  timer: Timer | undefined;
}

/** Nothing of ours is there: asking again gives the same answer. */
function isFinal(error: unknown): boolean {
  return LeaseholdError.is(error, 'FOREIGN_KEY') || LeaseholdError.is(error, 'CONFIG');
}

/**
 * Brings withdrawals to the store that it has not confirmed: cancels of acquisitions without a reply, releases that had
 * none. Each is sent at once, again after every reconnection and after growing pauses, until the store has answered or
 * the time is over after which it no longer matters. All of them are safe to repeat.
 */
export class Settler {
  readonly #clock: Clock;
  readonly #errands = new Set<Errand>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves with whether the store confirmed it before `forMs` had passed. Never rejects. */
  add(send: () => Promise<unknown>, forMs: number): Promise<boolean> {
    let done: (confirmed: boolean) => void = () => {};
    const finished = new Promise<boolean>((resolve) => (done = resolve));
    const untilMs = this.#clock.monotonicMs() + forMs;
    const errand: Errand = { send, untilMs, finished, done, sending: false, again: false, tries: 0, timer: undefined };
    this.#errands.add(errand);
    void this.#try(errand);
    return finished;
  }

  reconnected(): void {
    for (const errand of this.#errands) {
      errand.tries = 0;
      errand.again = errand.sending;
      void this.#try(errand);
    }
  }

  /** Resolves when nothing is unconfirmed any more, or after `forMs`. */
  async flush(forMs: number): Promise<void> {
    if (this.#errands.size === 0) return;
    await within(this.#clock, Promise.all([...this.#errands].map((errand) => errand.finished)), forMs);
  }

  /** Gives up what is still unconfirmed: the store is being closed. */
  abandon(): void {
    for (const errand of this.#errands) this.#finish(errand, false);
  }

  async #try(errand: Errand): Promise<void> {
    if (errand.sending) return;
    errand.timer?.clear();
    errand.sending = true;
    try {
      await errand.send();
      this.#finish(errand, true);
    } catch (error) {
      // Its first failure was reported by whoever began it.
      errand.sending = false;
      if (!this.#errands.has(errand)) return;
      if (isFinal(error)) {
        this.#finish(errand, false);
        return;
      }
      const pauseMs = errand.again ? 0 : clamp(100 * 2 ** errand.tries++, 100, 5000);
      errand.again = false;
      const leftMs = errand.untilMs - this.#clock.monotonicMs();
      if (leftMs <= 0) this.#finish(errand, false);
      else errand.timer = this.#clock.setTimer(Math.min(pauseMs, leftMs), () => void this.#try(errand), { ref: false });
    }
  }

  #finish(errand: Errand, confirmed: boolean): void {
    errand.timer?.clear();
    if (this.#errands.delete(errand)) errand.done(confirmed);
  }
}
