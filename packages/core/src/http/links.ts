import { onAbort } from '../abort-listeners.ts';

export interface Link {
  /** Aborts with the first of the signals, and with its reason. */
  readonly signal: AbortSignal | undefined;
  /** Lets go of the signals once `response` can no longer be read; at once if there is none. */
  release(response?: Response): void;
}

// Whoever reads the body holds on to it, and not always to the response.
const unread = new FinalizationRegistry<() => void>((unlink) => unlink());

/**
 * One signal of several. Not `AbortSignal.any`: on Node 20 that keeps some memory of every call for as long as the longest
 * of the signals lives, and a lease or an application outlives many calls.
 */
export function link(signals: readonly (AbortSignal | null | undefined)[]): Link {
  const given = signals.filter((signal) => signal !== null && signal !== undefined);
  const aborted = given.find((signal) => signal.aborted);
  if (aborted !== undefined || given.length === 0) return { signal: aborted, release() {} };
  const controller = new AbortController();
  const stops = given.map((signal) => onAbort(signal, () => controller.abort(signal.reason)));
  const unlink = (): void => {
    for (const stop of stops) stop();
  };
  return {
    signal: controller.signal,
    release(response) {
      if (response?.body) unread.register(response.body, unlink);
      else unlink();
    },
  };
}
