import { monitorEventLoopDelay } from 'node:perf_hooks';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { expect, test } from 'vitest';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';

test('10,000 leases held by one process for three ttls: none lost, and few calls', { timeout: 60_000 }, async () => {
  const LEASES = 10_000;
  const TTL_MS = 6000;
  await using server = await startRedis();
  await using raw = await connectRedis(server.url);
  const leases = new LeaseManager({ store: redisStore(server.url), ttl: TTL_MS });
  const lost: unknown[] = [];
  leases.on('lost', ({ error }) => lost.push(error));
  let extended = 0;
  leases.on('extended', () => extended++);

  const held = [];
  for (let from = 0; from < LEASES; from += 500) {
    held.push(...(await Promise.all(Array.from({ length: 500 }, (_, index) => leases.acquire(`r${from + index}`)))));
  }
  const calls = async (): Promise<number> =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await raw.info('commandstats'))?.[1] ?? '0');
  const before = await calls();
  const extendedBefore = extended;
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  await new Promise((resolve) => setTimeout(resolve, 3 * TTL_MS));
  delay.disable();
  const used = (await calls()) - before;
  const rounds = (extended - extendedBefore) / LEASES;

  expect(lost).toEqual([]);
  expect(held.every((lease) => lease.isHeld())).toBe(true);
  expect(rounds).toBeGreaterThan(8);
  // A batch is 500 leases; leases that are not due together make smaller ones.
  expect(used).toBeLessThan(4 * rounds * (LEASES / 500));
  await Promise.all(held.map((lease) => lease.release()));
  expect((await leases.close()).unsettled).toEqual([]);
});
