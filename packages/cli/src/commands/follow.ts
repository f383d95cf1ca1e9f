import { setTimeout as sleep } from 'node:timers/promises';

import { exitOfSignal } from '../exit.ts';
import type { Output } from '../output/output.ts';
import type { Session } from './session.ts';
import { onSignals } from './signals.ts';

/**
 * Asks now, and then again each `everyMs`, until a signal ends it, or the output cannot be written. What the first question fails with is the command's error;
 * later on a store that does not answer is told of once, and asked again.
 */
export async function follow(
  session: Session,
  output: Output,
  everyMs: number,
  ask: () => Promise<void>,
): Promise<void> {
  const end = new AbortController();
  const ended = new Promise<void>((resolve) => end.signal.addEventListener('abort', () => resolve(), { once: true }));
  // Nobody reads any more, or it cannot be written.
  session.io.cut?.addEventListener('abort', () => end.abort(), { once: true });
  if (session.io.cut?.aborted === true) end.abort();
  using _signals = onSignals((signal) => {
    session.exit = exitOfSignal(signal);
    end.abort();
  });
  await ask();
  let isSilent = false;
  while (!end.signal.aborted) {
    await sleep(everyMs, undefined, { signal: end.signal }).catch(() => {});
    if (end.signal.aborted) return;
    const asked = ask();
    // Nobody waits for a question that is under way when the signal comes.
    asked.catch(() => {});
    try {
      await Promise.race([asked, ended]);
      if (isSilent) output.note('The store answers again.');
      isSilent = false;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      if (!isSilent) output.warn(`leasehold: ${(error as Error).message}; asked again until it answers`, 'warning');
      isSilent = true;
    }
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'STORE_UNAVAILABLE';
}
