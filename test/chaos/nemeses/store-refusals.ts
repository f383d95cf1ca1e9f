import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import type { Nemesis } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { errors, insist, tried } from './admin.ts';
import { claim } from './claims.ts';
import { untilMet } from './met.ts';

/** A new life of the server knows nothing of what the last one was told, and counts its errors anew. */
export const RESTARTS: readonly string[] = ['store-restart-empty', 'store-restart-aof', 'promotion'];

interface Refusal {
  readonly name: string;
  /** As the error begins, and as the server counts it. */
  readonly code: string;
  begin(stage: Stage): Promise<unknown>;
  end(stage: Stage): Promise<unknown>;
}

/** The store answers, and refuses what would write. */
function refusing({ name, code, begin, end }: Refusal): Nemesis {
  return {
    name,
    notWith: RESTARTS,
    async strike(stage) {
      const { redisAdmin } = stage;
      const claimed = claim(redisAdmin);
      if (claimed === null) return null;
      const before = await tried(() => errors(redisAdmin, code));
      const begun = before === undefined ? undefined : await tried(() => begin(stage));
      if (before === undefined || begun === undefined) {
        await insist(() => end(stage));
        claimed[Symbol.dispose]();
        return null;
      }
      return {
        forMs: stage.ttlMs * (0.5 + 1.5 * stage.random()),
        async heal() {
          const refusals = await untilMet(async () => (await insist(() => errors(redisAdmin, code))) - before);
          await insist(() => end(stage));
          claimed[Symbol.dispose]();
          return refusals;
        },
      };
    },
  };
}

/** No memory is left, and nothing may be thrown away. */
export const storeFull = refusing({
  name: 'store-full',
  code: 'OOM',
  begin: ({ redisAdmin }) => redisAdmin.config('SET', 'maxmemory', '1'),
  end: ({ redisAdmin }) => redisAdmin.config('SET', 'maxmemory', '0'),
});

/** It is a replica for a while, of a server that nobody can reach. */
export const storeReadonly = refusing({
  name: 'store-readonly',
  code: 'READONLY',
  begin: ({ redisAdmin }) => redisAdmin.replicaof('127.0.0.1', '1'),
  end: ({ redisAdmin }) => redisAdmin.replicaof('NO', 'ONE'),
});

/** Its snapshots fail, and it is told to refuse writes then. */
export const storeMisconf: Nemesis = {
  // What it leaves of a snapshot keeps a server that was killed from starting again.
  notWith: ['store-restart-empty', 'store-restart-aof', 'promotion'],
  ...refusing({
    name: 'store-misconf',
    code: 'MISCONF',
    async begin({ redis, redisAdmin }) {
      // A snapshot cannot take the place of a folder that is not empty.
      mkdirSync(join(redis.dir, 'dump.rdb', 'x'), { recursive: true });
      await redisAdmin.config('SET', 'save', '3600 1000000', 'stop-writes-on-bgsave-error', 'yes');
      return redisAdmin.bgsave();
    },
    async end({ redis, redisAdmin }) {
      rmSync(join(redis.dir, 'dump.rdb'), { recursive: true, force: true });
      return redisAdmin.config('SET', 'save', '', 'stop-writes-on-bgsave-error', 'no');
    },
  }),
};

/** It is told to have replicas, and has none. */
export const storeNoReplicas = refusing({
  name: 'store-no-replicas',
  code: 'NOREPLICAS',
  begin: ({ redisAdmin }) => redisAdmin.config('SET', 'min-replicas-to-write', '1'),
  end: ({ redisAdmin }) => redisAdmin.config('SET', 'min-replicas-to-write', '0'),
});
