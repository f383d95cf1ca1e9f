import { redisFence } from '@leasehold/core/redis';
import { describeFence, fenceCases } from '@leasehold/core/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
});

afterAll(() => server.stop());

const { leftOut } = describeFence(
  'Redis',
  async () => {
    const client = await connectRedis(server.url);
    const others: { disconnect(): void }[] = [];
    return {
      fence: redisFence(client),
      nowUs: async () => {
        const [seconds, micros] = await client.time();
        return Number(seconds) * 1_000_000 + Number(micros);
      },
      append: (tx, resource, entry) => tx.call('RPUSH', `log:{${resource}}`, entry),
      entries: (resource) => client.lrange(`log:{${resource}}`, 0, -1),
      second: async () => {
        const other = await connectRedis(server.url);
        others.push(other);
        return redisFence(other);
      },
      close: async () => {
        for (const other of [client, ...others]) other.disconnect();
      },
    };
  },
  ['second'],
);

test('the cases that a Redis fence has no means for read inside a write, or break the connection', () => {
  const needs = new Set(fenceCases.filter(({ name }) => leftOut.includes(name)).flatMap((each) => each.needs));
  expect(needs).toEqual(new Set(['count', 'loseAnswer', 'loseRequest', 'abandon']));
});
