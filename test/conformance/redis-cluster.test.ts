import { redisStore } from '@leasehold/core/redis';
import { describeLeaseStore, type StoreHook, type StoreSubject } from '@leasehold/core/testing';
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { RedisCluster } from '../support/redis-cluster.ts';
import { uniqueName } from '../support/redis-client.ts';
import { redisHooks } from './redis-subject.ts';

let cluster: RedisCluster;

beforeAll(async () => {
  cluster = await RedisCluster.start(3, 'file');
});

afterAll(() => cluster.stop());

const hooks: readonly StoreHook[] = [
  ...(['second', 'flush', 'evict', 'foreign', 'setField', 'fill', 'flushScripts'] as const),
  ...(['withoutSideEffects', 'messages'] as const),
];

const FIELDS = { revoked: 'revoked', fencingToken: 'fencing_token' } as const;

async function clusterSubject(): Promise<StoreSubject> {
  const prefix = uniqueName('suite');
  const stores: ReturnType<typeof redisStore>[] = [];
  const open = (
    user: { readonly username?: string; readonly password?: string } = {},
  ): ReturnType<typeof redisStore> => {
    // Only duplicated, so it never connects.
    const client = new Cluster(cluster.addresses, { lazyConnect: true, redisOptions: user });
    const store = redisStore(client, { prefix });
    stores.push(store);
    return store;
  };
  const key = (resource: string): string => `${prefix}:{${resource}}`;
  const rawOf = async (resource: string) => (await cluster.ownerOf(key(resource))).raw;
  return {
    store: open(),
    messages: true,
    second: async () => open(),
    flush: async () => void (await cluster.each('FLUSHALL')),
    evict: async (resource) => void (await (await rawOf(resource)).del(key(resource))),
    async foreign(resource, kind) {
      const raw = await rawOf(resource);
      if (kind === 'type') await raw.set(key(resource), 'somebody else’s');
      else await raw.hset(key(resource), { name: 'somebody', colour: 'blue' });
      const planted = await raw.dumpBuffer(key(resource));
      return {
        intact: async () =>
          (await raw.dumpBuffer(key(resource)))?.equals(planted) === true &&
          (await raw.pttl(key(resource))) === -1 &&
          (await raw.keys(`${key(resource)}:*`)).length === 0,
      };
    },
    async setField(resource, field, value) {
      const raw = await rawOf(resource);
      if ((await raw.exists(key(resource))) === 0) throw new Error(`no record of ${resource}`);
      await raw.hset(key(resource), FIELDS[field], String(value));
    },
    async fill() {
      await cluster.each('CONFIG', 'SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '1');
      return async () => void (await cluster.each('CONFIG', 'SET', 'maxmemory', '0'));
    },
    flushScripts: async () => void (await cluster.each('SCRIPT', 'FLUSH', 'SYNC')),
    async withoutSideEffects() {
      const rights = ['on', '>secret', '~*', 'resetchannels', '+@all', '-publish', '-xadd'];
      await cluster.each('ACL', 'SETUSER', 'mute', 'reset', ...rights);
      return open({ username: 'mute', password: 'secret' });
    },
    async close() {
      for (const store of stores) await store.close();
    },
  };
}

const { leftOut } = describeLeaseStore('Redis Cluster', clusterSubject, hooks);

test('what is left out is what needs a single server', () => {
  const single = redisHooks.filter((hook) => !hooks.includes(hook));
  expect(single).toEqual(['promoteLaggingReplica', 'restart']);
  expect(leftOut.length).toBeLessThan(15);
});
