import { redisAcl, redisDiagnosisAcl } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { storeOn } from './clients.ts';
import { acquireOf, call, cancelOf, releaseOf } from './requests.ts';

let server: RedisServer;
let raw: Redis;

beforeAll(async () => {
  server = await startRedis({ args: ['--save', '3600 1'], scope: 'file' });
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
async function own(user: string, prefix: string): Promise<void> {
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
    expect(String(await raw.client('LIST'))).toMatch(new RegExp(` name=leasehold:\\S+ .* user=${user} `));
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

/** All that diagnosis does beside an owner's work; rejects if any of it did not come out. */
async function diagnose(user: string, prefix: string): Promise<void> {
  await raw.script('FLUSH', 'SYNC');
  const [owner, store] = [
    // By another name than ours, which the list of connections must not have from this one.
    storeOn(`${server.url}?connectionName=owner`, { prefix }),
    storeOn(server.url.replace('redis://', `redis://${user}:secret@`), { prefix }),
  ];
  try {
    const tick = { job: 'j', at: Date.now(), startingDeadlineMs: 300_000, maxAheadMs: 60_000, retry: 5 };
    const held = acquireOf('r', { tick });
    await owner.acquire(held, call);
    expect(await owner.acquire(acquireOf('r', { mode: 'wait', channel: `${prefix}:owner:us` }), call)).toBeTruthy();
    const revoke = { resource: 'r', leaseId: held.leaseId, operator: 'ann', reason: 'enough' };
    await owner.revoke(revoke, call);
    expect(await store.read('r', call)).toMatchObject({ waiting: 1 });
    expect(await store.read('never', call)).toBeNull();
    expect(await store.history('r', 9, call)).toHaveLength(1);
    expect(await store.ticks('r', 'j', call)).toHaveLength(1);
    const listed: string[] = [];
    for await (const { resource } of store.list(call)) listed.push(resource);
    expect(listed).toEqual(['r']);
    const key = (resource: string): string => `${prefix}:{${resource}}`;
    await raw.set(key('string'), 'x');
    await raw.hset(key('hash'), 'x', '1');
    await raw.sadd(key('set'), 'x');
    await raw.lpush(key('list'), 'x');
    await raw.zadd(key('zset'), '1', 'x');
    await raw.xadd(key('stream'), '*', 'x', '1');
    for (const type of ['string', 'hash', 'set', 'list', 'zset', 'stream']) {
      const { shape } = await store.evidence(type, null, call);
      expect(shape).toMatchObject({
        value: { kind: 'foreign', type, preview: expect.stringContaining('x') as string },
      });
    }
    // What people type themselves.
    await using hand = await connectRedis(server.url.replace('redis://', `redis://${user}:secret@`), {
      enableReadyCheck: false,
    });
    expect(await hand.role()).toContain('master');
    expect(await hand.call('EVAL_RO', 'return redis.call("TYPE", KEYS[1]).ok', 1, key('list'))).toBe('list');
    const nobody = { instance: 'nobody', name: '', host: '', pid: 1, startedAt: '' };
    const { connections, servers } = await store.evidence('r', nobody, call);
    const asked = [connections, ...Object.values(servers[0] ?? {})] as { readonly known?: boolean }[];
    expect(asked.filter(({ known }) => known === false)).toEqual([]);
    expect(servers[0]).toMatchObject({ persistence: { value: { snapshots: expect.stringContaining('1') as string } } });
  } finally {
    await store.close();
    await owner.close();
    await raw.flushall();
  }
}

test.each([
  ['an owner', (prefix: string) => redisAcl(prefix, prefix), own, 25],
  ['diagnosis', (prefix: string) => redisDiagnosisAcl(prefix, prefix, { config: true }), diagnose, 15],
] as const)('nothing of that of %s can be left out', async (_, lineOf, exercise, least) => {
  const prefix = uniqueName('acl');
  const line = lineOf(prefix);
  const allow = async (text: string): Promise<void> => {
    const [command = '', ...args] = text.split(' ');
    await raw.call(command, ...args, '>secret');
  };
  await allow(line);
  await exercise(prefix, prefix);
  const rights = line.split(' ').filter((word) => /^[+~&]/.test(word));
  const bare = line.slice(0, line.indexOf(' ~'));
  expect(rights.length).toBeGreaterThan(least);
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
