import { setTimeout as sleep } from 'node:timers/promises';

import type { Nemesis, Strike } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { seatWith } from './claims.ts';
import { proxyOf, type Way } from './proxied.ts';

/** What an owner sent to the store right before it was killed arrives when somebody else may have its lease. */
export const latePacket: Nemesis = {
  name: 'late-packet',
  kinds: ['kill'],
  strike: (stage) => strike(stage, 'store'),
};

/** What an owner sent to its fence right before it was killed arrives when somebody else may have its lease. */
export const fenceLatePacket: Nemesis = {
  name: 'fence-late-packet',
  kinds: ['kill'],
  strike: (stage) => strike(stage, 'fence'),
};

async function strike(stage: Stage, way: Way): Promise<Strike | null> {
  const found = await seatWith(stage, proxyOf(way), { isOwner: way === 'fence' });
  if (found === null) return null;
  const { seat, part: proxy, claimed } = found;
  const { life } = seat;
  const before = proxy.counters.heldBytes;
  proxy.hold('up');
  for (let waitedMs = 0; proxy.counters.heldBytes === before && waitedMs < stage.ttlMs; waitedMs += 5) await sleep(5);
  const late = proxy.counters.heldBytes - before;
  if (late === 0 || seat.life !== life || !seat.isAlive) {
    proxy.pass();
    claimed[Symbol.dispose]();
    return null;
  }
  await seat.kill();
  return {
    targets: [life],
    // Long enough for another one to have the lease by then, most often.
    forMs: stage.ttlMs * (0.5 + 1.5 * stage.random()),
    async heal() {
      const { replies } = proxy.counters;
      proxy.pass();
      // The end of the dead one's connections comes behind what it sent.
      for (let tries = 0; tries < 100 && proxy.counters.replies === replies && proxy.openConnections > 0; tries++)
        await sleep(5);
      claimed[Symbol.dispose]();
      await seat.startAgain();
      return late;
    },
  };
}
