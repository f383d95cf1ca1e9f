// Jobs that do nothing, all in the queue before the worker begins.
import { LeasedWorker } from '@leasehold/bullmq';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Queue, Worker, type Job } from 'bullmq';

import { libraryNamed } from '../../peers/libraries.ts';
import { connectionOf } from '../../e2e/fixtures/bullmq-setup.ts';
import { measured, type Measured, type Side } from '../side.ts';
import { ByHand } from './by-hand.ts';

export interface BullmqSetup {
  readonly url: string;
  /** `plain`, `by hand`, `leased` or the name of a library. */
  readonly variant: string;
}

export interface JobsRound {
  readonly count: number;
  readonly concurrency: number;
  readonly keys: 'distinct' | 'one';
}

interface Data {
  readonly key: string;
}

export async function open({ url, variant }: BullmqSetup): Promise<Side> {
  const connection = connectionOf(url);
  const { worker: workerOf, close } = kindOf({ url, variant });
  let worker: Worker | undefined;
  let queue: Queue | undefined;
  let queues = 0;

  async function clear(): Promise<void> {
    await worker?.close();
    await queue?.obliterate({ force: true });
    await queue?.close();
    worker = queue = undefined;
  }

  return {
    async prepare({ count, concurrency, keys }: JobsRound): Promise<void> {
      await clear();
      const name = `jobs-${variant.replaceAll(/[^a-z]+/gi, '-')}-${queues++}`;
      queue = new Queue(name, { connection });
      worker = workerOf(name, { connection, concurrency, autorun: false });
      await worker.waitUntilReady();
      const data = (n: number): Data => ({ key: keys === 'one' ? 'key' : `key-${n}` });
      await queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: 'job', data: data(n) })));
    },
    async slice({ count }: JobsRound): Promise<Measured & { failed: number }> {
      const its = worker as Worker;
      let done = 0;
      let failed = 0;
      const its2 = await measured(async () => {
        const ended = new Promise<void>((resolve) => {
          const one = (): void => void (++done === count && resolve());
          its.on('completed', one);
          its.on('failed', () => {
            failed++;
            one();
          });
        });
        void its.run();
        await ended;
      });
      return { ...its2, failed };
    },
    clear,
    async close() {
      await clear();
      await close();
    },
  };
}

interface WorkerOptions {
  readonly connection: ReturnType<typeof connectionOf>;
  readonly concurrency: number;
  readonly autorun: boolean;
}

function kindOf({ url, variant }: BullmqSetup): {
  worker(name: string, options: WorkerOptions): Worker;
  close(): Promise<unknown> | void;
} {
  if (variant === 'plain') {
    return { worker: (name, options) => new Worker(name, () => Promise.resolve(), options), close() {} };
  }
  if (variant === 'leased') {
    const manager = new LeaseManager({ store: redisStore(url) });
    const lease = { resource: (job: Job<Data>) => job.data.key, manager };
    return {
      worker: (name, options) => new LeasedWorker<Data>(name, () => {}, { ...options, lease }),
      close: () => manager.close(),
    };
  }
  if (variant === 'by hand') {
    // What people write instead: it is neither extended nor fenced, and here it is never busy.
    const byHand = new ByHand(url);
    const work = async ({ data }: Job<Data>): Promise<void> =>
      void (await byHand.release(await byHand.acquire(data.key)));
    return { worker: (name, options) => new Worker<Data>(name, work, options), close: () => byHand.close() };
  }
  const opened = libraryNamed(variant).open({ url, ttlMs: 30_000 });
  const { using } = opened;
  const work = async ({ data: { key } }: Job<Data>): Promise<void> => {
    const resource = `${variant}:${key}`;
    if (using !== undefined) await using(resource, async () => {});
    else await opened.release(await opened.acquire(resource));
  };
  return { worker: (name, options) => new Worker<Data>(name, work, options), close: () => opened.close() };
}
