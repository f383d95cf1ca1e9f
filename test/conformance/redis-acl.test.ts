import { redisAcl, redisFence } from '@leasehold/core/redis';
import { describeFence, describeLeaseStore } from '@leasehold/core/testing';
import { afterAll, beforeAll } from 'vitest';

import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { redisHooks, redisSubject } from './redis-subject.ts';

let server: RedisServer;

beforeAll(async () => {
  server = await startRedis({ scope: 'file' });
});

afterAll(() => server.stop());

const urlOf = (user: string): string => server.url.replace('redis://', `redis://${user}:secret@`);

async function allow(line: string, ...more: string[]): Promise<void> {
  await using raw = await connectRedis(server.url);
  const [command = '', ...args] = line.split(' ');
  await raw.call(command, ...args, '>secret', ...more);
}

describeLeaseStore(
  'Redis with the smallest rights',
  async () => {
    const prefix = uniqueName('suite');
    // The suite has channels of its own.
    await allow(redisAcl(prefix, prefix), '&channel-*');
    return redisSubject(server, () => urlOf(prefix), prefix);
  },
  // The others restart the server, which forgets its users, or need users of their own.
  redisHooks.filter((hook) => !['restart', 'promoteLaggingReplica', 'withoutSideEffects'].includes(hook)),
);

describeFence('Redis with the smallest rights', async () => {
  // The suite has namespaces of its own.
  const namespaces = ['suite-2', 'Suite'].map((namespace) => `~leasehold-fence:{${namespace}/*`);
  await allow(redisAcl('suite', 'fenced', { fence: true }), ...namespaces, '~log:*', '+rpush', '+lrange');
  const client = await connectRedis(urlOf('fenced'));
  return {
    fence: redisFence(client),
    nowUs: async () => {
      const [seconds, micros] = await client.time();
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    append: (tx, resource, entry) => tx.call('RPUSH', `log:{${resource}}`, entry),
    entries: (resource) => client.lrange(`log:{${resource}}`, 0, -1),
    close: async () => client.disconnect(),
  };
});
