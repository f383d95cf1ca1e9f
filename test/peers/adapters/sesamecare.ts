import { Redlock } from '@sesamecare-oss/redlock';
import { clientFor } from './client.ts';
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
