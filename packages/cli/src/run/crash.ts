import { AsyncResource } from 'node:async_hooks';

import type { LeaseManager } from '@leasehold/core';
import type { Logger } from 'pino';

import { EXIT } from '../exit.ts';
import { readable } from './thrown.ts';
import { isWithin } from './within.ts';

/** For runs to end that were aborted because the process crashes. */
const GIVE_UP_WITHIN_MS = 2000;
/** More than `giveUp` takes by itself; the store may be out of reach. */
const EXIT_AFTER_MS = 4000;
/** Codes above it are those of signals: of a second one that ends the process at once. */
const SIGNALLED = 128;

const WHAT = {
  unhandledRejection: 'a promise that nobody waits for was rejected',
  uncaughtException: 'an exception was thrown where nobody catches it, outside of what a handler awaits',
} as const;

/**
 * On an error that nobody catches: writes a line of the level `fatal`, calls `giveUp`, and ends the process with 1, as Node would have at once.
 * Where somebody else listens for `uncaughtException` nothing is done, as the process goes on then. A `process.exit` that is not ours, of a
 * handler or of a library, can only be told of: the code is 1 where it would have been 0, which says that all is done. Returns what takes
 * this back.
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
  // Nothing is left to wait for, so nobody has called `process.exit`.
  let isIdle = false;
  const idle = (): void => void (isIdle = true);
  const exited = (code: number): void => {
    if (isEnding || isIdle || code > SIGNALLED) return;
    tell(() =>
      log.fatal({ code }, 'process.exit was called, by a handler or what it uses; leases run out by themselves'),
    );
    if (code === EXIT.done) process.exitCode = EXIT.unexpected;
  };
  process.on('uncaughtException', crashed);
  process.on('beforeExit', idle);
  process.on('exit', exited);
  return () => {
    process.off('uncaughtException', crashed);
    process.off('beforeExit', idle);
    process.off('exit', exited);
  };
}

/**
 * Aborts all runs and gives back the leases of those that end within 2 s. Resolves with how many are left to run out, undefined if that is
 * not known. Never rejects.
 */
export async function giveUpLeases(manager: LeaseManager): Promise<number | undefined> {
  const closed = await manager.close({ grace: 0, abandonAfter: GIVE_UP_WITHIN_MS }).catch(() => undefined);
  return closed?.unsettled.length;
}

/** What a logger throws here would hide what has happened. */
function tell(say: () => void): void {
  try {
    say();
  } catch {
    // There is nobody left to tell.
  }
}
