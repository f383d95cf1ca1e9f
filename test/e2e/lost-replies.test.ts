import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');
const port = Number(new URL(redisUrl).port);

async function setup(ttl = 30_000): Promise<{
  proxy: TcpProxy;
  prefix: string;
  leases: LeaseManager;
  near: LeaseManager;
  close: () => Promise<void>;
}> {
  const proxy = await TcpProxy.start({ port });
  const prefix = uniqueName();
  const leases = new LeaseManager({ store: redisStore(proxy.redisUrl, { prefix }), ttl });
  const near = new LeaseManager({ store: redisStore(redisUrl, { prefix }), ttl });
  // Scripts are known to the server and the connection is up: what follows is about the one call that matters.
  await leases.run('warm-up', () => 1);
  await near.run('warm-up', () => 1);
  const close = async (): Promise<void> => {
    await Promise.all([leases.close({ grace: 0, abandonAfter: 0 }), near.close({ grace: 0, abandonAfter: 0 })]);
    await proxy.close();
  };
  return { proxy, prefix, leases, near, close };
}

describe('a reply that is lost', () => {
  test('of an acquire leaves no orphan: the key is free one round trip after the reconnection', async () => {
    const { proxy, leases, near, prefix, close } = await setup();
    await using raw = await connectRedis(redisUrl);
    const lost = proxy.loseNextReply(/evalsha/i);
    const acquired = leases.acquire('r').catch((error: unknown) => error);
    await lost;
    expect(await acquired).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });
    // The next thing that comes by after the reconnection is the withdrawal.
    await proxy.nextRequest(`${prefix}:{r}`);
    // Redis serves in order of arrival, so a round trip later it is done.
    await expect.poll(async () => (await near.inspect('r'))?.state, { interval: 2, timeout: 1000 }).toBe('free');
    expect(await raw.hget(`${prefix}:{r}`, 'cancelled')).toMatch(/^[0-9a-f]{32}:\d{16}$/);
    expect(await near.tryAcquire('r')).toMatchObject({ acquired: true });
    await close();
  });

  test('of a release is asked for again, and it is released', async () => {
    const { proxy, leases, near, close } = await setup();
    const lease = await leases.acquire('r');
    const lost = proxy.loseNextReply(/evalsha/i);
    const released = lease.release();
    await lost;
    expect(await released).toBe('released');
    expect(await near.tryAcquire('r')).toMatchObject({ acquired: true });
    await close();
  });

  test('of an extend changes nothing', async () => {
    const { proxy, leases, near, close } = await setup(1500);
    const lease = await leases.acquire('r');
    const failed = new Promise((resolve) => leases.once('extendFailed', resolve));
    await proxy.loseNextReply(/evalsha/i);
    await failed;
    await new Promise((resolve) => leases.once('extended', resolve));
    expect(lease.isHeld()).toBe(true);
    expect(await near.inspect('r')).toMatchObject({ state: 'held', leaseId: lease.leaseId });
    await close();
  });
});

describe('a request that comes twice, or late', () => {
  test('grants once, and does not move the expiry', async () => {
    const { proxy, leases, near, prefix, close } = await setup();
    await using raw = await connectRedis(redisUrl);
    const copy = proxy.nextRequest(`${prefix}:{r}`);
    const lease = await leases.acquire('r');
    const term = await raw.hget(`${prefix}:{r}`, 'term');
    const answer = await proxy.replay(await copy);
    expect(answer.toString()).toContain(`${lease.leaseId} granted`);
    expect(answer.toString()).toContain(` ${lease.fencingToken} `);
    expect(await raw.hget(`${prefix}:{r}`, 'term')).toBe(term);
    expect(await lease.release()).toBe('released');
    // A copy that is later still is of a leaseId that is spent.
    expect((await proxy.replay(await copy)).toString()).toContain('spent');
    expect(await near.inspect('r')).toMatchObject({ state: 'free' });
    await close();
  });

  test('a late extend or release of an old lease touches nothing of its successor', async () => {
    const { proxy, leases, near, prefix, close } = await setup(1500);
    const old = await leases.acquire('r');
    const extend = await proxy.nextRequest(`${prefix}:{r}`);
    const release = proxy.nextRequest(`${prefix}:{r}`);
    await old.release();
    const successor = await near.acquire('r');
    const before = await near.inspect('r');
    expect((await proxy.replay(extend)).toString()).toContain('lost superseded');
    expect((await proxy.replay(await release)).toString()).toContain('lost');
    expect(await near.inspect('r')).toMatchObject({
      state: 'held',
      leaseId: successor.leaseId,
      expiresAt: before?.expiresAt,
      fencingToken: successor.fencingToken,
    });
    await close();
  });

  test('a packet of an acquisition that was given up cannot become owner', async () => {
    const { proxy, leases, near, prefix, close } = await setup();
    await using raw = await connectRedis(redisUrl);
    const request = proxy.nextRequest(`${prefix}:{r}`);
    void proxy.loseNextRequest(`${prefix}:{r}`);
    const failure = await leases.acquire('r').catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: true });
    // The withdrawal comes with the reconnection, for a leaseId that the server has never heard of.
    await expect.poll(() => raw.hget(`${prefix}:{r}`, 'cancelled'), { interval: 2 }).toMatch(/^[0-9a-f]{32}:/);
    expect((await proxy.replay(await request)).toString()).toContain('cancelled');
    expect(await near.tryAcquire('r')).toMatchObject({ acquired: true });
    await close();
  });
});
