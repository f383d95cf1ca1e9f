import type { Clock } from '@leasehold/core';

/** Resolves after `ms`, or as soon as `signal` aborts. Does not keep the process alive: the schedule does. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const timer = clock.setTimer(ms, end, { ref: false });
    function end(): void {
      timer.clear();
      signal?.removeEventListener('abort', end);
      resolve();
    }
    signal?.addEventListener('abort', end, { once: true });
  });
}
