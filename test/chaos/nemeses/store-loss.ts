import type { Nemesis } from '../nemesis.ts';
import { figure, insist, tried } from './admin.ts';
import { claim } from './claims.ts';
import { RESTARTS } from './store-refusals.ts';

/** FLUSHALL: everything is gone, and nothing else shows it. */
export const storeFlush: Nemesis = {
  name: 'store-flush',
  kinds: ['data-loss'],
  async strike({ redisAdmin }) {
    const lost = await tried(async () => {
      const [size, done] = (await redisAdmin.multi().dbsize().flushall().exec()) ?? [];
      return done?.[1] === 'OK' ? Number(size?.[1]) : 0;
    });
    return lost === undefined || lost === 0 ? null : { forMs: 0, heal: async () => lost };
  },
};

/** Somebody deletes the record of a lease that is held. */
export const storeDelete: Nemesis = {
  name: 'store-delete',
  kinds: ['data-loss'],
  async strike(stage) {
    const owner = await stage.owner();
    if (owner === null) return null;
    const deleted = await tried(() => stage.redisAdmin.del(stage.keyOf(owner.resource)));
    return deleted === undefined || deleted === 0 ? null : { forMs: 0, heal: async () => deleted };
  },
};

/** A cache's policy and too little memory: the server throws away what it has. */
export const storeEvict: Nemesis = {
  name: 'store-evict',
  notWith: RESTARTS,
  kinds: ['data-loss'],
  async strike(stage) {
    const { redisAdmin } = stage;
    const claimed = claim(redisAdmin);
    if (claimed === null) return null;
    const setRight = async (): Promise<void> => {
      await insist(() => redisAdmin.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '0'));
      claimed[Symbol.dispose]();
    };
    const before = await tried(() => figure(redisAdmin, 'stats', 'evicted_keys'));
    const size = before === undefined ? undefined : await tried(() => redisAdmin.dbsize());
    if (before === undefined || size === undefined || size === 0) {
      claimed[Symbol.dispose]();
      return null;
    }
    const isSet = await tried(() => redisAdmin.config('SET', 'maxmemory-policy', 'allkeys-lru', 'maxmemory', '1'));
    if (isSet === undefined) {
      // Perhaps it is, and only the answer did not come.
      await setRight();
      return null;
    }
    return {
      forMs: stage.ttlMs * 0.2,
      async heal() {
        const evicted = (await insist(() => figure(redisAdmin, 'stats', 'evicted_keys'))) - before;
        await setRight();
        return evicted;
      },
    };
  },
};
