import type { Logger } from 'pino';

import { readable } from './thrown.ts';

const WHAT = {
  unhandledRejection: 'a promise that nobody waits for was rejected',
  uncaughtException: 'an exception was thrown where nobody catches it, outside of what a handler awaits',
} as const;

/**
 * Writes one line of the level `fatal` before Node ends the process for an error that nobody has caught. It changes nothing: Node ends the
 * process as it would have. Returns what takes this back.
 */
export function tellCrash(log: Logger): () => void {
  const tell = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin): void => {
    try {
      log.fatal(
        { err: readable(error), origin },
        `${WHAT[origin]}; the process ends, its leases run out by themselves`,
      );
    } catch {
      // What is thrown here would hide what has happened.
    }
  };
  process.on('uncaughtExceptionMonitor', tell);
  return () => void process.off('uncaughtExceptionMonitor', tell);
}
