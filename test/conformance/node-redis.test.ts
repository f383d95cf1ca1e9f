import { redisFence } from '@leasehold/core/redis';
import { describeFence, describeLeaseStore } from '@leasehold/core/testing';
import { createClient } from 'redis';
import { afterAll, beforeAll, describe } from 'vitest';

import { TcpProxy } from '../support/proxy.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { redisHooks, redisSubject } from './redis-subject.ts';

let server: RedisServer;
let proxy: TcpProxy;

beforeAll(async () => {
  server = await startRedis({ scope: 'file', args: ['--repl-diskless-sync-delay', '0'] });
  proxy = await TcpProxy.start(server, 'file');
});

afterAll(async () => {
  await proxy.close();
  await server.stop();
});

async function connected(RESP: 2 | 3, url = server.url) {
  const client = createClient({ url, RESP });
  client.on('error', () => {}); // every call reports its own failure
  await client.connect();
  return client;
}

describe.each([2, 3] as const)('over RESP%i', (RESP) => {
  describeLeaseStore('node-redis', () => redisSubject(server, (url) => createClient({ url, RESP })), redisHooks);

  describeFence(
    'node-redis',
    async () => {
      const client = await connected(RESP, proxy.redisUrl);
      const others: { destroy(): void }[] = [];
      return {
        fence: redisFence(client),
        nowUs: async () => {
          const [seconds, micros] = (await client.sendCommand(['TIME'])) as unknown as [string, string];
          return Number(seconds) * 1_000_000 + Number(micros);
        },
        append: (tx, resource, entry) => tx.call('RPUSH', `log:{${resource}}`, entry),
        entries: (resource) => client.lRange(`log:{${resource}}`, 0, -1),
        second: async () => {
          const other = await connected(RESP);
          others.push(other);
          return redisFence(other);
        },
        loseAnswer: async () => void proxy.loseNextReply('evalsha'),
        loseRequest: async () => void proxy.loseNextRequest('evalsha'),
        abandon: async (grant, entry) => {
          const dying = await connected(RESP, proxy.redisUrl);
          const gone = proxy.loseNextRequest('evalsha');
          const write = redisFence(dying).write(grant, (tx) => tx.call('RPUSH', `log:{${grant.resource}}`, entry));
          await gone;
          dying.destroy();
          await write.catch(() => {});
        },
        close: async () => {
          for (const other of [client, ...others]) other.destroy();
        },
      };
    },
    ['second', 'loseAnswer', 'loseRequest', 'abandon'],
  );
});
