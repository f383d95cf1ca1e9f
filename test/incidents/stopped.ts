import { handsOff, notForced, point, type Incident, type Point, type Staged } from './incident.ts';
import { stateOf, type Scene, type State } from './scene.ts';
import type { Worker } from './worker.ts';

const resource = 'invoices';

/** It stands still, and would go on where it stood. */
export const stoppedFenced: Incident = {
  name: 'an owner that stands still; its writes go through a fence',
  right:
    'Wait until the lease has run out, then start the next run as always. Its token shuts out the old owner, whether that goes on or not. Nothing has to be released.',
  stage: (scene) => stage(scene, true),
};

export const stoppedUnfenced: Incident = {
  name: 'an owner that stands still, and no fence would refuse its writes',
  right:
    'End the process that stands still, then start the next run as always. As long as it may go on, it and the next owner may both write.',
  stage: (scene) => stage(scene, false),
};

async function stage(scene: Scene, isFenced: boolean): Promise<Staged> {
  const redis = await scene.server();
  const its = isFenced ? { ledgerUrl: redis.url } : {};
  const owner = await scene.worker({ name: 'web-1', url: redis.url, resource, ...its });
  const leases = scene.leases(redis);
  const hands = await scene.hands(redis, resource);
  await owner.stop();
  const config = scene.config({ store: redis, ...(isFenced && { ledger: redis }), resource });
  const ledger = isFenced
    ? `All writes of invoices go through the fence 'ledger' of the config.`
    : `The billing system knows nothing of leases or tokens: it takes what it is sent.`;
  return {
    resource,
    flags: ['-c', config],
    told: `Alert: LeaseExtensionLate, 'invoices'. The run on web-1 (this machine) makes no progress and writes no log. An
invoice that is sent twice is a serious matter. ${ledger}
Get invoices going again as soon as it is safe: the next run is started by
  leasehold trigger invoices ${config}`,
    async judge() {
      const state = await stateOf(leases, resource);
      const nextAt = nextRunOf(state, owner);
      return [
        point('the next run has begun, by acquiring it as always', nextAt !== undefined),
        ...(isFenced ? await lateWrite(owner, nextAt) : [endedBefore(owner, nextAt)]),
        notForced(state),
        await handsOff(hands),
      ];
    },
  };
}

/** When somebody else acquired it. */
function nextRunOf({ log }: State, { fencingToken }: Worker): number | undefined {
  return log
    .toReversed()
    .find((each) => each.event === 'acquired' && each.fencingToken > fencingToken)
    ?.at.getTime();
}

/** Only once somebody else has it: before that it would wake an owner whose lease runs. */
async function lateWrite(owner: Worker, nextAt: number | undefined): Promise<readonly Point[]> {
  if (nextAt === undefined || !owner.isAlive) return [];
  const code = await owner.writesLate();
  return [point('a late write of the old owner is refused', code === 'STALE_TOKEN')];
}

function endedBefore({ endedAt }: Worker, nextAt = Infinity): Point {
  return point('the process that stood still was ended before that', endedAt !== null && endedAt <= nextAt);
}
