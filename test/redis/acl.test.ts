import { redisAcl } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { storeOn } from './clients.ts';
import { acquireOf, call, cancelOf, releaseOf } from './requests.ts';

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  raw = await connectRedis(server.url);
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
});

test('the line', () => {
  expect(redisAcl('shop', 'app')).toMatch(
    /^ACL SETUSER app on -@all resetkeys resetchannels ~shop:\{\* &shop:owner:\* \+eval \+evalsha /,
  );
  expect(redisAcl('shop', 'app', { fence: true })).toContain(' ~leasehold-fence:{shop/* ');
  expect(() => redisAcl('a b')).toThrow(/prefix/);
  expect(() => redisAcl('shop', 'a b')).toThrow(/user/);
});

/** All that a store does, as briefly as possible; rejects if any of it did not come out. */
async function exercise(user: string, prefix: string): Promise<void> {
  // Every script is sent with its text, too.
  await raw.script('FLUSH', 'SYNC');
  const store = storeOn(server.url.replace('redis://', `redis://${user}:secret@`), { prefix });
  const channel = `${prefix}:owner:us`;
  const [heard, published]: string[][] = [[], []];
  const listener = await connectRedis(server.url);
  try {
    listener.on('message', (_, message) => published?.push(message));
    await listener.subscribe(channel);
    const leave = await store.subscribe(channel, ({ kind }) => void heard?.push(kind));
    expect(store.server?.ageMs).toBeLessThan(Infinity);
    const tick = { job: 'j', at: Date.now(), startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 5 };
    const holder = acquireOf('r', { tick, channel });
    const waiter = acquireOf('r', { mode: 'wait', channel });
    expect(await store.acquire(holder, call)).toMatchObject({ kind: 'granted' });
    expect(await store.acquire(waiter, call)).toMatchObject({ kind: 'queued', position: 0 });
    expect(await store.acquire(acquireOf('r', { mode: 'park', channel }), call)).toMatchObject({ kind: 'busy' });
    expect(await store.extend([holder], call)).toMatchObject([{ verdict: 'extended' }]);
    expect(await store.ticks('r', 'j', call)).toMatchObject([{ status: 'claimed' }]);
    expect(await store.read('r', call)).toMatchObject({ waiting: 1 });
    const revoke = { resource: 'r', leaseId: holder.leaseId, operator: 'ann', reason: 'enough' };
    expect(await store.revoke(revoke, call)).toMatchObject({ kind: 'revoked' });
    expect(await store.release(releaseOf(holder, { job: 'j', outcome: 'not-started' }), call)).toMatchObject({
      kind: 'released',
    });
    const { owner, history, ttlMs, floor } = waiter;
    expect(await store.acquire(waiter, call)).toMatchObject({ kind: 'granted' });
    const adopt = { ...acquireOf('r', { owner, history, ttlMs, floor }), from: waiter.leaseId };
    expect(await store.adopt(adopt, call)).toMatchObject({ kind: 'granted' });
    expect(await store.cancel(cancelOf(adopt), call)).toEqual({ kind: 'ended' });
    expect((await store.history('r', 9, call)).map(({ event }) => event)).toEqual(['adopted', 'revoked']);
    const listed: string[] = [];
    for await (const { resource } of store.list(call)) listed.push(resource);
    expect(listed).toEqual(['r']);
    // An expired waiter and an expired process go without a word.
    await raw.hset(`${prefix}:{r}:p`, 'gone', '1 1');
    await store.release(releaseOf(await granted(store)), call);
    expect(await raw.exists(`${prefix}:{r}:p`)).toBe(0);
    await listener.ping();
    expect(published?.map((message) => message.split(' ')[0])).toEqual(['revoked', 'go', 'free']);
    await leave();
    expect(await raw.call('PUBSUB', 'NUMSUB', channel)).toEqual([channel, 1]);
  } finally {
    listener.disconnect();
    await store.close();
    await raw.flushall();
  }
}

async function granted(store: ReturnType<typeof storeOn>) {
  const acquisition = acquireOf('r');
  expect(await store.acquire(acquisition, call)).toMatchObject({ kind: 'granted' });
  return acquisition;
}

test('nothing of it can be left out', async () => {
  const prefix = uniqueName('acl');
  const line = redisAcl(prefix, prefix);
  const allow = async (text: string): Promise<void> => {
    const [command = '', ...args] = text.split(' ');
    await raw.call(command, ...args, '>secret');
  };
  await allow(line);
  await exercise(prefix, prefix);
  const rights = line.split(' ').filter((word) => /^[+~&]/.test(word));
  const bare = line.slice(0, line.indexOf(' ~'));
  expect(rights.length).toBeGreaterThan(25);
  const idle: string[] = [];
  for (const right of rights) {
    await allow(rights.reduce((text, each) => (each === right ? text : `${text} ${each}`), bare));
    if (
      await exercise(prefix, prefix).then(
        () => true,
        () => false,
      )
    )
      idle.push(right);
  }
  expect(idle).toEqual([]);
  // None of them failed because of the one before.
  await allow(line);
  await exercise(prefix, prefix);
});
