import { LeaseholdError } from '@leasehold/core';
import { forceRelease, sameHost, type ForceReleaseOptions } from '@leasehold/core/diagnosis';

import type { Nemesis, Strike } from '../nemesis.ts';
import type { Seat, Stage } from '../stage.ts';
import { claim } from './claims.ts';
import { tried } from './admin.ts';

/** An owner is killed, nobody else can ask for its lease, and somebody releases it by force: the fence is sealed first. */
export const forceReleaseStale: Nemesis = {
  name: 'force-release',
  kinds: ['kill'],
  strike: (stage) =>
    alone(stage, async ({ seat, resource, leaseId }) => {
      await seat.kill();
      const sinceMs = stage.recorder.now();
      const isDone = await released(stage, resource, {
        leaseId,
        reason: 'chaos',
        probes: [sameHost()],
        fences: [stage.fence],
      });
      return isDone ? sinceMs : null;
    }),
};

/**
 * An owner is stopped, nobody knows what became of it, and somebody releases its lease without any fence, and takes it on
 * himself that two may act then. It wakes up.
 */
export const forceUnsealed: Nemesis = {
  name: 'force-unsealed',
  kinds: ['unsafe-force', 'pause'],
  strike: (stage) =>
    alone(stage, async ({ seat, resource, leaseId, fencingToken }) => {
      await seat.child.stop();
      const sinceMs = stage.recorder.now();
      const acceptDoubleExecution = `${resource}#${fencingToken}`;
      const isDone = await released(stage, resource, { leaseId, reason: 'chaos', probes: [], acceptDoubleExecution });
      return isDone ? sinceMs : null;
    }),
};

/** Somebody ends the lease of an owner that lives, past all that would stop him, and seals nothing. */
export const unsafeForce: Nemesis = {
  name: 'unsafe-force',
  kinds: ['unsafe-force'],
  async strike(stage) {
    const owner = await stage.owner();
    const { store, call } = stage.manager.ground;
    const record = owner === null ? null : await tried(() => store.read(owner.resource, call));
    if (owner === null || record === null || record === undefined || record.state === 'free') return null;
    const { leaseId, fencingToken, extensions } = record;
    const reply = await tried(() =>
      store.forceRelease(
        {
          ...{ resource: owner.resource, leaseId, fencingToken, extensions },
          ...{ elapsedMs: null, floor: 0, operator: 'stage', reason: 'chaos' },
        },
        call,
      ),
    );
    return reply?.kind === 'released' ? { forMs: stage.ttlMs * 0.5, heal: async () => 1 } : null;
  },
};

interface Case {
  readonly seat: Seat;
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
}

/** Nobody else reaches the store until somebody has done something about the lease of one owner; `work` says since when it is struck. */
async function alone(stage: Stage, work: (its: Case) => Promise<number | null>): Promise<Strike | null> {
  const owner = await stage.owner();
  if (owner === null) return null;
  const { seat, resource } = owner;
  const { life } = seat;
  const claims: Disposable[] = [];
  const others = stage.seats.flatMap(({ redisProxy }) => {
    const claimed = claim(redisProxy);
    if (claimed === null) return [];
    claims.push(claimed);
    return redisProxy === seat.redisProxy ? [] : [redisProxy];
  });
  for (const proxy of others) proxy.hold('up', 'down');
  const record = others.length === stage.seats.length - 1 ? await tried(() => stage.manager.inspect(resource)) : null;
  const isHeld = record?.state === 'held' && record.identity?.name === life;
  const { leaseId = '', fencingToken = 0 } = record ?? {};
  const fromMs = isHeld ? await work({ seat, resource, leaseId, fencingToken }).catch(() => null) : null;
  const heal = async (): Promise<void> => {
    for (const proxy of others) proxy.pass();
    for (const claimed of claims) claimed[Symbol.dispose]();
    await seat.startAgain();
  };
  if (fromMs === null) {
    if (isHeld && seat.isAlive && seat.life === life) seat.child.cont();
    await heal();
    return null;
  }
  return {
    targets: [life],
    fromMs,
    forMs: stage.ttlMs * stage.random(),
    async heal() {
      const untilMs = stage.recorder.now();
      if (seat.isAlive && seat.life === life) seat.child.cont();
      await heal();
      return { effect: 1, untilMs };
    },
  };
}

async function released(stage: Stage, resource: string, options: ForceReleaseOptions): Promise<boolean> {
  try {
    const { outcome } = await forceRelease(stage.manager, resource, options);
    return outcome === 'released';
  } catch (error) {
    // It may not be done after all: another fault is about.
    if (LeaseholdError.of(error) === undefined) throw error;
    return false;
  }
}
