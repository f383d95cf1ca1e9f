// Jobs that do nothing, all in the queue before the worker begins.
import { AsyncLocalStorage } from 'node:async_hooks';
import { LeasedWorker } from '@leasehold/bullmq';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Queue, Worker, type Job } from 'bullmq';

import { libraryNamed } from '../../peers/libraries.ts';
import { connectionOf } from '../../e2e/fixtures/bullmq-setup.ts';
import { measured, type Measured, type Side } from '../side.ts';
import { BareScripts } from './bare-scripts.ts';
import { ByHand } from './by-hand.ts';

export interface BullmqSetup {
  readonly url: string;
  /** `plain`, `with async hooks`, `by hand`, `bare scripts`, `leased`, `lingering` or the name of a library. */
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
  const { worker: workerOf, close } = await kindOf({ url, variant });
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

interface Kind {
  worker(name: string, options: WorkerOptions): Worker;
  close(): Promise<unknown> | void;
}

async function kindOf({ url, variant }: BullmqSetup): Promise<Kind> {
  // What any use of it does to a process up to Node 22, by whomever: each promise is told of.
  if (variant === 'with async hooks') new AsyncLocalStorage<number>().run(1, () => {});
  if (variant === 'plain' || variant === 'with async hooks') {
    return { worker: (name, options) => new Worker(name, () => Promise.resolve(), options), close() {} };
  }
  if (variant === 'leased' || variant === 'lingering') {
    const linger = variant === 'lingering' ? '200ms' : 0;
    const manager = new LeaseManager({ store: redisStore(url), linger });
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
  if (variant === 'bare scripts') {
    const bare = await BareScripts.open(url);
    const work = ({ data }: Job<Data>): Promise<void> => bare.pair(data.key);
    return { worker: (name, options) => new Worker<Data>(name, work, options), close: () => bare.close() };
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
