import { redisStore } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { acquireOf, call, releaseOf } from './requests.ts';

// What the keys of ticks hold and how long, and what they cost; the contract itself is in test/conformance.

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
  prefix = uniqueName('ticks');
  store = redisStore(server.url, { prefix });
});

afterEach(() => store.close());

const key = (resource: string, rest = ''): string => `${prefix}:{${resource}}${rest}`;

describe('attempts', () => {
  const tick = { job: 'j', at: Date.now() - 1000, startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 1 };
  const tickOf = (job: string): Promise<Record<string, string>> => raw.hgetall(key('r', `:tick:${job}`));

  test('are counted in the key, and what is given back brings back the count', async () => {
    for (const attempt of ['1', '2']) {
      const acquisition = acquireOf('r', { tick });
      await store.acquire(acquisition, call);
      expect(await tickOf('j')).toMatchObject({ attempt, status: 'claimed' });
      await store.release(releaseOf(acquisition, { job: 'j', outcome: 'not-started' }), call);
      const again = acquireOf('r', { tick });
      await store.acquire(again, call);
      await store.release(releaseOf(again, { job: 'j', outcome: 'failed' }), call);
      expect(await tickOf('j')).toMatchObject({ attempt, status: 'failed' });
    }
    expect(await store.acquire(acquireOf('r', { tick }), call)).toMatchObject({ kind: 'tick', reason: 'already-ran' });
  });

  test('of a tick that was written without a count are one', async () => {
    const first = acquireOf('r', { tick });
    await store.acquire(first, call);
    await store.release(releaseOf(first, { job: 'j', outcome: 'failed' }), call);
    await raw.hdel(key('r', ':tick:j'), 'attempt');
    expect(await store.ticks('r', 'j', call)).toMatchObject([{ attempt: 1 }]);
    const second = acquireOf('r', { tick });
    expect(await store.acquire(second, call)).toMatchObject({ kind: 'granted', tick: { attempt: 2 } });
    expect(await store.ticks('r', 'j', call)).toMatchObject([{ attempt: 2 }, { attempt: 1 }]);
    await raw.hdel(key('r', ':tick:j'), 'prev_attempt');
    await store.release(releaseOf(second, { job: 'j', outcome: 'not-started' }), call);
    expect(await tickOf('j')).toMatchObject({ attempt: '1', status: 'failed' });
  });
});

describe('retention', () => {
  const tick = { job: 'j', at: Date.now() - 1000, startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 0 };
  const ttlOf = (rest = ''): Promise<number> => raw.pttl(key('r', rest));
  const retentionMs = 600_000;
  const about = (ms: number): void => {
    expect(ms).toBeGreaterThan(retentionMs - 60_000);
    expect(ms).toBeLessThanOrEqual(retentionMs);
  };

  test('is that of the tick from the claim on, of record and log from the release on', async () => {
    const acquisition = acquireOf('r', { tick, retentionMs, history: 'all' });
    await store.acquire(acquisition, call);
    about(await ttlOf(':tick:j'));
    expect(await ttlOf()).toBe(-1);
    await raw.pexpire(key('r', ':tick:j'), 1000);
    await store.release(releaseOf(acquisition, { job: 'j', retentionMs, history: 'all' }), call);
    for (const rest of ['', ':log', ':tick:j']) about(await ttlOf(rest));
    const next = { ...tick, at: tick.at + 500 };
    await store.acquire(acquireOf('r', { tick: next }), call);
    expect([await ttlOf(), await ttlOf(':tick:j')]).toEqual([-1, -1]);
    expect(await raw.hget(key('r', ':tick:j'), 'retention_ms')).toBeNull();
  });

  test('of what was not started is that of the tick that comes back; of the first one nothing stays', async () => {
    const first = acquireOf('r', { tick, retentionMs });
    await store.acquire(first, call);
    await store.release(releaseOf(first, { job: 'j', outcome: 'not-started', retentionMs }), call);
    expect(await raw.exists(key('r', ':tick:j'))).toBe(0);
    for (const [at, outcome] of [
      [tick.at, 'done'],
      [tick.at + 500, 'not-started'],
    ] as const) {
      const acquisition = acquireOf('r', { tick: { ...tick, at }, retentionMs });
      await store.acquire(acquisition, call);
      await store.release(releaseOf(acquisition, { job: 'j', outcome, retentionMs }), call);
    }
    about(await ttlOf(':tick:j'));
    expect(await store.ticks('r', 'j', call)).toMatchObject([{ at: tick.at, status: 'done' }]);
  });
});

test('an acquire and a release with a tick cost as many commands as ever, a retention two more each', async () => {
  // TIME and what the server does by itself are not counted.
  const costs = async (work: () => Promise<unknown>): Promise<readonly string[]> => {
    await raw.config('RESETSTAT');
    await work();
    const stats = [...(await raw.info('commandstats')).matchAll(/cmdstat_([a-z]+):calls=(\d+)/g)];
    const ours = stats.filter(([, name = '']) => /^(h|z|pexpire|persist|del|exists|type|x)/.test(name));
    return ours.map(([, name, calls]) => `${name} ${calls}`).toSorted();
  };
  const tickOf = (job: string) => ({ job, at: Date.now(), startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 0 });
  await store.acquire(acquireOf('warm'), call);
  const plain = acquireOf('plain');
  expect(await costs(() => store.acquire(plain, call))).toEqual(['exists 2', 'hmget 1', 'hset 1']);
  expect(await costs(() => store.release(releaseOf(plain), call))).toEqual(['hmget 1', 'hset 1', 'pexpire 1']);
  // The second time there is a record, which says that nobody waits.
  const again = acquireOf('plain');
  expect(await costs(() => store.acquire(again, call))).toEqual(['hmget 1', 'hset 1', 'persist 1']);
  const ticking = acquireOf('ticking', { tick: tickOf('j') });
  expect(await costs(() => store.acquire(ticking, call))).toEqual(['exists 3', 'hmget 2', 'hset 3']);
  expect(await costs(() => store.release(releaseOf(ticking, { job: 'j' }), call))).toEqual([
    ...['hmget 2', 'hset 2', 'pexpire 1'],
  ]);
  const kept = acquireOf('kept', { tick: tickOf('j'), retentionMs: 600_000 });
  expect(await costs(() => store.acquire(kept, call))).toEqual(['exists 3', 'hmget 2', 'hset 4', 'pexpire 1']);
  expect(await costs(() => store.release(releaseOf(kept, { job: 'j', retentionMs: 600_000 }), call))).toEqual([
    ...['hmget 2', 'hset 3', 'pexpire 2'],
  ]);
});
