import { LeaseManager, MemoryFence } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { describe, expect } from 'vitest';
import { startChild } from '../support/child.ts';
import { FakeTime } from '../support/faketime.ts';
import { testNeeding } from '../support/needing.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';

const HOUR_MS = 3_600_000;
const holder = new URL('./fixtures/holder.ts', import.meta.url);

describe("the owner's wall clock", () => {
  testNeeding('libfaketime', 'steps an hour forward: lost at once, and nothing guarded is done', async () => {
    await using server = await startRedis();
    using time = new FakeTime();
    const prefix = uniqueName();
    await using child = startChild(holder, {
      env: { ...time.env, REDIS_URL: server.url, PREFIX: prefix, TTL_MS: '3000' },
    });
    await child.next('held');
    child.send('do', { op: 'write' });
    expect(await child.next('wrote')).toMatchObject({ code: null });
    time.step(HOUR_MS);
    child.send('do', { op: 'write' });
    expect(await child.next('wrote')).toMatchObject({ code: 'LEASE_LOST' });
    expect(await child.next('aborted')).toMatchObject({ code: 'LEASE_LOST', reason: 'clock-step' });
    time.step(0);
    child.send('do', { op: 'ask' });
    expect(await child.next('answer')).toMatchObject({ held: false, remainingMs: 0 });
    await using raw = await connectRedis(server.url);
    expect(await raw.get(`{${prefix}/r}:balance`)).toBe('1');
  });

  testNeeding('libfaketime', 'steps an hour back: nothing changes, and a pause is still seen', async () => {
    await using server = await startRedis();
    using time = new FakeTime();
    const prefix = uniqueName();
    await using child = startChild(holder, {
      env: { ...time.env, REDIS_URL: server.url, PREFIX: prefix, TTL_MS: '1000' },
    });
    await child.next('held');
    time.step(-HOUR_MS);
    const observer = new LeaseManager({ store: redisStore(server.url, { prefix }), ttl: 1000 });
    await expect.poll(async () => (await observer.inspect('r'))?.extensions, { timeout: 10_000 }).toBeGreaterThan(4);
    child.send('do', { op: 'ask' });
    expect(await child.next('answer')).toMatchObject({ held: true });
    await child.stop();
    await expect.poll(async () => (await observer.inspect('r'))?.state, { timeout: 10_000 }).toBe('expired');
    child.cont();
    child.send('do', { op: 'write' });
    expect(await child.next('wrote')).toMatchObject({ code: 'LEASE_LOST' });
    await observer.close();
  });
});

describe("the server's clock", () => {
  testNeeding('libfaketime', 'steps 60 s forward: the lease is lost, the next owner has a larger token', async () => {
    using time = new FakeTime();
    await using server = await startRedis({ faketime: time });
    const leases = new LeaseManager({ store: redisStore(server.url), ttl: 5000 });
    const next = new LeaseManager({ store: redisStore(server.url), ttl: 5000 });
    await using data = await connectRedis(server.url);
    const ledger = redisFence(data);
    const old = await leases.acquire('r', { fences: [ledger] });
    time.step(60_000);
    const taken = await next.acquire('r', { fences: [ledger] });
    expect(taken.fencingToken).toBeGreaterThan(old.fencingToken);
    // The owner does not know yet, by its own clocks; the fence does.
    expect(
      await ledger.write(old, (tx) => void tx.call('INCR', '{leasehold/r}:n')).catch((e: unknown) => e),
    ).toMatchObject({
      code: 'STALE_TOKEN',
    });
    expect(old.isHeld()).toBe(false);
    await Promise.all([taken.release(), old.release()]);
    await Promise.all([leases.close({ grace: 0 }), next.close({ grace: 0 })]);
  });

  testNeeding(
    'libfaketime',
    'steps 60 s back: deadlines are written back, nobody waits for a minute, no stale write',
    async () => {
      using time = new FakeTime();
      await using server = await startRedis({ faketime: time });
      await using data = await connectRedis(server.url);
      const ledger = redisFence(data);
      time.step(60_000);
      const crashed = new LeaseManager({ store: redisStore(server.url), ttl: 1000 });
      const old = await crashed.acquire('r', { fences: [ledger] });
      time.step(0);
      // As if its process had died: nothing extends it any more.
      await crashed.close({ grace: 0, abandonAfter: 0 });
      const next = new LeaseManager({ store: redisStore(server.url), ttl: 1000 });
      // The first who asks writes the deadline back; then it runs out after its own ttl, not after a minute.
      const from = performance.now();
      await expect
        .poll(async () => (await next.tryAcquire('r', { fences: [ledger] })).acquired, { timeout: 10_000 })
        .toBe(true);
      expect(performance.now() - from).toBeLessThan(4000);
      const taken = await next.inspect('r');
      expect(taken?.fencingToken).toBeGreaterThan(old.fencingToken);
      expect(
        await ledger.write(old.grant, (tx) => void tx.call('INCR', '{leasehold/r}:n')).catch((e: unknown) => e),
      ).toMatchObject({
        code: 'STALE_TOKEN',
      });
      await next.close({ grace: 0, abandonAfter: 0 });
    },
  );

  testNeeding(
    'libfaketime',
    'is behind the last token after the data was lost: one refused activation teaches the floor',
    async () => {
      using time = new FakeTime();
      await using server = await startRedis({ faketime: time });
      await using raw = await connectRedis(server.url);
      const ledger = new MemoryFence();
      time.step(60_000);
      const leases = new LeaseManager({ store: redisStore(server.url), ttl: 5000 });
      const high = await leases.run('r', { fences: [ledger] }, (lease) => lease.fencingToken);
      await raw.flushall();
      time.step(0);
      const rejected: number[] = [];
      leases.on('rejected', ({ fencingToken }) => rejected.push(fencingToken));
      const after = await leases.run('r', { fences: [ledger] }, (lease) => lease.fencingToken);
      expect(rejected).toHaveLength(1);
      expect(rejected[0]).toBeLessThan(high);
      expect(after).toBe(high + 1);
      expect(await leases.run('r', { fences: [ledger] }, (lease) => lease.fencingToken)).toBe(high + 2);
      expect(rejected).toHaveLength(1);
      await leases.close();
    },
  );
});
