import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

import { TcpProxy } from '../../support/proxy.ts';
import { connectRedis } from '../../support/redis-client.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import type { Replica } from '../stage.ts';

/** A replica of a store that can be kept from following it. It follows when this resolves. */
export async function startReplica(primary: RedisServer): Promise<Replica> {
  await using admin = await connectRedis(primary.url);
  await admin.config('SET', 'repl-diskless-sync-delay', '0');
  const link = await TcpProxy.start({ port: primary.port });
  const redis = await startRedis({ args: ['--replicaof', '127.0.0.1', `${link.port}`] });
  await using client = await connectRedis(redis.url);
  await following(client);
  return { redis, link };
}

/** Resolves when this replica has all that its primary had when it was asked. */
export async function following(replica: Redis): Promise<void> {
  while (!/master_link_status:up/.test(await replica.info('replication'))) await sleep(10);
}
