import type { Clock } from '../clock.ts';

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
 * `work`, or a rejection with `NoAnswer`. What `work` comes to afterwards goes to `late`, its rejection nowhere. Acts one
 * turn of the event loop after the timer: Node runs timers before it looks at sockets, and an answer that arrived while
 * the loop was blocked must win.
 */
export function within<T>(
  work: Promise<T>,
  what: string,
  withinMs: number,
  clock: Clock,
  late: (value: T) => void = () => {},
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    const timer = clock.setTimer(
      withinMs,
      () =>
        setImmediate(() => {
          if (isOver) return;
          isOver = true;
          reject(new NoAnswer(what, withinMs));
        }),
      { ref: true },
    );
    const failed = (error: Error): void => {
      if (isOver) return;
      isOver = true;
      timer.clear();
      reject(error);
    };
    work.then((value) => {
      if (isOver) {
        late(value);
        return;
      }
      isOver = true;
      timer.clear();
      resolve(value);
    }, failed);
  });
}
