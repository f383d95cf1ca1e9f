import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

import { connectRedis } from '../../support/redis-client.ts';
import { following } from '../equipment/lagging-replica.ts';
import type { Nemesis } from '../nemesis.ts';
import type { Stage } from '../stage.ts';
import { figure, insist } from './admin.ts';
import { claim } from './claims.ts';
import { untilMet } from './met.ts';

/**
 * The store dies, and a replica takes its place that has not heard of the last writes. When it is over the old one has been
 * filled again, and has its place back: that change loses nothing.
 */
export const promotion: Nemesis = {
  name: 'promotion',
  kinds: ['data-loss'],
  needs: ['replica'],
  async strike(stage) {
    const { replica, redis } = stage;
    const claimed = replica === undefined ? null : claim(redis);
    if (replica === undefined || claimed === null) return null;
    const { link } = replica;
    const before = link.counters.lostBytes;
    link.swallow('down');
    // Of any length: within it leases are extended, lost and taken.
    await sleep(stage.ttlMs * (0.2 + 1.5 * stage.random()));
    await untilMet(() => link.counters.lostBytes - before);
    const promoted = await connectRedis(replica.redis.url);
    await redis.kill();
    const lost = link.counters.lostBytes - before;
    await promoted.replicaof('NO', 'ONE');
    lead(stage, replica.redis.port);
    return {
      forMs: stage.ttlMs * (1 + stage.random()),
      async heal() {
        await redis.restart();
        await using old = await connectRedis(redis.url);
        await old.config('SET', 'repl-diskless-sync-delay', '0');
        await promoted.config('SET', 'repl-diskless-sync-delay', '0');
        await old.replicaof('127.0.0.1', replica.redis.port);
        await following(old);
        await promoted.client('PAUSE', 30_000, 'WRITE');
        const has = await figure(promoted, 'replication', 'master_repl_offset');
        while ((await figure(old, 'replication', 'slave_repl_offset')) < has) await sleep(5);
        await old.replicaof('NO', 'ONE');
        lead(stage, redis.port);
        link.cut('reset');
        link.pass();
        await insist(() => follow(promoted, link.port));
        promoted.disconnect();
        claimed[Symbol.dispose]();
        return lost;
      },
    };
  },
};

async function follow(replica: Redis, port: number): Promise<void> {
  await replica.replicaof('127.0.0.1', port);
  await replica.client('UNPAUSE');
  await following(replica);
}

/** All go to the server at this port from now on. */
function lead({ seats, redisProxy }: Stage, port: number): void {
  for (const proxy of [redisProxy, ...seats.map((seat) => seat.redisProxy)]) {
    proxy.leadTo(port);
    proxy.cut('reset');
  }
}
