// A lease for a block instead of a function: it is released where the block ends, however it ends.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

const store = redisStore(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379', { prefix: 'example' });
await using leases = new LeaseManager({ store, ttl: '10s' });

{
  await using lease = await leases.acquire('invoices');
  console.log(`held: ${lease.isHeld()}, fencing token ${lease.fencingToken}`);
  for (const invoice of ['2026-001', '2026-002']) {
    lease.assertHeld();
    console.log(`sends ${invoice}`);
  }
  // The end of a block does not throw. This does, if the lease was lost on the way.
  lease.assertHeld();
}

const info = await leases.inspect('invoices');
console.log(`after the block: ${info?.state}`);
