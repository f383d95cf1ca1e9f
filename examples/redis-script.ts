// Read-modify-write in Redis: the body runs on the server, after the guard, in the same step.
import { LeaseManager, type Grant } from '@leasehold/core';
import { redisFence, redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379');
const stock = redisFence(redis, { name: 'stock' });
const leases = new LeaseManager({ store: redisStore(redis, { prefix: 'orchard' }) });

// KEYS and ARGV are those of the call. The text is a constant: the server keeps each one that it has seen.
const sell = `
local left = tonumber(redis.call('GET', KEYS[1]) or '10')
local sold = math.min(left, tonumber(ARGV[1]))
redis.call('SET', KEYS[1], left - sold)
return { sold, left - sold }`;

const order = (wanted: number): Promise<Grant> =>
  leases.run('apples', { fences: [stock], wait: '10s' }, async (lease) => {
    const [sold, left] = await stock.eval<[number, number]>(lease, sell, {
      keys: ['{orchard/apples}:left'],
      args: [wanted],
    });
    console.log(`${sold} sold, ${left} left`);
    return lease.grant;
  });

const early = await order(7);
await order(7);
// The first order again, as if it had been paused: none of the script runs.
await stock
  .eval(early, sell, { keys: ['{orchard/apples}:left'], args: [1] })
  .catch((error: unknown) => console.log(String(error)));

await leases.close();
redis.disconnect();
