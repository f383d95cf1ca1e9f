import { LeaseManager, LeaseLostError, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';

const TTL_MS = 1500;
const REFRESH_MS = 500;

async function callsOf(raw: Redis): Promise<number> {
  const stats = await raw.info('commandstats');
  return ['evalsha', 'eval'].reduce((sum, name) => {
    const calls = new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(stats)?.[1];
    return sum + Number(calls ?? 0);
  }, 0);
}

const thefts: Record<string, (raw: Redis, key: string) => Promise<unknown>> = {
  'deletes the key': (raw, key) => raw.del(key),
  'flushes everything': (raw) => raw.flushall(),
  'writes another leaseId into the record': (raw, key) => raw.hset(key, 'lease_id', 'f'.repeat(32)),
  'puts something else under the key': async (raw, key) => {
    await raw.del(key);
    await raw.lpush(key, 'not ours');
  },
};

describe('somebody', () => {
  test.each(Object.entries(thefts))(
    '%s: one abort within a refresh interval, a prompt end, no storm',
    async (_, steal) => {
      await using server = await startRedis();
      await using raw = await connectRedis(server.url);
      const prefix = uniqueName();
      const leases = new LeaseManager({ store: redisStore(server.url, { prefix }), ttl: TTL_MS });
      let lossEvents = 0;
      leases.on('lost', () => lossEvents++);

      let aborts = 0;
      let noticedMs = Infinity;
      const ran = leases.run('r', async (lease: Lease) => {
        const { signal } = lease;
        signal.addEventListener('abort', () => aborts++);
        const from = performance.now();
        await steal(raw, `${prefix}:{r}`);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        noticedMs = performance.now() - from;
        throw new Error('the body was told to stop');
      });
      const error = (await ran.catch((reason: unknown) => reason)) as LeaseLostError;
      const ended = performance.now();
      expect(noticedMs).toBeLessThan(REFRESH_MS + 100);
      expect(error).toBeInstanceOf(LeaseLostError);
      // The release does not hide what the body came to.
      expect(error.settled).toMatchObject({ error: { message: 'the body was told to stop' } });
      expect(aborts).toBe(1);
      expect(lossEvents).toBe(1);

      const before = await callsOf(raw);
      await new Promise((resolve) => setTimeout(resolve, TTL_MS));
      expect((await callsOf(raw)) - before).toBeLessThanOrEqual(4);
      await leases.close();
      expect(performance.now() - ended).toBeLessThan(TTL_MS + 1000);
    },
  );

  test('takes it, and keeps it: the release of who lost it does not end the successor', async () => {
    await using server = await startRedis();
    await using raw = await connectRedis(server.url);
    const thief = new LeaseManager({ store: redisStore(server.url), ttl: TTL_MS });
    const leases = new LeaseManager({ store: redisStore(server.url), ttl: TTL_MS });
    const lease = await leases.acquire('r');
    const lost = new Promise((resolve) => leases.once('lost', resolve));
    await raw.del('leasehold:{r}');
    const taken = await thief.acquire('r');
    expect(taken.fencingToken).toBeGreaterThan(lease.fencingToken);
    await lost;
    expect(lease.signal.reason).toMatchObject({ reason: 'superseded' });
    expect(await lease.release()).toBe('lost');
    await new Promise((resolve) => thief.once('extended', resolve));
    expect(taken.isHeld()).toBe(true);
    await taken.release();
    await Promise.all([leases.close(), thief.close()]);
  });

  test('interrupts one extend: nothing is aborted', async () => {
    await using server = await startRedis();
    await using raw = await connectRedis(server.url);
    const leases = new LeaseManager({ store: redisStore(server.url), ttl: TTL_MS });
    const lease = await leases.acquire('r');
    const failed = new Promise((resolve) => leases.once('extendFailed', resolve));
    await raw.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await Promise.race([failed, new Promise((resolve) => leases.once('extended', resolve))]);
    for (let round = 0; round < 3; round++) await new Promise((resolve) => leases.once('extended', resolve));
    expect(lease.isHeld()).toBe(true);
    expect(lease.signal.aborted).toBe(false);
    await lease.release();
    await leases.close();
  });
});
