import { redisFence, type Handle, type RedisTx } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { leaseId } from './requests.ts';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
});

afterAll(() => server.stop());

const grant = () => ({
  resource: `shop/${uniqueName('replies')}`,
  fencingToken: 1_700_000_000_000_000,
  leaseId: leaseId(),
});

type Fenceable = Parameters<typeof redisFence>[0];

/** What a fence may be given, and how it is closed. */
const clients: Readonly<Record<string, () => Promise<{ client: Fenceable; close(): void }>>> = {
  ioredis: async () => {
    const client = new Redis(server.url);
    return { client, close: () => client.disconnect() };
  },
  'node-redis over RESP2': () => nodeRedis(2),
  'node-redis over RESP3': () => nodeRedis(3),
};

async function nodeRedis(RESP: 2 | 3) {
  const client = createClient({ url: server.url, RESP });
  await client.connect();
  return { client, close: () => client.destroy() };
}

/** Each command with its reply, in an order in which they need one another. */
function commandsOf(key: string): readonly (readonly [readonly (string | number)[], unknown])[] {
  return [
    [['SET', key, 'text'], 'OK'],
    [['GET', key], 'text'],
    [['GET', 'nobody'], null],
    [['STRLEN', key], 4],
    [['SET', `${key}:n`, 41], 'OK'],
    [['INCR', `${key}:n`], 42],
    [['INCRBYFLOAT', `${key}:n`, 0.5], '42.5'],
    [['SET', `${key}:big`, '9007199254740993'], 'OK'],
    [['GET', `${key}:big`], '9007199254740993'],
    [['EXISTS', 'nobody'], 0],
    [['TTL', key], -1],
    [['SET', key, 'never', 'NX'], null],
    [['RPUSH', `${key}:l`, 'a', '', 'ü'], 3],
    [
      ['LRANGE', `${key}:l`, 0, -1],
      ['a', '', 'ü'],
    ],
    [['LRANGE', 'nobody', 0, -1], []],
    [['LPOP', 'nobody'], null],
    [['LPOP', 'nobody', 2], null],
    [['HSET', `${key}:h`, 'one', 1, 'two', 2], 2],
    [
      ['HGETALL', `${key}:h`],
      ['one', '1', 'two', '2'],
    ],
    [
      ['HMGET', `${key}:h`, 'one', 'none', 'two'],
      ['1', null, '2'],
    ],
    [['HGETALL', 'nobody'], []],
    [['ZADD', `${key}:z`, 1.5, 'low', 'inf', 'high'], 2],
    [['ZSCORE', `${key}:z`, 'low'], '1.5'],
    [
      ['ZRANGE', `${key}:z`, 0, -1, 'WITHSCORES'],
      ['low', '1.5', 'high', 'inf'],
    ],
    [['SADD', `${key}:s`, 'one'], 1],
    [['SMEMBERS', `${key}:s`], ['one']],
    [
      ['SMISMEMBER', `${key}:s`, 'one', 'two'],
      [1, 0],
    ],
    [['XADD', `${key}:x`, '1-1', 'field', 'value'], '1-1'],
    [['XRANGE', `${key}:x`, '-', '+'], [['1-1', ['field', 'value']]]],
    [['XREAD', 'COUNT', 1, 'STREAMS', `${key}:x`, 0], [[`${key}:x`, [['1-1', ['field', 'value']]]]]],
    [['GEOADD', `${key}:g`, 13.361389, 38.115556, 'Palermo'], 1],
    [
      ['GEOPOS', `${key}:g`, 'Palermo', 'Atlantis'],
      [['13.36138933897018433', '38.11555639549629859'], null],
    ],
    [['TYPE', `${key}:x`], 'stream'],
    [['PING'], 'PONG'],
    [['ECHO', '\u0000 "quoted" \'too\' \\ \r\n 🦊'], '\u0000 "quoted" \'too\' \\ \r\n 🦊'],
    [['DEL', key, `${key}:n`], 2],
    [['GET', key], null],
  ];
}

describe.each(Object.entries(clients))('through %s', (_, open) => {
  test('each handle has the reply to its command, of every kind, in the order of the calls', async () => {
    const { client, close } = await open();
    try {
      const commands = commandsOf(uniqueName('data'));
      const handles = await redisFence(client).write(grant(), (tx) =>
        commands.map(([[command, ...args]]) => tx.call(String(command), ...args)),
      );
      for (const [index, [command, reply]] of commands.entries()) {
        expect(handles[index]?.value, command.join(' ')).toEqual(reply);
      }
    } finally {
      close();
    }
  });

  test('a whole number beyond 2^53 is stored to the last digit, and read to the last digit as a text', async () => {
    const { client, close } = await open();
    try {
      const key = uniqueName('big');
      const { added, read } = await redisFence(client).write(grant(), (tx) => ({
        added: tx.call<number>('INCRBY', key, '9007199254740999'),
        read: tx.call<string>('GET', key),
      }));
      expect(read.value).toBe('9007199254740999');
      expect(Math.abs(added.value - 2 ** 53)).toBeLessThan(64);
    } finally {
      close();
    }
  });

  test('what may not run in a script is a command that fails, by its name', async () => {
    const { client, close } = await open();
    try {
      for (const forbidden of ['SUBSCRIBE', 'MULTI', 'WATCH', 'NOSUCH']) {
        const write = redisFence(client).write(grant(), (tx) => tx.call(forbidden, 'x'));
        await expect(write).rejects.toMatchObject({ code: 'FENCED_COMMAND', index: 0 });
        await expect(write).rejects.toThrow(new RegExp(`command 1 of 1 \\(${forbidden} x\\) failed`));
      }
    } finally {
      close();
    }
  });
});

describe('a client that is told to give other types', () => {
  test('gives this fence its plain ones all the same', async () => {
    const client = createClient({ url: server.url, RESP: 3 });
    await client.connect();
    // As somebody does who wants buffers.
    const mapped = client.withTypeMapping({ 36: Buffer, 58: String });
    try {
      const key = uniqueName('mapped');
      const { text, number } = await redisFence(mapped as unknown as typeof client).write(grant(), (tx) => {
        tx.call('SET', key, 'text');
        return { text: tx.call('GET', key), number: tx.call('STRLEN', key) };
      });
      expect([text.value, number.value]).toEqual(['text', 4]);
    } finally {
      client.destroy();
    }
  });
});

describe('what can be no command', () => {
  const wrong: readonly (readonly [string, (tx: RedisTx) => unknown, RegExp])[] = [
    ['a name that is none', (tx) => tx.call(5 as unknown as string), /the command is 5; give its name/],
    ['no name', (tx) => tx.call(''), /the command is ""/],
    ['bytes', (tx) => tx.call('SET', 'x', Buffer.from('x') as never), /an argument of SET is an object; encode bytes/],
    ['an object', (tx) => tx.call('SET', 'x', {} as never), /an argument of SET is an object; give strings/],
    ['no number', (tx) => tx.call('SET', 'x', Number.NaN), /an argument of SET is NaN/],
    ['nothing', (tx) => tx.call('SET', 'x', undefined as never), /an argument of SET is undefined/],
    ['a reply to come', (tx) => tx.call('SET', 'x', tx.call('GET', 'y') as never), /an argument of SET is an object/],
    ['too many arguments', (tx) => tx.call('DEL', ...Array<string>(7001).fill('x')), /one of 7001, more than 7000/],
  ];
  test.each(wrong)('is refused before anything is sent: %s', async (_, call, says) => {
    await using client = Object.assign(new Redis(server.url), {
      [Symbol.asyncDispose]: async () => client.disconnect(),
    });
    const asked = grant();
    let handle: Handle | undefined;
    const write = redisFence(client).write(asked, (tx) => {
      handle = tx.call('SET', asked.resource, 'x');
      call(tx);
    });
    await expect(write).rejects.toMatchObject({ code: 'CONFIG', option: 'tx.call' });
    await expect(write).rejects.toThrow(says);
    expect(() => handle?.value).toThrow('not there yet');
    expect(await client.exists(asked.resource, `leasehold-fence:{${asked.resource}}`)).toBe(0);
  });
});
