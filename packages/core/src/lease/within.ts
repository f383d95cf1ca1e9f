import type { Clock } from '../clock.ts';

export const TIMED_OUT: unique symbol = Symbol('timed out');

/**
 * The promise's result, or `TIMED_OUT` after `forMs`. The timer keeps the process alive, because somebody waits. What the
 * promise comes to later is dropped.
 */
export async function within<T>(clock: Clock, promise: Promise<T>, forMs: number): Promise<T | typeof TIMED_OUT> {
  if (forMs === Infinity) return promise;
  let clear = (): void => {};
  const timeout = new Promise<typeof TIMED_OUT>((resolve) => {
    const timer = clock.setTimer(forMs, () => resolve(TIMED_OUT), { ref: true });
    clear = () => timer.clear();
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clear();
  }
}
