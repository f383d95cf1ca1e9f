import { LeaseManager } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';

const redisUrl = inject('redisUrl');

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'fulfilled',
    (error: unknown) => error,
  );
}

describe('a fenced write that cannot be one script', () => {
  test.each([
    [
      'a command with more arguments than Lua has room for',
      (tx: Tx) => tx.call('SADD', 'set', ...Array.from({ length: 8000 }, (_, i) => i)),
    ],
    ['more words than one call should have', (tx: Tx) => Array.from({ length: 20_000 }, () => tx.call('INCR', 'n'))],
    ['no command at all', () => {}],
    ['a command that is no name', (tx: Tx) => tx.call(Symbol('x') as never)],
    ['a reply that is not there yet, as a number', (tx: Tx) => Number(tx.call('GET', 'n')) + 1],
    ['a reply that is not there yet, as an argument', (tx: Tx) => tx.call('SET', 'n', tx.call('GET', 'n') as never)],
  ])('is refused before anything is sent: %s', async (_, body) => {
    await using client = await connectRedis(redisUrl);
    const fence = redisFence(client);
    const grant = { resource: uniqueName('shop/limits'), fencingToken: 1, leaseId: 'x' };
    expect(await rejectionOf(fence.write(grant, body as never))).toMatchObject({ code: 'CONFIG' });
    expect(await fence.highest(grant.resource)).toBeNull();
  });

  test('as large as it may be is carried out', async () => {
    await using client = await connectRedis(redisUrl);
    const fence = redisFence(client);
    const key = uniqueName('limits');
    const grant = { resource: `shop/${key}`, fencingToken: 1, leaseId: 'x' };
    const many = await fence.write(grant, (tx) => {
      tx.call('SADD', key, ...Array.from({ length: 6999 }, (_, i) => i));
      return Array.from({ length: 11_000 }, () => tx.call<number>('INCR', `${key}:n`)).at(-1);
    });
    expect(many?.value).toBe(11_000);
    // oxlint-disable-next-line typescript/no-base-to-string, typescript/restrict-template-expressions -- that is the test
    expect(`${many}`).toBe('11000');
    expect(JSON.stringify({ many })).toBe('{"many":11000}');
    expect(await client.scard(key)).toBe(6999);
  });
});

type Tx = { call(command: string, ...args: (string | number)[]): unknown };

describe('options of the store and the fence', () => {
  test('are refused in words', async () => {
    await using client = await connectRedis(redisUrl);
    for (const [option, make] of [
      ['keyPrefix', () => redisStore(redisUrl, { keyPrefix: 'x' } as never)],
      ['connectTimeout', () => redisStore(redisUrl, { connectTimeout: Infinity })],
      ['connectTimeout', () => redisStore(redisUrl, { connectTimeout: '30d' })],
      ['connectTimeout', () => redisStore(redisUrl, { connectTimeout: 0 })],
      ['connection', () => redisStore(`${redisUrl}/abc`)],
      ['connection', () => redisStore(`${redisUrl}?db=x`)],
      ['connection', () => redisStore({ db: 'x' })],
      ['connection', () => redisStore({ db: -1 })],
      ['timeoutMs', () => redisFence(client, { timeoutMs: 5 } as never)],
      ['timeout', () => redisFence(client, { timeout: Infinity })],
      ['key', () => redisFence(client, { key: 'x' as never })],
    ] as const) {
      expect(make).toThrow(expect.objectContaining({ code: 'CONFIG', option }));
    }
    for (const key of [() => '', () => undefined as never, async () => 'x']) {
      const fence = redisFence(client, { key: key as never });
      expect(await rejectionOf(fence.highest('shop/r'))).toMatchObject({ code: 'CONFIG', option: 'key' });
    }
  });

  test('a database that the server does not have is said at once, and closing takes no time', async () => {
    const leases = new LeaseManager({ store: redisStore(`${redisUrl}/99`) });
    expect(await rejectionOf(leases.run('r', () => 1))).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
    const from = performance.now();
    await leases.close();
    expect(performance.now() - from).toBeLessThan(500);
  });
});

test('a tick absurdly far ahead is clock-ahead, and disturbs nobody', async () => {
  const leases = new LeaseManager({ store: redisStore(redisUrl, { prefix: uniqueName() }) });
  for (const at of [Date.now() + 10_000, Date.now() * 1000, 2 ** 53 - 1]) {
    expect(await leases.tryRun('t', { tick: { job: 'j', at } }, () => 1)).toMatchObject({
      ran: false,
      reason: 'clock-ahead',
    });
    expect(await leases.tryRun('other', () => 1)).toEqual({ ran: true, value: 1 });
  }
  await leases.close();
});
