// Jobs of a key that somebody else has.
import { LeasedWorker } from '@leasehold/bullmq';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Queue, type Job } from 'bullmq';
import { setTimeout as sleep } from 'node:timers/promises';

import { connectionOf } from '../../e2e/fixtures/bullmq-setup.ts';
import type { Side } from '../side.ts';

export interface HotRound {
  readonly queue: string;
  readonly workMs: number;
  readonly concurrency: number;
}

/** One job of the hot key. The clock is that of the machine, in ms. */
export interface Ran {
  readonly startedMs: number;
  readonly endedMs: number;
  readonly starts: number;
}

const wallMs = (): number => performance.timeOrigin + performance.now();

export async function open({ url }: { readonly url: string }): Promise<Side> {
  const connection = connectionOf(url);
  const manager = new LeaseManager({ store: redisStore(url) });
  const lease = { resource: (job: Job<{ key: string }>) => job.data.key, manager };
  let ran: Ran[] = [];
  let hot: LeasedWorker<{ key: string }> | undefined;
  return {
    /** A job waits for its key, which somebody else holds; its worker has nothing else to do. Times in ms. */
    async handOffs({ queue: name, count }: { readonly queue: string; readonly count: number }): Promise<number[]> {
      const queue = new Queue(name, { connection });
      const holder = new LeaseManager({ store: redisStore(url) });
      let started = (_ms: number): void => {};
      const worker = new LeasedWorker(name, () => started(performance.now()), { connection, lease });
      await worker.waitUntilReady();
      const times: number[] = [];
      for (let n = 0; n < count; n++) {
        const held = await holder.acquire('key');
        const start = new Promise<number>((resolve) => (started = resolve));
        const completed = new Promise((resolve) => worker.once('completed', resolve));
        await queue.add('job', { key: 'key' });
        while ((await queue.getDelayedCount()) === 0) await sleep(1);
        await sleep(20); // until everything is at rest
        const from = performance.now();
        await held.release();
        times.push((await start) - from);
        await completed;
      }
      await worker.close();
      await queue.close();
      await holder.close();
      return times;
    },
    async startHot({ queue, workMs, concurrency }: HotRound): Promise<void> {
      ran = [];
      const work = async (job: Job): Promise<void> => {
        const startedMs = wallMs();
        await sleep(workMs);
        ran.push({ startedMs, endedMs: wallMs(), starts: job.attemptsStarted });
      };
      hot = new LeasedWorker(queue, work, { connection, concurrency, lease });
      await hot.waitUntilReady();
    },
    async howMany(): Promise<number> {
      return ran.length;
    },
    async endHot(): Promise<readonly Ran[]> {
      await hot?.close();
      return ran;
    },
    close: async () => void (await manager.close()),
  };
}
