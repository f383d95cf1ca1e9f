import type { FakeTime } from '../../support/faketime.ts';
import type { Nemesis, Strike } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { insist } from './admin.ts';
import { claim } from './claims.ts';

/** How far each is ahead of the true time. */
const ahead = new WeakMap<FakeTime, number>();

/** The store's clock is stepped ahead by a minute, and stays there: to set it right again would be a step back. */
export const storeClockAhead: Nemesis = {
  name: 'store-clock-ahead',
  kinds: ['store-clock'],
  needs: ['store-clock'],
  // A schedule whose ticks come more than a minute too late or too early for the store's clock rests until somebody mends that.
  workloads: ['core', 'bullmq'],
  atMost: 3,
  strike: (stage) => stepped(stage, 60_000),
};

/** The store's clock is stepped back by a minute, and stays there. */
export const storeClockBack: Nemesis = {
  name: 'store-clock-back',
  kinds: ['store-clock', 'store-clock-back'],
  needs: ['store-clock'],
  workloads: ['core', 'bullmq'],
  atMost: 3,
  strike: (stage) => stepped(stage, -60_000),
};

/** The store's clock is stepped ahead by more than a lease, and stays there. */
export const storeClockAheadABit: Nemesis = {
  name: 'store-clock-ahead-small',
  kinds: ['store-clock'],
  needs: ['store-clock'],
  atMost: 2,
  strike: (stage) => stepped(stage, 4000),
};

/** The store's clock is stepped back by more than a lease, and stays there. */
export const storeClockBackABit: Nemesis = {
  name: 'store-clock-back-small',
  kinds: ['store-clock', 'store-clock-back'],
  needs: ['store-clock'],
  atMost: 2,
  strike: (stage) => stepped(stage, -4000),
};

async function stepped(stage: Stage, byMs: number): Promise<Strike | null> {
  const { storeClock: clock, redisAdmin } = stage;
  const claimed = clock === undefined ? null : claim(clock);
  if (clock === undefined || claimed === null) return null;
  const before = ahead.get(clock) ?? 0;
  clock.step(before + byMs);
  ahead.set(clock, before + byMs);
  return {
    forMs: stage.ttlMs * stage.random(),
    async heal() {
      const [seconds = 0] = await insist(() => redisAdmin.time());
      claimed[Symbol.dispose]();
      const isThere = Math.abs(Number(seconds) * 1000 - Date.now() - (before + byMs)) < Math.abs(byMs) / 2;
      return isThere ? Math.abs(byMs) : 0;
    },
  };
}
