import { setTimeout as sleep } from 'node:timers/promises';

import { stateOf } from '../../support/signals.ts';
import type { Nemesis, Strike } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { insist, runId, tried } from './admin.ts';
import { claim } from './claims.ts';

/** SIGSTOP of the store for longer than a lease: what was sent meanwhile is carried out afterwards. */
export const storePause: Nemesis = {
  name: 'store-pause',
  async strike(stage) {
    const claimed = claim(stage.redis);
    if (claimed === null) return null;
    const { redis } = stage;
    await redis.pause();
    const fromMs = stage.recorder.now();
    return {
      forMs: stage.ttlMs * (1.2 + stage.random()),
      fromMs,
      async heal() {
        const untilMs = stage.recorder.now();
        const stood = /^[Tt]/.test(stateOf(redis.pid));
        redis.resume();
        claimed[Symbol.dispose]();
        return { effect: stood ? untilMs - fromMs : 0, untilMs };
      },
    };
  },
};

/** kill -9 of a store that keeps nothing: it comes back empty. */
export const storeRestartEmpty: Nemesis = {
  name: 'store-restart-empty',
  kinds: ['data-loss'],
  notWith: ['store-restart-aof'],
  strike: (stage) => restarted(stage, async (size) => size === 0),
};

/** kill -9 of a store that writes all to its disk: it comes back with all that it has confirmed. */
export const storeRestartAof: Nemesis = {
  name: 'store-restart-aof',
  needs: ['aof'],
  strike: (stage) => restarted(stage, async (size) => size > 0),
};

/** The new life must be another one, with as much as `isRight` says. */
async function restarted(stage: Stage, isRight: (size: number) => Promise<boolean>): Promise<Strike | null> {
  const { redis, redisAdmin } = stage;
  const claimed = claim(redis);
  if (claimed === null) return null;
  const before = await tried(async () => ({ life: await runId(redisAdmin), size: await redisAdmin.dbsize() }));
  if (before === undefined || before.size === 0) {
    claimed[Symbol.dispose]();
    return null;
  }
  await redis.kill();
  await sleep(stage.ttlMs * 0.5 * stage.random());
  await redis.restart();
  const { life, size } = await insist(async () => ({
    life: await runId(redisAdmin),
    // What was written since then is no more than they could.
    size: await redisAdmin.dbsize(),
  }));
  const isNew = life !== before.life;
  const isAsItMust = await isRight(Math.min(size, before.size));
  return {
    forMs: 0,
    async heal() {
      claimed[Symbol.dispose]();
      return isNew && isAsItMust ? 1 : 0;
    },
  };
}
