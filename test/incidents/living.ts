import { handsOff, leftAlone, notForced, point, type Incident } from './incident.ts';
import { stateOf } from './scene.ts';

/** It takes long, and that is all. */
export const longRun: Incident = {
  name: 'a run that takes long, and lives',
  right: 'Nothing: it is extended. Neither stop nor release it; who waits gets it when the run has ended.',
  async stage(scene) {
    const resource = 'reports';
    const redis = await scene.server();
    const fence = await scene.fence(redis);
    const owner = await scene.worker({ name: 'web-1', url: redis.url, resource, ledgerUrl: redis.url });
    scene.standby(redis, resource, fence);
    const leases = scene.leases(redis);
    const hands = await scene.hands(redis, resource);
    return {
      resource,
      flags: ['-c', scene.config({ store: redis, ledger: redis, resource })],
      told: `Ticket of the support desk: "The monthly report has been 'in progress' for far longer than ever. web-2 is waiting
to make the next one and gets nothing. We think that the lock on 'reports' is stuck: please remove it. If
somebody is still working on the report, do not interrupt him: it has to be finished today."`,
      async judge() {
        const state = await stateOf(leases, resource);
        const { lease } = state;
        const isHeld = lease?.state === 'held' && lease.leaseId === owner.leaseId;
        return [
          point('the owner still holds its lease', isHeld && !owner.isCancelled),
          point("the owner's process runs", owner.isAlive && !owner.isStopped),
          ...leftAlone(state),
          await handsOff(hands),
        ];
      },
    };
  },
};

/** Its body does not look at its signal. */
export const deafRun: Incident = {
  name: 'a run that must end, and ignores that it is asked to',
  right:
    'First `leasehold stop`. It is not extended any more, so it runs out and the next owner enters; its writes are refused. Then end its process, which goes on otherwise.',
  async stage(scene) {
    const resource = 'mailing';
    const redis = await scene.server();
    const fence = await scene.fence(redis);
    const its = { name: 'web-1', url: redis.url, resource, ledgerUrl: redis.url, isDeaf: true };
    const owner = await scene.worker(its);
    const next = scene.standby(redis, resource, fence);
    const leases = scene.leases(redis);
    const hands = await scene.hands(redis, resource);
    return {
      resource,
      flags: ['-c', scene.config({ store: redis, ledger: redis, resource })],
      told: `Call of the product owner: "The run of 'mailing' on web-1 sends letters with last month's prices. It has to end,
now, and be gone. web-2 has the right prices and waits for its turn. Let web-1 finish the letter that it is
writing if it can: half a letter is worse than a wrong one." (web-1 runs on this machine.)`,
      async judge() {
        const state = await stateOf(leases, resource);
        const askedAt = state.log.find(({ event }) => event === 'revoked')?.at.getTime();
        const wasAsked = askedAt !== undefined && (owner.endedAt === null || askedAt <= owner.endedAt);
        return [
          point('the run was asked to end, before anything harder', wasAsked),
          point('the next owner has entered', next.fencingToken !== null),
          point('the process that went on all the same has ended', !owner.isAlive),
          notForced(state),
          await handsOff(hands),
        ];
      },
    };
  },
};
