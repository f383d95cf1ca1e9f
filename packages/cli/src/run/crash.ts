import { AsyncResource } from 'node:async_hooks';

import type { Logger } from 'pino';

import { EXIT } from '../exit.ts';
import { readable } from './thrown.ts';
import { isWithin } from './within.ts';

/** More than `giveUp` takes by itself; the store may be out of reach. */
const EXIT_AFTER_MS = 4000;

const WHAT = {
  unhandledRejection: 'a promise that nobody waits for was rejected',
  uncaughtException: 'an exception was thrown where nobody catches it, outside of what a handler awaits',
} as const;

/**
 * On an error that nobody catches: writes a line of the level `fatal`, calls `giveUp`, and ends the process with 1, as Node would have at once.
 * Where somebody else listens for `uncaughtException` nothing is done, as the process goes on then. Returns what takes this back.
 */
export function endOnCrash(log: Logger, giveUp: () => Promise<number>): () => void {
  let isEnding = false;
  const end = async (): Promise<void> => {
    const given = giveUp().then((left) =>
      tell(() =>
        log.info({ left }, left === 0 ? 'leases are given up' : 'leases of runs that go on run out by themselves'),
      ),
    );
    await isWithin(given, EXIT_AFTER_MS);
    process.exit(EXIT.unexpected);
  };
  // Not as a part of the run that it happened in: that one is to be waited for as well.
  const crashed = AsyncResource.bind((error: unknown, origin: NodeJS.UncaughtExceptionOrigin): void => {
    if (process.listenerCount('uncaughtException') > 1) return;
    tell(() => log.fatal({ err: readable(error), origin }, `${WHAT[origin]}; runs are aborted, and the process ends`));
    if (isEnding) return;
    isEnding = true;
    void end();
  });
  process.on('uncaughtException', crashed);
  return () => void process.off('uncaughtException', crashed);
}

/** What a logger throws here would hide what has happened. */
function tell(say: () => void): void {
  try {
    say();
  } catch {
    // There is nobody left to tell.
  }
}
