// A task that is written with `distributed: true` stays as it is; leases elect who runs a tick.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { leaseCoordinator } from '@leasehold/cron';
import nodeCron from 'node-cron';

const store = redisStore(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379');
const manager = new LeaseManager({ store });

// Once, before any task is scheduled.
nodeCron.setRunCoordinator(leaseCoordinator(manager));

let runs = 0;
const twice = new Promise<void>((resolve) => {
  nodeCron.schedule(
    '* * * * * *',
    ({ date }) => {
      console.log(`tick ${date.toISOString()}`);
      if (++runs === 2) resolve();
    },
    { name: 'clean-up', timezone: 'UTC', distributed: true, distributedLease: 5000 },
  );
});

await twice;
await nodeCron.shutdown();
await manager.close();
console.log('two ticks have run');
