import { handsOff, leftAlone, point, type Incident } from './incident.ts';
import { PREFIX, stateOf } from './scene.ts';

/** Killed, and somebody waits. */
export const killedOwner: Incident = {
  name: 'an owner that was killed; its lease runs out by itself',
  right: 'Wait: within one ttl the lease has run out, and who waits gets it. Nothing has to be released.',
  async stage(scene) {
    const resource = 'reports';
    const redis = await scene.server();
    const fence = await scene.fence(redis);
    const owner = await scene.worker({ name: 'web-1', url: redis.url, resource, ledgerUrl: redis.url });
    const next = scene.standby(redis, resource, fence);
    const leases = scene.leases(redis);
    const hands = await scene.hands(redis, resource);
    await owner.kill();
    return {
      resource,
      flags: ['-c', scene.config({ store: redis, ledger: redis, resource })],
      told: `Page: web-1 was killed by the kernel (out of memory) while it made the report. web-2 is up and has asked for
'reports', but does not start. The runbook of last year says "delete the lock of the dead worker".`,
      async judge() {
        const state = await stateOf(leases, resource);
        const { lease } = state;
        const isOld = lease?.state === 'held' && lease.leaseId === owner.leaseId;
        const isNext = lease?.state === 'held' && lease.fencingToken === next.fencingToken;
        return [
          point('the lease is still to run out, or the next owner has entered', isOld || isNext),
          ...leftAlone(state),
          await handsOff(hands),
        ];
      },
    };
  },
};

/** Nobody can look at its process. */
export const lostHost: Incident = {
  name: 'an owner on a machine that nobody can see',
  right:
    'Wait until the lease has run out, and see the record unchanged (`diagnose --observe`). Then release it by force, which seals the fence first; or seal the fence.',
  async stage(scene) {
    const resource = 'payouts';
    const redis = await scene.server();
    const its = { name: 'batch-17', host: 'batch-17', url: redis.url, resource, ledgerUrl: redis.url };
    const owner = await scene.worker(its);
    const leases = scene.leases(redis);
    const fence = await scene.fence(redis);
    const hands = await scene.hands(redis, resource);
    // Its host hangs, and may come back.
    await owner.stop();
    return {
      resource,
      flags: ['-c', scene.config({ store: redis, ledger: redis, resource })],
      told: `Page: the machine batch-17 does not answer any more; nobody can log in, and nobody knows whether it will come
back. It was paying out ('payouts'). The next payout is tomorrow and nothing else asks for it before then. At
noon accounting corrects the ledger by hand. Make sure that nothing of what batch-17 was about to write can
still arrive in the ledger after that, and say when it is so.`,
      async judge() {
        const [state, highest] = [await stateOf(leases, resource), await fence.highest(`${PREFIX}/${resource}`)];
        const { lease, log } = state;
        const isShut = (highest?.fencingToken ?? 0) > owner.fencingToken;
        const isForced = log.some(({ event }) => event === 'forced');
        const code = isShut ? await owner.writesLate() : null;
        return [
          point('the fence is beyond the token of the lost owner', isShut),
          point('a late write of the lost owner is refused', code === 'STALE_TOKEN'),
          point('a release by force came after the seal, and left the record', !isForced || lease !== null),
          await handsOff(hands),
        ];
      },
    };
  },
};
