// A task that is written with `distributed: true` stays as it is; leases elect who runs a tick.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { leaseCoordinator } from '@leasehold/cron';
import nodeCron from 'node-cron';

const store = redisStore(process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379');
const manager = new LeaseManager({ store });

// Once, before any task is scheduled.
nodeCron.setRunCoordinator(leaseCoordinator(manager));

const task = nodeCron.schedule('* * * * * *', ({ date }) => console.log(`tick ${date.toISOString()}`), {
  name: 'clean-up',
  timezone: 'UTC',
  distributed: true,
  distributedLease: 5000,
});

let runs = 0;
await new Promise<void>((resolve) => task.on('execution:finished', () => void (++runs === 2 && resolve())));
await task.destroy();
await manager.close();
console.log('two ticks have run');
