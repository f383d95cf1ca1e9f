import type { Clock } from '../clock.ts';

/** Settles within `timeoutMs`, with what `late` gives if `work` has not by then; the signal of `work` aborts with that. */
export function within<T>(
  clock: Clock,
  timeoutMs: number,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(
      timeoutMs,
      () => {
        const error = late();
        reject(error);
        controller.abort(error);
      },
      { ref: true },
    );
    work(controller.signal)
      .finally(() => timer.clear())
      .then(resolve, reject);
  });
}
