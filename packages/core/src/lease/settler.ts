import type { Clock, Timer } from '../clock.ts';
import { LeaseholdError } from '../errors.ts';
import { clamp } from './term.ts';
import { within } from './within.ts';

/** What is to be confirmed. `isRepeat`: it was sent before, without an answer. */
export type Send = (isRepeat: boolean) => Promise<unknown>;

interface Errand {
  readonly send: Send;
  readonly untilMs: number;
  readonly finished: Promise<boolean>;
  readonly done: (confirmed: boolean) => void;
  sending: boolean;
  /** The store came back while a try was under way that may still fail: the next one is due at once. */
  again: boolean;
  tries: number;
  /** Sent before, without an answer. */
  isRepeat: boolean;
  timer: Timer | undefined;
}

/**
 * So many are sent again at once. What has no answer has none because the store is slow as often as not: thousands that are
 * sent again together, each for a minute, keep it so, and extensions stand in line behind them until leases are lost. A
 * thousand processes at once are 50,000 calls then, which a store answers in less than the two seconds of a call.
 */
const REPEATS_AT_ONCE = 50;
const REPEAT_TIMEOUT_MS = 2000;

/**
 * How long an answer may take. Nobody waits for one to a repeat: where a store needs longer than a short lease leaves for a
 * call, its answers would all be late, and all would be asked for again.
 */
export const patienceMs = (callTimeoutMs: number, isRepeat: boolean): number =>
  isRepeat ? Math.max(callTimeoutMs, REPEAT_TIMEOUT_MS) : callTimeoutMs;

/** Nothing of ours is there: asking again gives the same answer. */
function isFinal(error: unknown): boolean {
  return LeaseholdError.is(error, 'FOREIGN_KEY') || LeaseholdError.is(error, 'CONFIG');
}

/**
 * Brings withdrawals to the store that it has not confirmed: cancels of acquisitions without a reply, releases that had
 * none. Each is sent at once, again after every reconnection and after growing pauses, few at a time, until the store has
 * answered or the time is over after which it no longer matters. All of them are safe to repeat.
 */
export class Settler {
  readonly #clock: Clock;
  readonly #errands = new Set<Errand>();
  /** Due to be sent again, as soon as fewer are under way. */
  readonly #waiting = new Set<Errand>();
  #repeating = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves with whether the store confirmed it before `forMs` had passed. Never rejects. */
  add(send: Send, forMs: number): Promise<boolean> {
    let done: (confirmed: boolean) => void = () => {};
    const finished = new Promise<boolean>((resolve) => (done = resolve));
    const untilMs = this.#clock.monotonicMs() + forMs;
    const errand: Errand = {
      ...{ send, untilMs, finished, done, sending: false, again: false, tries: 0, isRepeat: false },
      timer: undefined,
    };
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
    const { isRepeat } = errand;
    if (isRepeat && this.#repeating >= REPEATS_AT_ONCE) {
      this.#waiting.add(errand);
      return;
    }
    this.#waiting.delete(errand);
    if (isRepeat) this.#repeating++;
    errand.sending = true;
    try {
      await errand.send(isRepeat);
      this.#finish(errand, true);
    } catch (error) {
      // Its first failure was reported by whoever began it.
      errand.sending = false;
      errand.isRepeat = true;
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
    } finally {
      if (isRepeat) {
        this.#repeating--;
        this.#next();
      }
    }
  }

  /** Whose turn it is; who has waited for too long is of no use any more. */
  #next(): void {
    for (const errand of this.#waiting) {
      if (this.#repeating >= REPEATS_AT_ONCE) return;
      if (errand.untilMs > this.#clock.monotonicMs()) void this.#try(errand);
      else this.#finish(errand, false);
    }
  }

  #finish(errand: Errand, confirmed: boolean): void {
    errand.timer?.clear();
    this.#waiting.delete(errand);
    if (this.#errands.delete(errand)) errand.done(confirmed);
  }
}
