import type { Clock, Timer } from '../clock.ts';
import { Deadlines, type Due } from '../deadlines.ts';

/** PostgreSQL, or the way to it, did not answer in time. */
export class NoAnswer extends Error {
  constructor(what: string, withinMs: number) {
    super(`no answer to ${what} within ${withinMs} ms`);
    this.name = 'NoAnswer';
  }
}

/** Anything can be thrown, also what cannot be looked at. */
export function isNoAnswer(error: unknown): error is NoAnswer {
  try {
    return error instanceof NoAnswer;
  } catch {
    return false;
  }
}

/**
 * `work`, or a rejection with `NoAnswer`. What `work` comes to afterwards goes nowhere. Acts one turn of the event loop after
 * the timer: Node runs timers before it looks at sockets, and an answer that arrived while the loop was blocked must win. The
 * timer keeps the process alive.
 */
export async function within<T>(work: Promise<T>, what: string, withinMs: number, clock: Clock): Promise<T> {
  const wait = new Wait(withinMs);
  const timer = clock.setTimer(withinMs, () => setImmediate(() => wait.expire()), { ref: true });
  try {
    return await wait.race(work, what);
  } finally {
    timer.clear();
  }
}

const DAY_MS = 86_400_000;

/**
 * The same for many calls: one timer for all deadlines. It does not hold the process, so that it need not be cleared with each
 * call; another one does while anything is waited for. Nothing else might: a pool of pg that was ended while it was asked for a
 * client never answers, and holds no socket.
 */
export class Waits {
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  #open = 0;
  #alive: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#deadlines = new Deadlines(clock);
  }

  /** To be given to `end`, once, when nothing more is waited for. */
  begin(withinMs: number): Wait {
    const wait = new Wait(withinMs);
    this.#deadlines.put(wait, withinMs);
    if (this.#open++ === 0) this.#stayAlive();
    return wait;
  }

  end(wait: Wait): void {
    this.#deadlines.remove(wait);
    if (--this.#open === 0) this.#alive?.clear();
  }

  #stayAlive(): void {
    this.#alive = this.#clock.setTimer(DAY_MS, () => this.#stayAlive(), { ref: true });
  }
}

/** A time in which one thing after the other is waited for. */
export class Wait implements Due {
  slot = -1;
  readonly #withinMs: number;
  #isOver = false;
  /** Of what is waited for just now. */
  #giveUp: (() => void) | undefined;

  constructor(withinMs: number) {
    this.#withinMs = withinMs;
  }

  expire(): void {
    this.#isOver = true;
    this.#giveUp?.();
  }

  /** `work`, or a rejection with `NoAnswer`. What `work` comes to afterwards goes to `late`, its rejection nowhere. */
  race<T>(work: Promise<T>, what: string, late?: (value: T) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      let isGivenUp = false;
      this.#giveUp = () => {
        isGivenUp = true;
        reject(new NoAnswer(what, this.#withinMs));
      };
      work.then((value) => {
        if (isGivenUp) late?.(value);
        else resolve(value);
      }, reject);
      if (this.#isOver) this.#giveUp();
    });
  }
}
