import { Mutex } from 'redis-semaphore';
import { clientFor, measuredClient } from './client.ts';
import type { LockLibrary } from './library.ts';
import { ofALock, type Peer } from './peer.ts';

export const redisSemaphore: Peer = {
  ...ofALock,
  name: 'redis-semaphore',
  dependency: 'redis-semaphore',
  configuration:
    '`Mutex` with `onLockLost` and `isAcquired` asked before each step, `refreshInterval` of a third of the lease, `retryInterval` 10 ms (its default)',
  keys: (resource) => [`mutex:${resource}`],
  async open(surroundings) {
    const { resource, leaseMs, renewMs } = surroundings;
    let isLost = false;
    const mutex = new Mutex(clientFor(surroundings), resource, {
      lockTimeout: leaseMs,
      refreshInterval: renewMs,
      acquireTimeout: 600_000,
      onLockLost: () => (isLost = true),
    });
    return {
      async run(section) {
        await mutex.acquire();
        await section({ isLost: () => isLost || !mutex.isAcquired });
        await mutex.release().catch(() => {});
      },
    };
  },
};

export const redisSemaphoreLibrary: LockLibrary = {
  name: redisSemaphore.name,
  dependency: redisSemaphore.dependency,
  extendedBy: 'acquire',
  keyOf: (resource) => `mutex:${resource}`,
  open(options) {
    const client = measuredClient(options);
    return {
      async acquire(resource) {
        const mutex = new Mutex(client, resource, {
          lockTimeout: options.ttlMs,
          acquireTimeout: 600_000,
          ...(options.extendEachMs !== undefined && { refreshInterval: options.extendEachMs }),
        });
        await mutex.acquire();
        return mutex;
      },
      release: (mutex: Mutex) => mutex.release(),
      close: () => client.disconnect(),
    };
  },
};
