import { LeaseManager } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379');
const stock = redisFence(redis, { name: 'stock' });
const leases = new LeaseManager({ store: redisStore(redis, { prefix: 'shop' }) });

// In all processes together, one at a time: whoever comes later waits its turn.
await leases.run('pears', { fences: [stock], wait: '10s' }, async (lease) => {
  const pears = Number((await redis.get('{shop/pears}:left')) ?? 10);
  // Refused if this run was paused for so long that another one has begun.
  await stock.write(lease, (tx) => tx.call('SET', '{shop/pears}:left', pears - 1));
  console.log(`${pears - 1} pears left, says owner ${lease.fencingToken}`);
});

await leases.close();
redis.disconnect();
