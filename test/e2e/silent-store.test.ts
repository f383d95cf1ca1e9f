import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { TcpProxy } from '../support/proxy.ts';
import { startRedis } from '../support/redis-server.ts';
import { uniqueName } from '../support/redis-client.ts';

const TTL_MS = 1000;
const WINDOW_MS = 940;

const unhandled: unknown[] = [];
const note = (reason: unknown): void => void unhandled.push(reason);

beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(() => {
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});

/** Resolves with how long it took until the signal aborted. */
async function abortOf(lease: Lease): Promise<number> {
  const { signal } = lease;
  const from = performance.now();
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  return performance.now() - from;
}

describe('when Redis falls silent', () => {
  test.each(['a proxy that swallows every byte', 'SIGSTOP of the server'])(
    'by %s: lost within the window, every call settles',
    async (how) => {
      await using server = await startRedis();
      await using proxy = await TcpProxy.start({ port: server.port });
      const leases = new LeaseManager({ store: redisStore(proxy.redisUrl, { prefix: uniqueName() }), ttl: TTL_MS });
      const lease = await leases.acquire('r');
      const lost = new Promise((resolve) => leases.once('lost', resolve));
      // Asked for now: from here on no more than the window may pass, whatever was confirmed last.
      const aborted = abortOf(lease);
      if (how.startsWith('a proxy')) proxy.swallow('up', 'down');
      else await server.pause();

      expect(await aborted).toBeLessThan(WINDOW_MS + 100);
      expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'store-unreachable' });
      expect(lease.isHeld()).toBe(false);
      await lost;

      const from = performance.now();
      const [acquired, tried, inspected, released] = await Promise.allSettled([
        leases.acquire('a'),
        leases.tryAcquire('b'),
        leases.inspect('r'),
        lease.release(),
      ]);
      expect(performance.now() - from).toBeLessThan(1500);
      for (const outcome of [acquired, tried, inspected]) {
        expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'STORE_UNAVAILABLE' } });
      }
      expect(released).toEqual({ status: 'fulfilled', value: 'lost' });
      const closing = performance.now();
      await leases.close({ grace: 0 });
      expect(performance.now() - closing).toBeLessThan(1500);
      server.resume();
    },
  );

  test('right after the event loop was blocked, before any timer has run, isHeld says no', async () => {
    await using server = await startRedis();
    const leases = new LeaseManager({ store: redisStore(server.url), ttl: TTL_MS });
    const lease = await leases.acquire('r');
    const { signal } = lease;
    const until = performance.now() + 1500;
    while (performance.now() < until);
    const before = signal.aborted;
    const held = lease.isHeld();
    expect({ before, held, after: signal.aborted }).toEqual({ before: false, held: false, after: true });
    // What the server still has must not come back to life when the loop turns again.
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(lease.isHeld()).toBe(false);
    expect(await leases.inspect('r')).toMatchObject({ state: 'expired', extensions: 0 });
    await leases.close({ grace: 0, abandonAfter: 0 });
  });

  test('an outage shorter than the window is survived, and one longer is not, by many leases at once', async () => {
    await using server = await startRedis();
    await using proxy = await TcpProxy.start({ port: server.port });
    const leases = new LeaseManager({ store: redisStore(proxy.redisUrl, { prefix: uniqueName() }), ttl: 3000 });
    const held = await Promise.all(Array.from({ length: 200 }, (_, index) => leases.acquire(`r${index}`)));
    const extended = (): Promise<unknown> => new Promise((resolve) => leases.once('extended', resolve));
    await extended();
    proxy.cut();
    await extended();
    expect(held.every((lease) => lease.isHeld())).toBe(true);
    proxy.swallow('up', 'down');
    await Promise.all(held.map(abortOf));
    expect(held.some((lease) => lease.isHeld())).toBe(false);
    proxy.pass();
    proxy.cut();
    await leases.close({ grace: 0, abandonAfter: 0 });
  });
});
