import { type Lock, Redlock } from '@sesamecare-oss/redlock';
import { clientFor, measuredClient } from './client.ts';
import type { LockLibrary } from './library.ts';
import { ofALock, type Peer } from './peer.ts';
import { untilEntered } from './redlock-5.ts';

export const sesamecare: Peer = {
  ...ofALock,
  name: '@sesamecare-oss/redlock',
  dependency: '@sesamecare-oss/redlock',
  configuration: 'as redlock 5, over ioredis 6',
  keys: (resource) => [resource],
  async open(surroundings) {
    const { resource, leaseMs, renewMs } = surroundings;
    const redlock = new Redlock([clientFor(surroundings)], {
      retryCount: 0,
      automaticExtensionThreshold: leaseMs - renewMs,
    });
    redlock.on('error', () => {});
    return { run: (section) => untilEntered((enter) => redlock.using([resource], leaseMs, enter), section) };
  },
};

export const sesamecareLibrary: LockLibrary = {
  name: sesamecare.name,
  dependency: sesamecare.dependency,
  extendedBy: 'using',
  keyOf: (resource) => resource,
  open(options) {
    const client = measuredClient(options);
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
