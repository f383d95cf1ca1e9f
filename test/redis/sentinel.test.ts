import { redisFence } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { SentinelGroup } from '../support/redis-sentinel.ts';
import { storeOn } from './clients.ts';
import { acquireOf, call, releaseOf } from './requests.ts';

/** Asks until there is an answer: in a failover calls fail, and it is for their callers to come back. */
async function answered<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if ((error as { readonly code?: unknown }).code !== 'STORE_UNAVAILABLE') throw error;
      await new Promise(setImmediate);
    }
  }
}

describe('a failover by Sentinel', () => {
  test('that loses acknowledged writes: lost is the lease, not the data behind the fence', async () => {
    await using group = await SentinelGroup.start();
    const store = storeOn(group.connection);
    expect(store.description).toBe('redis sentinel primary');
    await using client = await connectRedis(inject('redisUrl'));
    const fence = redisFence(client);
    const [resource, log] = [uniqueName('late'), uniqueName('log')];
    const early = acquireOf('early');
    await store.acquire(early, call);
    const heard: string[] = [];
    await store.subscribe('leasehold:channel', ({ kind, leaseId }) => void heard.push(`${kind} ${leaseId}`));
    await using replica = await connectRedis(group.replica.url);
    while ((await replica.exists('leasehold:{early}')) === 0) await new Promise(setImmediate);

    group.link.swallow('down');
    const late = acquireOf(resource);
    const first = await store.acquire(late, call);
    if (first.kind !== 'granted') throw new Error(first.kind);
    const oldGrant = { resource: `leasehold/${resource}`, leaseId: late.leaseId, fencingToken: first.fencingToken };
    await fence.activate(oldGrant);
    await fence.write(oldGrant, (tx) => tx.call('RPUSH', log, 'first'));
    const again = new Promise<void>((resolve) => void store.onReconnect(resolve));
    await group.primary.kill();
    await group.failedOver();
    await again;

    const short = { timeoutMs: 500 };
    expect(await answered(() => store.extend([early, late], short))).toEqual([
      { verdict: 'extended', remainingMs: 30_000 },
      { verdict: 'lost', reason: 'missing' },
    ]);
    expect(store.server).toMatchObject({ restarted: true });
    const next = acquireOf(resource, { channel: 'leasehold:channel' });
    const second = await answered(() => store.acquire(next, short));
    if (second.kind !== 'granted') throw new Error(second.kind);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    const newGrant = { resource: `leasehold/${resource}`, leaseId: next.leaseId, fencingToken: second.fencingToken };
    await fence.activate(newGrant);
    await expect(fence.write(oldGrant, (tx) => tx.call('RPUSH', log, 'stale'))).rejects.toMatchObject({
      code: 'STALE_TOKEN',
    });
    await fence.write(newGrant, (tx) => tx.call('RPUSH', log, 'second'));
    expect(await client.lrange(log, 0, -1)).toEqual(['first', 'second']);

    const revoke = { resource, leaseId: next.leaseId, operator: 'ann', reason: 'enough' };
    while (heard.length === 0) await store.revoke(revoke, call);
    expect(heard[0]).toBe(`revoked ${next.leaseId}`);
    expect(await store.release(releaseOf(next), call)).toEqual({ kind: 'released' });
    await client.del(log);
  });

  test('away from a primary that only said nothing keeps the lease, and the old one is asked no more', async () => {
    await using group = await SentinelGroup.start();
    const store = storeOn(group.connection, { connectTimeout: 500 });
    const holder = acquireOf('r');
    await store.acquire(holder, call);
    const { sentinels, isCluster, servers } = await store.survey(call);
    expect({ sentinels, isCluster }).toEqual({ sentinels: 1, isCluster: false });
    expect(servers).toMatchObject([{ role: { value: 'master' } }, { role: { value: 'replica' } }]);
    await using replica = await connectRedis(group.replica.url);
    while ((await replica.exists('leasehold:{r}')) === 0) await new Promise(setImmediate);
    await group.primary.pause();
    await group.failedOver();
    const short = { timeoutMs: 100 };
    // Silence is given up after connectTimeout, and Sentinel asked again.
    expect(await answered(() => store.extend([holder], short))).toEqual([{ verdict: 'extended', remainingMs: 30_000 }]);
    expect(await replica.hget('leasehold:{r}', 'term')).toMatch(/^held \d+ [1-9]/);
    // It still takes itself for the primary, until Sentinel tells it otherwise; nobody asks it.
    group.primary.resume();
    await using old = await connectRedis(group.primary.url);
    expect(await old.info('replication')).toContain('role:master');
    expect(await answered(() => store.acquire(acquireOf('r'), short))).toMatchObject({ kind: 'busy', reason: 'held' });
    expect(await answered(() => store.release(releaseOf(holder), short))).toEqual({ kind: 'released' });
    expect(await answered(() => store.acquire(acquireOf('r'), short))).toMatchObject({ kind: 'granted' });
    expect(await old.hget('leasehold:{r}', 'lease_id')).toBe(holder.leaseId);
  });
});
