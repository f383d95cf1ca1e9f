import { Cluster, type Redis } from 'ioredis';
import type { NodeSettings, RedisClusterSettings, RedisSentinelSettings, RedisSettings } from '../config/settings.ts';
import { clientOf } from '../redis.ts';

const CALLS = { connectTimeout: 3000, commandTimeout: 5000, maxRetriesPerRequest: 1 } as const;

/** The servers that an owner of this store may be told to talk to. Rejects if none can be asked. */
export async function nodesOfStore(
  redis: RedisClusterSettings | RedisSentinelSettings,
): Promise<readonly NodeSettings[]> {
  return redis.kind === 'cluster' ? nodesOfCluster(redis) : masterOf(redis);
}

async function nodesOfCluster(redis: RedisClusterSettings): Promise<readonly NodeSettings[]> {
  return asking(redis, async (client) => {
    if (!(client instanceof Cluster)) return [];
    const slots = (await client.cluster('SLOTS')) as readonly (readonly unknown[])[];
    const told = slots.flatMap(([, , ...nodes]) => nodes as readonly (readonly [string | null, number])[]);
    const nodes = told.flatMap(([host, port]) => (host === null || host === '' ? [] : [{ host, port }]));
    return [...new Map([...redis.nodes, ...nodes].map((node) => [`${node.host}:${node.port}`, node])).values()];
  });
}

/** As the first sentinel says that answers. */
async function masterOf(redis: RedisSentinelSettings): Promise<readonly NodeSettings[]> {
  const { nodes, name, sentinelUsername, sentinelPassword, sentinelTls, tls } = redis;
  const access = { username: sentinelUsername, password: sentinelPassword, tls: sentinelTls ? tls : undefined };
  return Promise.any(
    nodes.map((node) =>
      asking({ kind: 'server', ...node, db: 0, ...access }, async (client) => {
        const told = (await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)) as readonly string[] | null;
        if (told === null) throw new Error(`the sentinel knows no master ${name}`);
        const [host = '', port = ''] = told;
        return [{ host, port: Number(port) }];
      }),
    ),
  );
}

async function asking<T>(redis: RedisSettings, ask: (client: Redis | Cluster) => Promise<T>): Promise<T> {
  const client = clientOf(redis, { calls: CALLS, isPatient: false });
  client.on('error', () => {});
  try {
    await client.connect();
    return await ask(client);
  } finally {
    client.disconnect();
  }
}
