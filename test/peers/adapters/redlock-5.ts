import { setTimeout as sleep } from 'node:timers/promises';
import Redlock, { type Lock } from 'redlock-5';
import { olderClientFor, olderMeasuredClient } from './client.ts';
import type { LockLibrary } from './library.ts';
import { ofALock, type Peer } from './peer.ts';

export const redlock5: Peer = {
  ...ofALock,
  name: 'redlock 5 beta',
  dependency: 'redlock-5',
  configuration:
    '`using` with its signal, `automaticExtensionThreshold` of two thirds of the lease, so that it is extended each third; `retryCount: 0`, asked again after 200 ms: more retries also delay its abort. Over ioredis 5, for which it was made',
  keys: (resource) => [resource],
  async open(surroundings) {
    const { resource, leaseMs, renewMs } = surroundings;
    const redlock = new Redlock([olderClientFor(surroundings)], {
      retryCount: 0,
      automaticExtensionThreshold: leaseMs - renewMs,
    });
    redlock.on('error', () => {});
    return { run: (section) => untilEntered((enter) => redlock.using([resource], leaseMs, enter), section) };
  },
};

/**
 * The same setting says how often it tries to acquire, to extend and to release, so it tries once, and we ask again until we
 * were in. What it says after the section is no longer of interest.
 */
export async function untilEntered(
  using: (enter: (signal: AbortSignal) => Promise<void>) => Promise<unknown>,
  section: (held: { isLost(): boolean }) => Promise<void>,
): Promise<void> {
  let hasEntered = false;
  while (!hasEntered) {
    try {
      await using(async (signal) => {
        hasEntered = true;
        await section({ isLost: () => signal.aborted });
      });
    } catch {
      await sleep(200);
    }
  }
}

export const redlock5Library: LockLibrary = {
  name: redlock5.name,
  dependency: redlock5.dependency,
  extendedBy: 'using',
  keyOf: (resource) => resource,
  open(options) {
    const client = olderMeasuredClient(options);
    const redlock = new Redlock([client], {
      retryCount: -1,
      ...(options.extendEachMs !== undefined && {
        automaticExtensionThreshold: options.ttlMs - options.extendEachMs,
      }),
    });
    return {
      acquire: (resource) => redlock.acquire([resource], options.ttlMs),
      release: (lock: Lock) => lock.release(),
      using: (resource, work) => redlock.using([resource], options.ttlMs, work),
      close: () => client.disconnect(),
    };
  },
};
