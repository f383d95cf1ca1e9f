import { LeasedWorker } from '@leasehold/bullmq';
import { Queue, type ConnectionOptions } from 'bullmq';
import { Cluster, Redis } from 'ioredis';
import { describe, expect, inject, test } from 'vitest';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { RedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { connectionOf, emitted } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

/** A queue and a worker on this connection, and a job under a lease; a worker without a manager makes one from it. */
async function leasedJob(connection: ConnectionOptions, prefix = 'bull'): Promise<string> {
  const name = uniqueName('jobs');
  const resource = uniqueName('resource');
  const queue = new Queue(name, { connection, prefix });
  const worker = new LeasedWorker(name, (job) => job.lease.fencingToken, { connection, prefix, lease: { resource } });
  worker.on('error', () => {});
  try {
    const completed = emitted(worker, 'completed');
    await queue.add('job', {});
    expect((await completed)[0]?.[1]).toBeGreaterThan(0);
    return resource;
  } finally {
    await worker.close();
    await queue.close();
  }
}

describe('without a manager, leases are on the Redis of the connection', () => {
  test.each([
    ['options', connectionOf(redisUrl)],
    ['a URL', { url: redisUrl }],
  ] as const)('given as %s', async (_, connection) => {
    await using redis = await connectRedis(redisUrl);
    const resource = await leasedJob(connection);
    expect(await redis.exists(`leasehold:{${resource}}`)).toBe(1);
  });

  test('given as a URL with a user, a password and a database, among other options', async () => {
    await using server = await startRedis();
    await using redis = await connectRedis(server.url, { db: 3 });
    await redis.call('ACL', 'SETUSER', 'a@b', 'on', '>p:/w', 'allkeys', 'allchannels', '+@all');
    const url = `redis://a%40b:p%3A%2Fw@127.0.0.1:${server.port}/3`;
    const resource = await leasedJob({ url, db: 5, connectTimeout: 5000 });
    expect(await redis.exists(`leasehold:{${resource}}`)).toBe(1);
  });

  test('given as a client of ioredis, which is left open', async () => {
    await using redis = await connectRedis(redisUrl, { maxRetriesPerRequest: null });
    const resource = await leasedJob(redis);
    expect(await redis.exists(`leasehold:{${resource}}`)).toBe(1);
  });

  test('given as a client of ioredis that is not connected yet', async () => {
    const redis = new Redis(redisUrl, { lazyConnect: true, maxRetriesPerRequest: null });
    const resource = await leasedJob(redis);
    expect(await redis.exists(`leasehold:{${resource}}`)).toBe(1);
    redis.disconnect();
  });

  test('given as a Cluster', async () => {
    await using nodes = await RedisCluster.start();
    const cluster = new Cluster(nodes.addresses, { redisOptions: { maxRetriesPerRequest: null } });
    const resource = await leasedJob(cluster, '{bull}');
    const { raw } = await nodes.ownerOf(`leasehold:{${resource}}`);
    expect(await raw.exists(`leasehold:{${resource}}`)).toBe(1);
    cluster.disconnect();
  });
});
