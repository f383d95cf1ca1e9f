import { redisFence, redisStore } from '@leasehold/core/redis';
import { Cluster } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { acquireOf, call, releaseOf } from './requests.ts';

// One node that has all slots: enough for what a Cluster forbids, which is two slots in one script.
let server: RedisServer;
let cluster: Cluster;

beforeAll(async () => {
  server = await startRedis({
    scope: 'file',
    args: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'],
  });
  const raw = await connectRedis(server.url);
  await raw.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  while (!String(await raw.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await new Promise(setImmediate);
  raw.disconnect();
  cluster = new Cluster([{ host: server.host, port: server.port }]);
});

afterAll(async () => {
  cluster.disconnect();
  await server.stop();
});

test('leases in many slots are extended in one call', async () => {
  const store = redisStore(cluster);
  try {
    const acquisitions = Array.from({ length: 50 }, (_, index) => acquireOf(`r${index}`));
    for (const acquisition of acquisitions) {
      expect(await store.acquire(acquisition, call)).toMatchObject({ kind: 'granted' });
    }
    await cluster.set('leasehold:{r7}', 'mine');
    let sent = 0;
    const verdicts = await store.extend(acquisitions, { ...call, sent: () => void sent++ });
    expect(sent).toBe(1);
    expect(verdicts[7]).toEqual({ verdict: 'foreign', key: 'leasehold:{r7}' });
    expect(verdicts.filter(({ verdict }) => verdict === 'extended')).toHaveLength(49);
    for (const acquisition of acquisitions.slice(8)) {
      expect(await store.release(releaseOf(acquisition), call)).toEqual({ kind: 'released' });
    }
    expect(store.description).toBe(`redis cluster ${server.host}:${server.port}`);
  } finally {
    await store.close();
  }
  expect(await cluster.ping()).toBe('PONG');
});

test('a fenced write stays in the slot of its fence, or is refused before it is sent', async () => {
  const fence = redisFence(cluster, { key: () => 'leasehold-fence:{account:7}' });
  const grant = { resource: 'shop/account:7', fencingToken: Date.now() * 1000, leaseId: 'a'.repeat(32) };
  await fence.activate(grant);
  expect(fence.enforcing).toBe(true);
  const reply = await fence.write(grant, (tx) => tx.call<number>('INCRBY', '{account:7}:balance', 5));
  expect(reply.value).toBe(5);
  const astray = fence.write(grant, (tx) => {
    tx.call('INCRBY', '{account:7}:balance', 5);
    tx.call('INCRBY', 'account:8:balance', 5);
  });
  await expect(astray).rejects.toMatchObject({ code: 'CONFIG' });
  await expect(astray).rejects.toThrow(/account:8:balance is in another slot/);
  expect(await cluster.get('{account:7}:balance')).toBe('5');
});
