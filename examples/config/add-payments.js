// Three payments of two customers for the queue of leasehold.yaml.
import { Queue } from 'bullmq';

const url = process.env.LEASEHOLD_REDIS_URL ?? 'redis://127.0.0.1:6379';
const queue = new Queue('payments', { connection: { url } });
await queue.addBulk([1, 2, 1].map((customerId, n) => ({ name: 'charge', data: { customerId, amount: 10 * (n + 1) } })));
await queue.close();
