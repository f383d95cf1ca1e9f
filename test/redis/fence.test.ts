import { once } from 'node:events';
import { systemClock, type Clock } from '@leasehold/core';
import { redisFence } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { leaseId } from './requests.ts';

let server: RedisServer;
let client: Redis;
let resource: string;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  client = await connectRedis(server.url);
});

afterAll(async () => {
  client.disconnect();
  await server.stop();
});

beforeEach(() => {
  resource = `shop/${uniqueName('fenced')}`;
});

afterEach(() => client.config('SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction'));

const nowUs = async (): Promise<number> => {
  const [seconds, micros] = await client.time();
  return Number(seconds) * 1_000_000 + Number(micros);
};
const grant = async (more: { fencingToken?: number; leaseId?: string } = {}) => ({
  resource,
  fencingToken: await nowUs(),
  leaseId: leaseId(),
  ...more,
});
const stored = () => client.hgetall(`leasehold-fence:{${resource}}`);

describe('the fence itself', () => {
  test('is one hash without a TTL, even if somebody gave it one', async () => {
    const fence = redisFence(client);
    const first = await grant();
    await fence.activate(first);
    expect(await stored()).toEqual({ token: String(first.fencingToken), lease_id: first.leaseId });
    await client.expire(`leasehold-fence:{${resource}}`, 100);
    await fence.activate(await grant());
    expect(await client.pttl(`leasehold-fence:{${resource}}`)).toBe(-1);
    await fence.seal(resource, await nowUs());
    expect(await stored()).toMatchObject({ lease_id: '' });
  });

  test('two grants with one number: the first one in shuts the other out', async () => {
    const fence = redisFence(client);
    const one = await grant();
    const other = { ...one, leaseId: leaseId() };
    const results = await Promise.allSettled([fence.activate(one), fence.activate(other)]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    await fence.activate(one);
  });

  test('of two grants that race, nothing of the older is accepted after the newer was', async () => {
    const [mine, yours] = [await connectRedis(server.url), await connectRedis(server.url)];
    try {
      const older = await grant();
      const newer = await grant({ fencingToken: older.fencingToken + 1 });
      const write = async (through: Redis, by: typeof older, who: string) => {
        const fence = redisFence(through);
        for (let round = 0; round < 200; round++) {
          await fence.write(by, (tx) => tx.call('RPUSH', `log:${resource}`, who)).catch(() => {});
        }
      };
      const racing = write(mine, older, 'older');
      await client.lpush(`log:${resource}`, 'start');
      while ((await client.llen(`log:${resource}`)) < 20) await new Promise(setImmediate);
      await Promise.all([racing, write(yours, newer, 'newer')]);
      const log = (await client.lrange(`log:${resource}`, 0, -1)).filter((entry) => entry !== 'start');
      expect(log.filter((entry) => entry === 'newer')).toHaveLength(200);
      expect(log.slice(log.indexOf('newer'))).not.toContain('older');
    } finally {
      mine.disconnect();
      yours.disconnect();
    }
  });

  test('something else under its key is left alone', async () => {
    await client.set(`leasehold-fence:{${resource}}`, 'mine');
    await expect(redisFence(client).activate(await grant())).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    expect(await client.get(`leasehold-fence:{${resource}}`)).toBe('mine');
  });
});

describe('a write', () => {
  test('gives the replies in handles, readable once it has resolved', async () => {
    const fence = redisFence(client);
    const by = await grant();
    await fence.activate(by);
    let early: unknown;
    const { count, list, missing, status } = await fence.write(by, (tx) => {
      const handles = {
        status: tx.call<string>('SET', `s:${resource}`, 'a'),
        count: tx.call<number>('INCRBY', `n:${resource}`, 5),
        missing: tx.call<string | null>('GET', 'nobody'),
        list: tx.call<(string | null)[]>('MGET', `s:${resource}`, 'nobody', `n:${resource}`),
      };
      try {
        early = handles.count.value;
      } catch (error) {
        early = error;
      }
      return handles;
    });
    expect(early).toMatchObject({ code: 'CONFIG' });
    expect(String(early)).toContain('read .value after');
    expect([count.value, missing.value, list.value]).toEqual([5, null, ['a', null, '5']]);
    expect(status.value).toBe('OK');
  });

  test('of a stale grant does nothing, and its handles stay empty', async () => {
    const fence = redisFence(client);
    const by = await grant();
    const later = await grant({ fencingToken: by.fencingToken + 1 });
    await fence.activate(later);
    let handle: { readonly value: unknown } | undefined;
    const writing = fence.write(by, (tx) => void (handle = tx.call('SET', `s:${resource}`, 'stale')));
    await expect(writing).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      fence: 'redis',
      highest: { fencingToken: later.fencingToken, leaseId: later.leaseId },
    });
    expect(() => handle?.value).toThrow('not there yet');
    expect(await client.exists(`s:${resource}`)).toBe(0);
  });

  test('with a command that fails says which one, what took effect and what did not', async () => {
    const fence = redisFence(client);
    await client.set(`s:${resource}`, 'text');
    const writing = fence.write(await grant(), (tx) => {
      tx.call('SET', `first:${resource}`, '1');
      tx.call('LPUSH', `s:${resource}`, 'x');
      tx.call('SET', `third:${resource}`, '3');
    });
    await expect(writing).rejects.toMatchObject({ name: 'FencedCommandError', index: 1 });
    await expect(writing).rejects.toThrow(
      /command 2 of 3 .*LPUSH.*WRONGTYPE.*the 1 before it took effect, the 1 after/,
    );
    expect(await client.exists(`first:${resource}`, `third:${resource}`)).toBe(1);
  });

  test('whose body throws sends nothing', async () => {
    const fence = redisFence(client);
    const by = await grant();
    const writing = fence.write(by, (tx) => {
      tx.call('SET', `s:${resource}`, 'x');
      throw new Error('changed my mind');
    });
    await expect(writing).rejects.toThrow('changed my mind');
    expect(await stored()).toEqual({});
  });

  test('from the future is refused, and so is a seal', async () => {
    const fence = redisFence(client);
    const by = await grant({ fencingToken: (await nowUs()) + 25 * 3_600_000_000 });
    const { fencingToken } = by;
    const calls = [
      fence.activate(by),
      fence.write(by, (tx) => void tx.call('PING')),
      fence.seal(resource, fencingToken),
    ];
    await Promise.all(
      calls.map((work) => expect(work).rejects.toMatchObject({ code: 'TOKEN_OUT_OF_RANGE', fencingToken })),
    );
    expect(await stored()).toEqual({});
    expect(await fence.highest(resource)).toBeNull();
  });

  test('on a full server is refused together with its commands; activate and seal still work', async () => {
    const fence = redisFence(client);
    await client.config('SET', 'maxmemory', '1');
    await expect(fence.write(await grant(), (tx) => tx.call('SET', `s:${resource}`, 'x'))).rejects.toMatchObject({
      code: 'FENCE_UNAVAILABLE',
    });
    expect(await stored()).toEqual({});
    await fence.activate(await grant());
    await fence.seal(resource, await nowUs());
  });

  test('is sent again where the server has forgotten the script', async () => {
    const fence = redisFence(client);
    const by = await grant();
    await fence.activate(by);
    await client.script('FLUSH', 'SYNC');
    const reply = await fence.write(by, (tx) => tx.call('INCR', `n:${resource}`));
    expect(reply.value).toBe(1);
  });
});

describe('whether it enforces', () => {
  test('is known after an activation on a server that evicts nothing', async () => {
    const fence = redisFence(client);
    expect(fence.enforcing).toBe(false);
    await fence.activate(await grant());
    expect(fence.enforcing).toBe(true);
  });

  test('it does not where keys may be evicted', async () => {
    await client.config('SET', 'maxmemory-policy', 'allkeys-lru');
    const fence = redisFence(client);
    await fence.activate(await grant());
    expect(fence.enforcing).toBe(false);
  });

  test('a policy that is changed is seen by the first activation after 10 s, or over another connection', async () => {
    let nowMs = 0;
    const clock: Clock = {
      monotonicMs: () => nowMs,
      wallMs: () => systemClock.wallMs(),
      wallUs: () => systemClock.wallUs(),
      uptimeMs: () => systemClock.uptimeMs(),
      setTimer: (...args) => systemClock.setTimer(...args),
    };
    const other = await connectRedis(server.url);
    const fence = redisFence(other, { clock });
    const seen = async (): Promise<boolean> => {
      await fence.activate(await grant());
      return fence.enforcing;
    };
    expect(await seen()).toBe(true);
    await client.config('SET', 'maxmemory-policy', 'allkeys-lru');
    nowMs = 9999;
    expect(await seen()).toBe(true);
    nowMs = 10_000;
    expect(await seen()).toBe(false);
    await client.config('SET', 'maxmemory-policy', 'noeviction');
    expect(await seen()).toBe(false);
    const again = once(other, 'ready');
    await client.client('KILL', 'ID', await other.client('ID'));
    await again;
    expect(await seen()).toBe(true);
    other.disconnect();
  });

  test('it does not say so where the policy may not be read, and works', async () => {
    const user = uniqueName('uninformed');
    await client.acl('SETUSER', user, 'on', '>pw', '~*', '+@all', '-info');
    const other = await connectRedis(server.url.replace('redis://', `redis://${user}:pw@`), {
      enableReadyCheck: false,
    });
    const fence = redisFence(other);
    await fence.activate(await grant());
    expect(fence.enforcing).toBe(false);
    other.disconnect();
  });
});

describe("the fence's own key", () => {
  const key = () => `leasehold-fence:{${resource}}`;

  test('that holds something else is left alone: not written, and what is to be done', async () => {
    await client.set(key(), 'a text');
    const fence = redisFence(client);
    const calls = [
      async () => fence.activate(await grant()),
      async () => fence.write(await grant(), (tx) => tx.call('PING')),
      async () => fence.eval(await grant(), 'return 1'),
      () => fence.seal(resource, 5),
      () => fence.highest(resource),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({
        ...{ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' },
        message: expect.stringContaining(`${key()} holds a string that is no fence; remove it, or give redisFence`),
      });
    }
    expect(await client.get(key())).toBe('a text');
  });

  test('is out of reach for the commands of a write', async () => {
    const fence = redisFence(client);
    const by = await grant();
    await fence.activate(by);
    const commands = [
      ['DEL', key()],
      ['COPY', 'other', key()],
      ...['flushall', 'FLUSHDB', 'SELECT', 'swapdb'].map((name) => [name, '1']),
    ] as [string, ...string[]][];
    for (const command of commands) {
      const write = fence.write(by, (tx) => {
        tx.call('SET', `${resource}:data`, 'x');
        tx.call(...command);
      });
      await expect(write).rejects.toMatchObject({ code: 'CONFIG', option: 'tx.call' });
    }
    const evaluated = fence.eval(by, "redis.call('DEL', KEYS[1])", { keys: [key()] });
    await expect(evaluated).rejects.toMatchObject({ code: 'CONFIG', option: 'keys' });
    expect(await client.exists(`${resource}:data`)).toBe(0);
    expect(await fence.highest(resource)).toMatchObject({ leaseId: by.leaseId });
  });

  test('a function that throws instead of naming it is a wrong option', async () => {
    const cause = new Error('no such customer');
    const fence = redisFence(client, {
      key: () => {
        throw cause;
      },
    });
    await expect(fence.activate(await grant())).rejects.toMatchObject({ code: 'CONFIG', option: 'key', cause });
  });
});

describe("the user's client", () => {
  test('with a keyPrefix is refused', () => {
    const prefixed = new Redis({ lazyConnect: true, keyPrefix: 'app:' });
    expect(() => redisFence(prefixed)).toThrow(/keyPrefix/);
    expect(() => redisFence({} as Redis)).toThrow(/ioredis/);
  });

  test('that is silent or down: every call settles', async () => {
    await using doomed = await startRedis();
    const other = await connectRedis(doomed.url, { maxRetriesPerRequest: null });
    const fence = redisFence(other, { timeout: 100 });
    const by = await grant();
    await fence.activate(by);
    await doomed.pause();
    const calls = [
      fence.activate(by),
      fence.write(by, (tx) => void tx.call('PING')),
      fence.seal(resource, 1),
      fence.highest(resource),
    ];
    await Promise.all(
      calls.map((work) => expect(work).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE', fence: 'redis' })),
    );
    doomed.resume();
    await doomed.kill();
    await expect(fence.activate(by)).rejects.toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    other.disconnect();
  });

  test('a key of its own choice', async () => {
    const fence = redisFence(client, { name: 'ledger', key: (of) => `guard:${of}` });
    await fence.activate(await grant());
    expect(await client.exists(`guard:${resource}`)).toBe(1);
    expect(fence.name).toBe('ledger');
  });
});
