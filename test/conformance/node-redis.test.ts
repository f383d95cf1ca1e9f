import { redisFence } from '@leasehold/core/redis';
import { describeFence, describeLeaseStore } from '@leasehold/core/testing';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe } from 'vitest';

import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { redisHooks, redisSubject } from './redis-subject.ts';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ scope: 'file', args: ['--repl-diskless-sync-delay', '0'] });
});

afterAll(() => server.stop());

async function connected() {
  const client = createClient({ url: server.url });
  client.on('error', () => {}); // every call reports its own failure
  await client.connect();
  return client;
}

describe.each([2, 3] as const)('over RESP%i', (RESP) => {
  describeLeaseStore('node-redis', () => redisSubject(server, (url) => createClient({ url, RESP })), redisHooks);
});

describeFence(
  'node-redis',
  async () => {
    const raw = await connected();
    const others: { destroy(): void }[] = [];
    return {
      fence: redisFence(raw),
      nowUs: async () => {
        const [seconds, micros] = (await raw.sendCommand(['TIME'])) as unknown as [string, string];
        return Number(seconds) * 1_000_000 + Number(micros);
      },
      append: (tx, resource, entry) => tx.call('RPUSH', `log:{${resource}}`, entry),
      entries: (resource) => raw.lRange(`log:{${resource}}`, 0, -1),
      second: async () => {
        const other = await connected();
        others.push(other);
        return redisFence(other);
      },
      close: async () => {
        for (const other of [raw, ...others]) other.destroy();
      },
    };
  },
  ['second'],
);
