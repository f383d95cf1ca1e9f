import type { Clock } from '@leasehold/core';

interface PauseOptions {
  /** Ends it early. */
  readonly signal?: AbortSignal;
  /** Whether it keeps the process alive. */
  readonly ref: boolean;
}

/** Resolves after `ms`, or as soon as the signal aborts. */
export function pause(clock: Clock, ms: number, { signal, ref }: PauseOptions): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const timer = clock.setTimer(ms, end, { ref });
    function end(): void {
      timer.clear();
      signal?.removeEventListener('abort', end);
      resolve();
    }
    signal?.addEventListener('abort', end, { once: true });
  });
}
