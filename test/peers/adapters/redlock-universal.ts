import { createLock, IoredisAdapter, type Lock, type LockHandle } from 'redlock-universal';
import { clientFor, measuredClient } from './client.ts';
import type { LockLibrary } from './library.ts';
import { ofALock, type Peer } from './peer.ts';
import { untilEntered } from './redlock-5.ts';

export const redlockUniversal: Peer = {
  ...ofALock,
  name: 'redlock-universal',
  dependency: 'redlock-universal',
  needsNode: 22,
  configuration:
    '`createLock(…).using` with its signal; it extends when four fifths of the lease are over, which cannot be set. `retryDelay` 100 ms (its default), as many retries as it takes, no circuit breaker (it would keep a waiter out). On Node 22, which it asks for',
  keys: (resource) => [`*${resource}*`],
  renewMs: (leaseMs) => leaseMs * 0.8,
  async open(surroundings) {
    const { resource, leaseMs } = surroundings;
    const lock = createLock({
      adapter: new IoredisAdapter(clientFor(surroundings)),
      key: resource,
      ttl: leaseMs,
      retryAttempts: 10,
      retryDelay: 100,
      circuitBreaker: false,
    });
    return { run: (section) => untilEntered((enter) => lock.using(enter), section) };
  },
};

export const redlockUniversalLibrary: LockLibrary = {
  name: redlockUniversal.name,
  dependency: redlockUniversal.dependency,
  needsNode: 22,
  extendedBy: 'using',
  keyOf: (resource) => resource,
  open(options) {
    const client = measuredClient(options);
    const adapter = new IoredisAdapter(client);
    const lockOf = (key: string) =>
      createLock({ adapter, key, ttl: options.ttlMs, retryAttempts: 1_000_000, circuitBreaker: false });
    return {
      async acquire(resource) {
        const lock = lockOf(resource);
        return { lock, handle: await lock.acquire() };
      },
      release: ({ lock, handle }: { lock: Lock; handle: LockHandle }) => lock.release(handle),
      using: (resource, work) => lockOf(resource).using(work),
      close: () => client.disconnect(),
    };
  },
};
