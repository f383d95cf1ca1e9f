import { LeaseManager } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { clientFor } from './client.ts';
import { ofALock, type Peer, type Surroundings } from './peer.ts';

const PREFIX = 'peers';

const common = {
  ...ofALock,
  dependency: '@leasehold/core',
  keys: (resource: string) => [`${PREFIX}:{${resource}}*`],
};

export const leasehold: Peer = {
  ...common,
  name: 'Leasehold',
  configuration: '`run` with `redisStore`, and `redisFence` at the resource; everything else by default',
  async open(surroundings) {
    const { ledger, resource } = surroundings;
    const leases = managerIn(surroundings);
    const fence = redisFence(ledger, { name: 'ledger' });
    return {
      run: (section) =>
        leases.run(resource, { wait: Infinity, fences: [fence] }, (lease) =>
          section({
            isLost: () => !lease.isHeld() || lease.signal.aborted,
            token: lease.fencingToken,
            write: async ([name = '', ...args]) => void (await fence.write(lease, (tx) => tx.call(name, ...args))),
          }),
        ),
    };
  },
};

export const unfenced: Peer = {
  ...common,
  name: 'Leasehold without a fence',
  configuration: 'the same with plain writes, for whoever thinks that a lease alone will do',
  async open(surroundings) {
    const leases = managerIn(surroundings);
    return {
      run: (section) =>
        leases.run(surroundings.resource, { wait: Infinity }, (lease) =>
          section({ isLost: () => !lease.isHeld() || lease.signal.aborted, token: lease.fencingToken }),
        ),
    };
  },
};

function managerIn(surroundings: Surroundings): LeaseManager {
  const store = redisStore(clientFor(surroundings), { prefix: PREFIX });
  return new LeaseManager({ store, ttl: surroundings.leaseMs });
}
