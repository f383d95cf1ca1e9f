// BullMQ's Worker with one more option: one payment per customer at a time, in all workers together.
import { LeasedWorker } from '@leasehold/bullmq';
import { redisFence } from '@leasehold/core/redis';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';

interface Payment {
  readonly customer: number;
  readonly amount: number;
}

const url = process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379';
const connection = { url };
const redis = new Redis(url);
const payments = redisFence(redis, { name: 'payments' });

const worker = new LeasedWorker<Payment>(
  'payments',
  async (job) => {
    const { customer, amount } = job.data;
    // The qualified name in braces: on a Redis Cluster the data must be in the slot of its fence.
    const key = `{${job.lease.grant.resource}}:payments`;
    // BullMQ delivers at least once. A job that comes again writes the same entry again.
    await payments.write(job.lease, (tx) => tx.call('HSET', key, job.id ?? '', amount));
    console.log(`payment ${await redis.hlen(key)} of customer ${customer}`);
  },
  { connection, concurrency: 10, lease: { resource: (job) => `customer:${job.data.customer}`, fences: [payments] } },
);
worker.on('leaseBusy', (job) => console.log(`customer ${job.data.customer} is busy, the job goes back to the queue`));
worker.on('leaseLost', (job, error) => console.log(`customer ${job.data.customer}: ${error.message}`));

const queue = new Queue<Payment>('payments', { connection });
const allDone = new Promise<void>((resolve) => {
  let left = 4;
  worker.on('completed', () => --left === 0 && resolve());
});
await queue.addBulk(
  [1, 2, 1, 2].map((customer) => ({ name: 'pay', data: { customer, amount: 10 }, opts: { removeOnComplete: true } })),
);
await allDone;
console.log('all paid');

await worker.close();
await queue.close();
redis.disconnect();
