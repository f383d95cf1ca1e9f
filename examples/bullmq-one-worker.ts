// Of two workers one takes jobs. When it closes, the other one follows at once.
import { LeasedWorker } from '@leasehold/bullmq';
import { Queue } from 'bullmq';
import { once } from 'node:events';

const connection = { url: process.env.LEASEHOLD_REDIS_URL ?? 'redis://localhost:6379' };
const queue = new Queue<number>('imports', { connection });

function startWorker(name: string): LeasedWorker<number> {
  const worker = new LeasedWorker<number>(
    'imports',
    // One lease for all jobs of a term: its token tells this term from the next one.
    async (job) => console.log(`import ${job.data} by the ${name} worker`),
    { connection, lease: { resource: 'imports', scope: 'worker', ttl: '10s' } },
  );
  worker.on('elected', (lease) => console.log(`the ${name} worker is elected, token ${lease.fencingToken}`));
  worker.on('steppedDown', () => console.log(`the ${name} worker steps down`));
  return worker;
}

const first = startWorker('first');
await once(first, 'elected');
const second = startWorker('second');

const options = { removeOnComplete: true };
const imported = once(first, 'completed');
await queue.add('import', 1, options);
await imported;

const elected = once(second, 'elected');
await first.close();
await elected;
const importedAgain = once(second, 'completed');
await queue.add('import', 2, options);
await importedAgain;

await second.close();
await queue.close();
