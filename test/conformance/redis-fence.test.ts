import type { Grant } from '@leasehold/core';
import { redisFence, type RedisTx } from '@leasehold/core/redis';
import { describeFence, fenceCases, runFenceCase } from '@leasehold/core/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

let server: RedisServer;
let proxy: TcpProxy;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
  proxy = await TcpProxy.start(server, 'file');
});

afterAll(async () => {
  await proxy.close();
  await server.stop();
});

async function subject(options: Parameters<typeof connectRedis>[1] = {}) {
  const client = await connectRedis(proxy.redisUrl, options);
  const others: { disconnect(): void }[] = [];
  return {
    fence: redisFence(client),
    nowUs: async () => {
      const [seconds, micros] = await client.time();
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    append: (tx: RedisTx, resource: string, entry: string) => tx.call('RPUSH', `log:{${resource}}`, entry),
    entries: (resource: string) => client.lrange(`log:{${resource}}`, 0, -1),
    second: async () => {
      const other = await connectRedis(server.url);
      others.push(other);
      return redisFence(other);
    },
    loseAnswer: async () => void proxy.loseNextReply('evalsha'),
    loseRequest: async () => void proxy.loseNextRequest('evalsha'),
    abandon: async (grant: Grant, entry: string) => {
      await using dying = await connectRedis(proxy.redisUrl, { retryStrategy: () => null });
      const gone = proxy.loseNextRequest('evalsha');
      const write = redisFence(dying).write(grant, (tx) => tx.call('RPUSH', `log:{${grant.resource}}`, entry));
      await Promise.all([gone, write.catch(() => {})]);
    },
    close: async () => {
      for (const other of [client, ...others]) other.disconnect();
    },
  };
}

const { leftOut } = describeFence('Redis', subject, ['second', 'loseAnswer', 'loseRequest', 'abandon']);

test('the only case that a Redis fence has no means for is the one that reads inside a write', () => {
  expect(leftOut).toEqual(['bodies that read and write lose no update of their siblings']);
});

// By default ioredis sends again what a broken connection did not answer. If it may not, it says nothing at all.
describe('over a client that leaves what was not answered', () => {
  const lossy = fenceCases.filter(({ needs }) => needs.includes('loseAnswer') || needs.includes('loseRequest'));
  for (const fenceCase of lossy) {
    test(fenceCase.name, () => runFenceCase(fenceCase, () => subject({ autoResendUnfulfilledCommands: false })));
  }
});
