import type { Clock } from '../clock.ts';
import { Deadlines } from '../deadlines.ts';

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

/** Arranges that `expire` is called after so long. Returns what calls that off. */
type Arm = (expire: () => void, withinMs: number) => () => void;

/**
 * `work`, or a rejection with `NoAnswer`. What `work` comes to afterwards goes to `late`, its rejection nowhere. Acts one
 * turn of the event loop after the timer: Node runs timers before it looks at sockets, and an answer that arrived while
 * the loop was blocked must win. The timer keeps the process alive.
 */
export function within<T>(work: Promise<T>, what: string, withinMs: number, clock: Clock): Promise<T> {
  return race(work, what, withinMs, (expire) => {
    const timer = clock.setTimer(withinMs, () => setImmediate(expire), { ref: true });
    return () => timer.clear();
  });
}

/** The same for a client whose connections keep the process alive while they are used: one timer for all that is waited for. */
export class Waits {
  readonly #deadlines: Deadlines;
  readonly #arm: Arm;

  constructor(clock: Clock) {
    this.#deadlines = new Deadlines(clock);
    this.#arm = (expire, withinMs) => {
      const due = { slot: -1, expire };
      this.#deadlines.put(due, withinMs);
      return () => this.#deadlines.remove(due);
    };
  }

  within<T>(work: Promise<T>, what: string, withinMs: number, late?: (value: T) => void): Promise<T> {
    return race(work, what, withinMs, this.#arm, late);
  }
}

function race<T>(
  work: Promise<T>,
  what: string,
  withinMs: number,
  arm: Arm,
  late: (value: T) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    const callOff = arm(() => {
      if (isOver) return;
      isOver = true;
      reject(new NoAnswer(what, withinMs));
    }, withinMs);
    const failed = (error: Error): void => {
      if (isOver) return;
      isOver = true;
      callOff();
      reject(error);
    };
    work.then((value) => {
      if (isOver) {
        late(value);
        return;
      }
      isOver = true;
      callOff();
      resolve(value);
    }, failed);
  });
}
