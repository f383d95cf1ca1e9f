import { setTimeout as sleep } from 'node:timers/promises';
import Redlock, { type Lock } from 'redlock-4';
import { clientFor, measuredClient } from './client.ts';
import type { LockLibrary } from './library.ts';
import { ofALock, type Peer } from './peer.ts';

export const redlock4: Peer = {
  ...ofALock,
  name: 'redlock 4',
  dependency: 'redlock-4',
  configuration:
    '`lock`, and `lock.extend` by hand each third of the lease, as there is no extension by itself; lost when one rejects, with `retryCount: 0` so that it does at once. To acquire: `retryCount: -1`, `retryDelay` 200 ms, `retryJitter` 200 ms (its defaults)',
  keys: (resource) => [resource],
  async open(surroundings) {
    const { resource, leaseMs, renewMs } = surroundings;
    const redlock = new Redlock([clientFor(surroundings)], { retryCount: -1 });
    redlock.on('clientError', () => {});
    // With the same settings it would try for ever to extend or to release what it has lost. So it stops soonest.
    const holding = new Redlock([clientFor(surroundings)], { retryCount: 0 });
    holding.on('clientError', () => {});
    return {
      async run(section) {
        let lock = await redlock.lock(resource, leaseMs);
        Object.assign(lock, { redlock: holding });
        const over = new AbortController();
        let isLost = false;
        const extending = (async () => {
          while (!over.signal.aborted) {
            try {
              await sleep(renewMs, undefined, { signal: over.signal });
            } catch {
              return;
            }
            try {
              lock = await lock.extend(leaseMs);
            } catch {
              isLost = true;
              return;
            }
          }
        })();
        await section({ isLost: () => isLost });
        over.abort();
        await extending;
        await lock.unlock().catch(() => {});
      },
    };
  },
};

export const redlock4Library: LockLibrary = {
  name: redlock4.name,
  dependency: redlock4.dependency,
  extendedBy: 'nobody',
  keyOf: (resource) => resource,
  open(options) {
    const client = measuredClient(options);
    const redlock = new Redlock([client], { retryCount: -1 });
    return {
      acquire: (resource) => redlock.lock(resource, options.ttlMs),
      release: (lock: Lock) => lock.unlock(),
      close: () => client.disconnect(),
    };
  },
};
