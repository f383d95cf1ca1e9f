import { constants } from 'node:os';

import type { ShutdownResult } from './shutdown.ts';

type Stop = 'SIGTERM' | 'SIGINT';

/**
 * Calls `close` at the first SIGTERM or SIGINT, and ends the process when that has resolved: with 0, or with 1 if runs were left behind. A second one ends it at once, with 128 and the
 * number of the signal, 143 or 130: whoever sends two does not want to wait, and leases run out by themselves. Returns what takes this back.
 */
export function closeOnSignals(close: (signal: Stop) => Promise<ShutdownResult>): () => void {
  let isClosing = false;
  const heard = (signal: Stop): void => {
    if (isClosing) process.exit(128 + constants.signals[signal]);
    isClosing = true;
    void close(signal).then(({ unsettled }) => process.exit(unsettled === 0 ? 0 : 1));
  };
  process.on('SIGTERM', heard);
  process.on('SIGINT', heard);
  return () => {
    process.off('SIGTERM', heard);
    process.off('SIGINT', heard);
  };
}
