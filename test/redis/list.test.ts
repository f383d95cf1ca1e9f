import { redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { acquireOf, call, cancelOf, leaseId } from './requests.ts';

let server: RedisServer;
let raw: Redis;
let prefix: string;
let store: ReturnType<typeof redisStore>;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  raw = await connectRedis(server.url);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

beforeEach(() => {
  prefix = uniqueName('list');
  store = redisStore(server.url, { prefix });
});

afterEach(() => store.close());

const key = (resource: string): string => `${prefix}:{${resource}}`;

test('list passes over what is not a record of this prefix', async () => {
  const names = ['a b', '{x}', '🔒', 'plain'];
  for (const name of names) await store.acquire(acquireOf(name), call);
  await store.acquire(acquireOf('plain', { mode: 'wait' }), call);
  await store.cancel(cancelOf({ resource: 'tombstone only', leaseId: leaseId() }), call);
  await raw.hset(key('shape'), 'colour', 'blue');
  await raw.hset(`${prefix}:{a%zz}`, 'owner', 'x');
  await raw.hset(`${prefix}:{%41}`, 'owner', 'x', 'lease_id', 'y', 'fencing_token', '1', 'term', 'held 1 0 1 1');
  await raw.set(key('type'), 'mine');
  await raw.hset(`${prefix}-2:{other}`, 'owner', 'x');
  const found = new Map<string, unknown>();
  for await (const { resource, record: its } of store.list(call)) found.set(resource, its);
  expect([...found.keys()].toSorted()).toEqual(names.toSorted());
  expect(found.get('plain')).toMatchObject({ state: 'held', waiting: 1 });
  await store.close();
  await expect(store.list(call)[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
});

test('the age of the server is counted on from what it said; where it says nothing it is not known', async () => {
  expect(store.server).toBeUndefined();
  await store.connect();
  const uptime = Number(/uptime_in_seconds:(\d+)/.exec(await raw.info('server'))?.[1]);
  const { ageMs = -1 } = store.server ?? {};
  expect(ageMs).toBeLessThan((uptime + 2) * 1000);
  expect(ageMs).toBeGreaterThan((uptime - 2) * 1000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(store.server?.ageMs).toBeGreaterThan(ageMs + 15);
  const user = uniqueName('discreet');
  await raw.acl('SETUSER', user, 'on', '>pw', '~*', '&*', '+@all', '-info');
  const discreet = redisStore(server.url.replace('redis://', `redis://${user}:pw@`), { prefix });
  await discreet.connect();
  expect(discreet.server).toEqual({ ageMs: Infinity, restarted: false });
  await discreet.close();
});
