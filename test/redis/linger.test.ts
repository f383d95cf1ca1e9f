import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { expect, inject, onTestFinished, test } from 'vitest';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { acquireOf, call, releaseOf } from './requests.ts';

const redisUrl = inject('redisUrl');

function manager(prefix: string, linger: number): LeaseManager {
  const leases = new LeaseManager({ store: redisStore(redisUrl, { prefix }), ttl: '30s', linger });
  onTestFinished(async () => void (await leases.close({ grace: 0, abandonAfter: 0 })));
  return leases;
}

test('the record has the last of the tokens that are kept for one lease, so that the next lease is above all of them', async () => {
  const store = redisStore(redisUrl, { prefix: uniqueName() });
  onTestFinished(() => store.close());
  const request = acquireOf('r', { spareTokens: 1000 });
  const first = await store.acquire(request, call);
  if (first.kind !== 'granted') throw new Error(first.kind);
  expect(first.spareTokens).toBe(1000);
  const last = first.fencingToken + 1000;
  expect(await store.read('r', call)).toMatchObject({ fencingToken: last });
  // Whoever asks again does not know how many of them were used.
  const again = await store.acquire(request, call);
  expect(again).toMatchObject({ kind: 'granted', again: true, fencingToken: last });
  expect(again).not.toHaveProperty('spareTokens');
  await store.release(releaseOf(request), call);
  const next = await store.acquire(acquireOf('r'), call);
  expect(next.kind === 'granted' && next.fencingToken).toBeGreaterThan(last);
});

test('many runs of one process take one lease, each a token of its own, and another process gets it as soon as it asks', async () => {
  const prefix = uniqueName();
  const mine = manager(prefix, 10_000);
  const theirs = manager(prefix, 0);
  const raw = await connectRedis(redisUrl);
  onTestFinished(() => raw.disconnect());
  const acquired = (): Promise<string | null> => raw.hget(`${prefix}:{r}`, 'acquired_us');
  const tokens: number[] = [];
  let first: string | null = null;
  for (let run = 0; run < 100; run++) {
    tokens.push(await mine.run('r', ({ fencingToken }) => fencingToken));
    first ??= await acquired();
  }
  expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
  expect(await acquired()).toBe(first);
  // A message brings it: it would linger for longer.
  const lease = await theirs.acquire('r', { wait: '5s' });
  expect(lease.fencingToken).toBeGreaterThan(Math.max(...tokens));
  expect(await raw.hget(`${prefix}:{r}`, 'prev_reason')).toBe('released');
  await lease.release();
});
