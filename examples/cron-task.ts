// node-cron's schedule: start this in as many processes as you like, each tick runs in one of them.
import { setTimeout as sleep } from 'node:timers/promises';
import { leasedCron } from '@leasehold/cron';

const cron = leasedCron({ connection: process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379' });

let runs = 0;
const twice = new Promise<void>((resolve) => {
  cron.schedule(
    '* * * * * *',
    async (run) => {
      console.log(`tick ${run.tick?.toISOString()}, fencing token ${run.fencingToken}`);
      // Ends early when the lease is lost or the process shuts down.
      await sleep(100, undefined, { signal: run.signal });
      if (++runs === 2) resolve();
    },
    { name: 'heartbeat', timezone: 'UTC', noOverlap: true, lease: { ttl: '5s' } },
  );
});

await twice;
await cron.shutdown('10s');
console.log('two ticks have run');
