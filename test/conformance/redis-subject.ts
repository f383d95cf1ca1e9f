import { copyFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { redisStore, type RedisSource } from '@leasehold/core/redis';
import type { StoreHook, StoreSubject } from '@leasehold/core/testing';
import type { Redis } from 'ioredis';

import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

/** What `redisSubject` has hooks for. */
export const redisHooks: readonly StoreHook[] = [
  ...(['second', 'flush', 'evict', 'promoteLaggingReplica', 'foreign', 'setField', 'fill', 'flushScripts'] as const),
  ...(['restart', 'withoutSideEffects', 'messages'] as const),
];

const FIELDS = { revoked: 'revoked', fencingToken: 'fencing_token' } as const;

/** A store on a server that the suite may do anything to. `connect` makes what it is connected by. */
export async function redisSubject(
  server: RedisServer,
  connect: (url: string) => RedisSource = (url) => url,
  prefix = uniqueName('suite'),
): Promise<StoreSubject> {
  const raw = await connectRedis(server.url);
  const stores: ReturnType<typeof redisStore>[] = [];
  const open = (url: string): ReturnType<typeof redisStore> => {
    const store = redisStore(connect(url), { prefix });
    stores.push(store);
    return store;
  };
  const key = (resource: string): string => `${prefix}:{${resource}}`;
  return {
    store: open(server.url),
    messages: true,
    second: async () => open(server.url),
    flush: async () => void (await raw.flushall()),
    evict: (resource) => evict(raw, key(resource)),
    promoteLaggingReplica: (unreplicated) => promoteLaggingReplica(server, unreplicated),
    async foreign(resource, kind) {
      if (kind === 'type') await raw.set(key(resource), 'somebody else’s');
      else await raw.hset(key(resource), { name: 'somebody', colour: 'blue' });
      const planted = await raw.dumpBuffer(key(resource));
      return {
        intact: async () =>
          (await raw.dumpBuffer(key(resource)))?.equals(planted) === true &&
          (await raw.pttl(key(resource))) === -1 &&
          // Nothing beside it either: no queue, no parked process, no tick.
          (await raw.keys(`${key(resource)}:*`)).length === 0,
      };
    },
    async setField(resource, field, value) {
      if ((await raw.exists(key(resource))) === 0) throw new Error(`no record of ${resource}`);
      await raw.hset(key(resource), FIELDS[field], String(value));
    },
    async fill() {
      await raw.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '1');
      return async () => void (await raw.config('SET', 'maxmemory', '0'));
    },
    flushScripts: async () => void (await raw.script('FLUSH', 'SYNC')),
    async restart({ persistent }) {
      if (persistent) await raw.save();
      await server.kill();
      await server.restart();
      await rm(join(server.dir, 'dump.rdb'), { force: true });
    },
    async withoutSideEffects() {
      await raw.acl('SETUSER', 'mute', 'reset', 'on', '>secret', '~*', 'resetchannels', '+@all', '-publish', '-xadd');
      return open(server.url.replace('redis://', 'redis://mute:secret@'));
    },
    async close() {
      for (const store of stores) await store.close();
      raw.disconnect();
    },
  };
}

/** With `allkeys-lru` and no memory at all, the next write evicts whatever there is. */
async function evict(raw: Redis, key: string): Promise<void> {
  await raw.config('SET', 'maxmemory-policy', 'allkeys-lru', 'maxmemory', '1');
  await raw.set('straw', 'the last').catch(() => {});
  await raw.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '0');
  if ((await raw.exists(key)) !== 0) throw new Error(`${key} was not evicted`);
}

/**
 * A replica falls behind, the server dies, and what the replica had is served at the server's address: a failover that
 * loses acknowledged writes.
 */
async function promoteLaggingReplica(server: RedisServer, unreplicated: () => Promise<void>): Promise<void> {
  await using link = await TcpProxy.start({ port: server.port });
  await using replica = await startRedis();
  await using raw = await connectRedis(replica.url);
  await raw.replicaof(link.host, link.port);
  while (!(await raw.info('replication')).includes('master_link_status:up')) await new Promise(setImmediate);
  // Stopping the replica would not do: the bytes would wait in its socket.
  link.swallow('down');
  await unreplicated();
  await server.kill();
  await raw.replicaof('NO', 'ONE');
  await raw.save();
  const dump = join(server.dir, 'dump.rdb');
  await copyFile(join(replica.dir, 'dump.rdb'), dump);
  await server.restart();
  await rm(dump);
}
