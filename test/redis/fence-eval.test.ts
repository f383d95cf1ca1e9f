import type { Holding } from '@leasehold/core';
import { redisAcl, redisFence, type RedisEvalOptions } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

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
  resource = `shop/${uniqueName('stock')}`;
});

const grantAt = (fencingToken: number) => ({ resource, fencingToken, leaseId: leaseId() });
const [first, second] = [1_700_000_000_000_000, 1_700_000_000_000_001];

/** Takes what is asked for, if there is so much. */
const TAKE = `
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
local asked = tonumber(ARGV[1])
if left < asked then return { 'short of', asked - left } end
redis.call('SET', KEYS[1], string.format('%d', left - asked))
redis.call('RPUSH', KEYS[2], ARGV[2] .. ' took ' .. ARGV[1])
return { 'left', left - asked }
`;

describe('a Lua body', () => {
  test('reads, decides and writes in one step, and its reply comes back', async () => {
    const fence = redisFence(client);
    const grant = grantAt(first);
    const options = (count: number, who: string): RedisEvalOptions => ({
      keys: [`${resource}:left`, `${resource}:log`],
      args: [count, who],
    });
    await client.set(`${resource}:left`, 10);
    const replies = await Promise.all(
      ['ann', 'bob', 'eve', 'joe'].map((who) => fence.eval<[string, number]>(grant, TAKE, options(3, who))),
    );
    expect(replies.toSorted()).toEqual([
      ['left', 1],
      ['left', 4],
      ['left', 7],
      ['short of', 2],
    ]);
    expect(await client.get(`${resource}:left`)).toBe('1');
    expect(await client.llen(`${resource}:log`)).toBe(3);
    expect(await fence.highest(resource)).toEqual({ fencingToken: first, leaseId: grant.leaseId });
  });

  test('has KEYS and ARGV of its own, and sees nothing of the guard', async () => {
    const fence = redisFence(client);
    const seen = await fence.eval(
      grantAt(first),
      `return { #KEYS, KEYS[1] or 'none', #ARGV, ARGV[1] or 'none', tostring(refusal), tostring(note) }`,
    );
    expect(seen).toEqual([0, 'none', 0, 'none', 'nil', 'nil']);
    const own = await fence.eval(
      grantAt(second),
      `return { KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], #KEYS, #ARGV }`,
      {
        keys: ['k1', 'k2'],
        args: ['', 2.5, 'é \'"\\ \n'],
      },
    );
    expect(own).toEqual(['k1', 'k2', '', '2.5', 'é \'"\\ \n', 2, 3]);
    for (const name of ['token', 'highest', 'stored', 'admitted', 'writes']) {
      const peeking = fence.eval(grantAt(second + 1), `return tostring(${name})`);
      await expect(peeking).rejects.toThrow(`global variable '${name}'`);
      await fence.seal(resource, second + 1);
      await client.del(`leasehold-fence:{${resource}}`);
    }
  });

  test('of a stale grant does nothing', async () => {
    const fence = redisFence(client);
    const [earlier, later] = [grantAt(first), grantAt(second)];
    await fence.activate(later);
    const write = fence.eval(earlier, `return redis.call('SET', KEYS[1], 'stale')`, { keys: [`${resource}:x`] });
    await expect(write).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      highest: { fencingToken: second, leaseId: later.leaseId },
    });
    expect(await client.exists(`${resource}:x`)).toBe(0);
  });

  // Each leaves the function that it is put into; of a grant that is admitted it runs, so it is a way out.
  const set = `redis.call('SET', 'out of ' .. KEYS[1], 'x')`;
  const escapes: readonly (readonly [string, string])[] = [
    ['ends its function', `end ${set} body = function()`],
    ['ends its function and begins one that is called at once', `end (function() ${set} end)() body = function()`],
    ['puts other KEYS in the place of its own', `KEYS = { 'stolen' } ARGV = {} ${set.replace('KEYS[1]', 'KEYS[1]')}`],
    ['puts another function in the place of redis.call', `local call = redis.call local r = redis.pcall ${set}`],
    ['ends in a comment', `${set} --`],
    ['ends in an open line', `${set} return 1 -- `],
  ];
  for (const [does, body] of escapes) {
    test(`that ${does} still runs after the guard, and not at all for a stale grant`, async () => {
      const fence = redisFence(client);
      const options = { keys: [resource] };
      const [earlier, later] = [grantAt(first), grantAt(second)];
      await fence.eval(earlier, body, options);
      expect(await client.del(`out of ${resource}`, 'out of stolen')).toBe(1);
      await fence.activate(later);
      await expect(fence.eval(earlier, body, options)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
      expect(await client.exists(`out of ${resource}`, 'out of stolen')).toBe(0);
      expect(await fence.highest(resource)).toEqual({ fencingToken: second, leaseId: later.leaseId });
    });
  }

  test('that does not compile is refused with what Redis says, in its own lines, and admits nobody', async () => {
    const fence = redisFence(client);
    const write = fence.eval(grantAt(first), `local left = 1\nlocal right = = 2\nreturn left`);
    await expect(write).rejects.toMatchObject({ code: 'CONFIG', option: 'body' });
    await expect(write).rejects.toThrow(/does not compile: .*line 2: unexpected symbol near '='/);
    for (const body of ['return (', '--[[', 'end', 'return 1 end end', 'x = "']) {
      await expect(fence.eval(grantAt(first), body)).rejects.toMatchObject({ code: 'CONFIG' });
    }
    expect(await fence.highest(resource)).toBeNull();
  });

  test('that raises says why and where, and what it did before stays', async () => {
    const fence = redisFence(client);
    const grant = grantAt(first);
    const run = (last: string) =>
      fence.eval(grant, `redis.call('RPUSH', KEYS[1], 'done')\n${last}`, { keys: [`${resource}:log`] });
    const raising = [
      [`error('not today')`, /the Lua body failed: line 2: not today; what it did before that stays, Redis does not/],
      [`error({ 1 })`, /the Lua body failed: table/],
      [`error({ err = 'MINE of a table' })`, /failed: MINE of a table/],
      [`error()`, /failed: nil/],
      [`error(false)`, /failed: false/],
      [`redis.call('INCR', KEYS[1])`, /failed: WRONGTYPE/],
      [`redis.call('NOSUCH')`, /failed: .*Unknown Redis command/],
      [`return redis.error_reply('MINE it is')`, /failed: MINE it is/],
      [`return { err = 'MINE too' }`, /failed: MINE too/],
      [`return redis.pcall('INCR', KEYS[1])`, /failed: WRONGTYPE/],
      [`local a = nil .. 'x'`, /failed: line 2: attempt to concatenate/],
    ] as const;
    for (const [last, says] of raising) {
      const failing = run(last);
      await expect(failing).rejects.toMatchObject({ code: 'FENCED_COMMAND', fence: 'redis', index: undefined });
      await expect(failing).rejects.toThrow(says);
    }
    expect(await client.llen(`${resource}:log`)).toBe(raising.length);
    expect(await run('return 1')).toBe(1);
  });

  test('is sent by its text once, and again where the server has forgotten it', async () => {
    const fence = redisFence(client);
    const grant = grantAt(first);
    const body = `return redis.call('INCR', KEYS[1]) -- ${resource}`;
    const options = { keys: [`${resource}:n`] };
    const texts = async () => Number(/cmdstat_eval:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0);
    const before = await texts();
    expect(await fence.eval(grant, body, options)).toBe(1);
    expect(await fence.eval(grant, body, options)).toBe(2);
    expect(await redisFence(client).eval(grant, body, options)).toBe(3);
    expect(await texts()).toBe(before + 1);
    await client.script('FLUSH', 'SYNC');
    expect(await fence.eval(grant, body, options)).toBe(4);
    expect(await texts()).toBe(before + 2);
  });

  test('may be one of many texts', async () => {
    const fence = redisFence(client);
    const grant = grantAt(first);
    for (let number = 0; number < 205; number++) expect(await fence.eval(grant, `return ${number}`)).toBe(number);
    expect(await fence.eval(grant, 'return 0')).toBe(0);
  });
});

describe('what a body returns', () => {
  const returned: readonly (readonly [string, unknown])[] = [
    ['', null],
    ['return', null],
    ['return nil', null],
    ['return false', null],
    ['return true', 1],
    [`return 'text'`, 'text'],
    [`return ''`, ''],
    ['return 42', 42],
    ['return -1', -1],
    ['return 3.99', 3],
    ['return tostring(3.99)', '3.99'],
    ['return 4503599627370497', 2 ** 52 + 1],
    ['return {}', []],
    [`return { 'a', { 1, { 'b', {} } } }`, ['a', [1, ['b', []]]]],
    [`return { 1, nil, 3 }`, [1]],
    [`return { 1, false, 3 }`, [1, null, 3]],
    [`return { ok = 'FINE' }`, 'FINE'],
    [`return redis.status_reply('FINE')`, 'FINE'],
    [`redis.call('HSET', KEYS[1], 'a', '1', 'b', '2') return redis.call('HGETALL', KEYS[1])`, ['a', '1', 'b', '2']],
    [`return cjson.encode({ left = 3 })`, '{"left":3}'],
  ];

  const clients = [
    ['ioredis', 2],
    ['node-redis', 2],
    ['node-redis', 3],
  ] as const;
  for (const [library, RESP] of clients) {
    test(`comes through ${library} over RESP${RESP}`, async () => {
      const nodeRedis = createClient({ url: server.url, RESP });
      try {
        if (library === 'node-redis') await nodeRedis.connect();
        const fence = redisFence(library === 'node-redis' ? nodeRedis : client);
        const grant = grantAt(first);
        for (const [body, value] of returned) {
          expect(await fence.eval(grant, body || ' -- nothing', { keys: [`${resource}:h`] }), body).toEqual(value);
        }
      } finally {
        if (nodeRedis.isOpen) nodeRedis.destroy();
      }
    });
  }
});

describe('what is refused before anything is sent', () => {
  const bodies: readonly (readonly [unknown, RegExp])[] = [
    [undefined, /is undefined: must be the text/],
    ['', /is "": must be the text/],
    [' \n', /must be the text/],
    [42, /is 42: must be the text/],
    ['#!lua flags=no-writes\nreturn 1', /begins with #!; leave that line out/],
    ['\n #!lua\nreturn 1', /begins with #!/],
  ];
  test.each(bodies)('as a body %j', async (body, says) => {
    const eval_ = redisFence(client).eval(grantAt(first), body as string);
    await expect(eval_).rejects.toMatchObject({ code: 'CONFIG', option: 'body' });
    await expect(eval_).rejects.toThrow(says);
  });

  const options: readonly (readonly [object, string, RegExp])[] = [
    [{ key: 'x' }, 'key', /unknown|keys/],
    [{ keys: 'x' }, 'keys', /is "x": must be a list/],
    [{ args: 5 }, 'args', /is 5: must be a list/],
    [{ keys: [null] }, 'keys', /a key is null; give strings/],
    [{ args: [Buffer.from('x')] }, 'args', /an argument is an object; encode bytes as text/],
    [{ args: [Number.NaN] }, 'args', /an argument is NaN/],
    [{ args: [undefined] }, 'args', /an argument is undefined/],
    [{ args: [true] }, 'args', /an argument is true/],
    [{ args: Array(7001).fill('x') }, 'args', /7001, more than 7000/],
  ];
  test.each(options)('as options %o', async (wrong, option, says) => {
    const eval_ = redisFence(client).eval(grantAt(first), 'return 1', wrong);
    await expect(eval_).rejects.toMatchObject({ code: 'CONFIG', option });
    await expect(eval_).rejects.toThrow(says);
    expect(await client.exists(`leasehold-fence:{${resource}}`)).toBe(0);
  });
});

describe('a lease', () => {
  /** As a fence sees it, and when it was asked. */
  function leaseOf(state: { held?: boolean; activated?: boolean }): Holding & { readonly refusals: unknown[] } {
    const refusals: unknown[] = [];
    return {
      refusals,
      grant: grantAt(first),
      assertHeld() {
        if (state.held === false) throw new Error('not held');
      },
      holding: { mayWrite: () => state.activated !== false, refused: (error) => void refusals.push(error) },
    };
  }

  test('that is not held, or did not activate the fence, sends no body and no commands', async () => {
    const fence = redisFence(client);
    const run = (lease: Holding) => fence.eval(lease, `return redis.call('SET', KEYS[1], 'x')`, { keys: [resource] });
    const write = (lease: Holding) => fence.write(lease, (tx) => tx.call('SET', resource, 'x'));
    for (const way of [run, write]) {
      await expect(way(leaseOf({ held: false }))).rejects.toThrow('not held');
      await expect(way(leaseOf({ activated: false }))).rejects.toMatchObject({ code: 'FENCE_NOT_ACTIVATED' });
    }
    expect(await client.exists(resource, `leasehold-fence:{${resource}}`)).toBe(0);
  });

  test('that is lost while the body of a write runs sends nothing', async () => {
    const state = { held: true };
    const write = redisFence(client).write(leaseOf(state), async (tx) => {
      tx.call('SET', resource, 'x');
      await client.ping();
      state.held = false;
    });
    await expect(write).rejects.toThrow('not held');
    expect(await client.exists(resource)).toBe(0);
  });

  test('hears that its body was refused', async () => {
    const fence = redisFence(client);
    const lease = leaseOf({});
    await fence.activate(grantAt(second));
    await expect(fence.eval(lease, 'return 1')).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    expect(lease.refusals).toMatchObject([{ code: 'STALE_TOKEN' }]);
  });
});

test('the commands of a body are the user’s, and need its rights', async () => {
  const [, ...rights] = redisAcl('shop', 'small', { fence: true }).split(' ');
  await client.call('ACL', ...rights, '>secret', '~shop/*', '+incr');
  await using small = await connectRedis(server.url.replace('redis://', 'redis://small:secret@'));
  const fence = redisFence(small);
  const grant = grantAt(first);
  expect(await fence.eval(grant, `return redis.call('INCR', KEYS[1])`, { keys: [resource] })).toBe(1);
  const forbidden = fence.eval(grant, `return redis.call('SET', KEYS[1], 'x')`, { keys: [resource] });
  await expect(forbidden).rejects.toThrow(/the Lua body failed: .*(NOPERM|user executing the script can't run)/);
  expect(await client.get(resource)).toBe('1');
});
