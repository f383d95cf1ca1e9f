// What examples/cron-file-task.ts runs in a process of its own. The lease is taken here, where the work is done.
import { leasedTask } from '@leasehold/cron';

export const task = leasedTask(async (run) => `tick ${run.tick?.toISOString()}, fencing token ${run.fencingToken}`, {
  name: 'report',
  connection: process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379',
  ttl: '5s',
});
