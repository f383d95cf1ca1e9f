import { Queue, Worker } from 'bullmq';
import type { Peer } from './peer.ts';

export const bullmq: Peer = {
  name: 'BullMQ alone',
  dependency: 'bullmq',
  configuration:
    "one job, a `Worker` in each process: `lockDuration` a lease, `lockRenewTime` and `stalledInterval` a third of it, the processor's signal, which `cancelJob` aborts on `lockRenewalFailed`. Each process adds the job under the same id, as a producer that tries again",
  keys: (resource) => [`bull:${resource}:*:lock`],
  renewMs: (leaseMs) => leaseMs / 3,
  // The lock has to run out, and two looks for stalled jobs have to come.
  patienceMs: (leaseMs) => leaseMs * 2,
  takesCommandTimeout: false,
  async open({ storeUrl, resource, leaseMs, renewMs }) {
    const connection = { url: storeUrl };
    return {
      async run(section) {
        const queue = new Queue(resource, { connection });
        queue.on('error', () => {});
        // Where the store has lost the queue, somebody will ask for the job again.
        const add = () => queue.add('job', {}, { jobId: 'the-job' }).catch(() => {});
        await add();
        const adding = setInterval(() => void add(), 500).unref();
        let left = (): void => {};
        const hasRun = new Promise<void>((resolve) => (left = resolve));
        const worker = new Worker(
          resource,
          async (_job, _token, signal) => {
            clearInterval(adding);
            await section({ isLost: () => signal?.aborted ?? false });
            // Or it could be the next owner itself, and the ledger could not tell the two apart.
            void worker.close().catch(() => {});
            left();
          },
          {
            connection,
            lockDuration: leaseMs,
            lockRenewTime: renewMs,
            stalledInterval: leaseMs / 3,
            maxStalledCount: 20,
          },
        );
        worker.on('error', () => {});
        worker.on('lockRenewalFailed', (jobs) => {
          for (const job of jobs) worker.cancelJob(job);
        });
        await hasRun;
      },
    };
  },
};
