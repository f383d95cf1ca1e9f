import type { Clock } from '../clock.ts';
import { LeaseholdError } from '../errors.ts';
import { known, unknown, type Reading } from '../store/reading.ts';
import { messageOf } from '../thrown.ts';
import type { Send } from './client.ts';
import { isAuthFailure, isErrorReply } from './failure.ts';

/** One command, whose failure is an answer, too. */
export type Ask = (command: string, ...args: string[]) => Promise<Reading<unknown>>;

/** Until when all of an inquiry must be over. */
export class Budget {
  readonly #clock: Clock;
  readonly #dueMs: number;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#dueMs = clock.monotonicMs() + timeoutMs;
  }

  get leftMs(): number {
    return Math.max(0, this.#dueMs - this.#clock.monotonicMs());
  }

  /** The value, or why there is none by the end of this part of what is left. Never rejects. */
  reading<T>(promise: Promise<T>, part = 1): Promise<Reading<T>> {
    return new Promise((resolve) => {
      const late = unknown('unreachable', 'no answer in time');
      // A reply that has arrived while the loop stood still must win.
      const over = (): void => void setImmediate(() => resolve(late));
      const timer = this.#clock.setTimer(this.leftMs * part, over, { ref: true });
      promise.then(
        (value) => (timer.clear(), resolve(known(value))),
        (error: unknown) => (timer.clear(), resolve(failed(error))),
      );
    });
  }

  /** Asks by this way, within what is left. */
  asking(send: Send): Ask {
    return async (command, ...args) => {
      try {
        return await this.reading(send(command, args));
      } catch (error) {
        return failed(error);
      }
    };
  }
}

function failed(error: unknown): Reading<never> {
  if (isAuthFailure(error) || LeaseholdError.is(error, 'STORE_AUTH')) return unknown('not-permitted', messageOf(error));
  return unknown(isErrorReply(error) ? 'not-known' : 'unreachable', messageOf(error) || 'the connection failed');
}
