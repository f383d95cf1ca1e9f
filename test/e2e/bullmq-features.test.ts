import { setTimeout as sleep } from 'node:timers/promises';
import { LeasedWorker, type LeasedProcessor, type LeaseOptions } from '@leasehold/bullmq';
import type { Lease } from '@leasehold/core';
import { FlowProducer, type Job, type WorkerOptions } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { Bench, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

/** A worker whose jobs are of the customer that they name. */
function worker(
  bench: Bench,
  processor: LeasedProcessor,
  options: Partial<WorkerOptions> = {},
  lease: Partial<LeaseOptions> = {},
): LeasedWorker {
  return bench.worker(
    new LeasedWorker(bench.name, processor, {
      connection: bench.connection,
      ...options,
      lease: { resource: (job) => `customer:${job.data.key}`, manager: bench.manager(), ...lease },
    }),
  );
}

function hold(bench: Bench, key: string): Promise<Lease> {
  return bench.manager().acquire(`customer:${key}`);
}

/** Resolves when this many jobs have been put back. */
async function parked(bench: Bench, count: number): Promise<void> {
  await expect.poll(() => bench.queue.getDelayedCount()).toBe(count);
}

describe('with leases there still are', () => {
  test('rates: a busy job uses them too, and none is exceeded', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'busy');
    const starts: number[] = [];
    const its = worker(bench, () => void starts.push(performance.now()), {
      concurrency: 5,
      limiter: { max: 4, duration: 200 },
    });
    const free = emitted(its, 'completed', 8);
    const all = emitted(its, 'completed', 9);
    await bench.add({ key: 'busy' });
    for (let n = 0; n < 8; n++) await bench.add({ key: n });
    await free;
    await held.release();
    await all;
    // Nine starts need three windows, so a whole one lies between the first and the last.
    expect(starts).toHaveLength(9);
    expect((starts[8] as number) - (starts[0] as number)).toBeGreaterThan(180);
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });

  test('priorities, also for a job that comes back', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'busy');
    const order: unknown[] = [];
    const its = worker(bench, (job) => order.push(job.data.key));
    const completed = emitted(its, 'completed', 3);
    const urgent = await bench.add({ key: 'busy' }, { priority: 1 });
    await parked(bench, 1);
    await its.pause();
    await bench.add({ key: 'second' }, { priority: 2 });
    await bench.add({ key: 'third' }, { priority: 3 });
    await held.release();
    await expect.poll(() => urgent.getState()).toBe('prioritized');
    await its.resume();
    await completed;
    expect(order).toEqual(['busy', 'second', 'third']);
  });

  test('delays', async () => {
    await using bench = new Bench(redisUrl);
    const its = worker(bench, () => Date.now());
    const completed = emitted(its, 'completed');
    const job = await bench.add({ key: 'a' }, { delay: 150 });
    const [args] = await completed;
    expect(args?.[1]).toBeGreaterThanOrEqual(job.timestamp + 145);
  });

  test('job schedulers: each iteration runs once, those that were busy as well', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'a');
    const its = worker(bench, (job) => job.id);
    await bench.queue.upsertJobScheduler('often', { every: 60, limit: 5 }, { name: 'job', data: { key: 'a' } });
    const completed = emitted(its, 'completed', 5);
    await emitted(its, 'leaseBusy', 2);
    await held.release();
    const ids = (await completed).map(([, id]) => id);
    expect(new Set(ids).size).toBe(5);
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });

  test('flows: a parent waits for its children, all of one resource', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'a');
    const order: string[] = [];
    const its = worker(
      bench,
      async (job) => {
        order.push(job.name);
        const values = await job.getChildrenValues<number>();
        return Object.values(values).reduce((sum, value) => sum + value, 1);
      },
      { concurrency: 4 },
    );
    const completed = emitted(its, 'completed', 4);
    const flows = bench.closing(new FlowProducer({ connection: bench.connection }));
    const child = { name: 'child', data: { key: 'a' }, queueName: bench.name };
    const { job: parent } = await flows.add({
      ...child,
      name: 'parent',
      children: [child, child, { ...child, data: { key: 'b' } }],
    });
    await parked(bench, 2);
    expect(await parent.getState()).toBe('waiting-children');
    await held.release();
    await completed;
    expect(order).toEqual(['child', 'child', 'child', 'parent']);
    expect((await bench.stored(parent)).returnvalue).toBe(4);
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });

  test('deduplication: what was put back still stands for what is added meanwhile', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'a');
    const its = worker(bench, (job) => job.data.n);
    const deduplication = { id: 'once' };
    const completed = emitted(its, 'completed', 2);
    const first = await bench.add({ key: 'a', n: 1 }, { deduplication });
    await parked(bench, 1);
    expect((await bench.add({ key: 'a', n: 2 }, { deduplication })).id).toBe(first.id);
    const once = emitted(its, 'completed');
    await held.release();
    await once;
    await bench.add({ key: 'a', n: 3 }, { deduplication });
    expect((await completed).map(([, value]) => value)).toEqual([1, 3]);
  });

  test('deduplication that keeps the last while the first is active', async () => {
    await using bench = new Bench(redisUrl);
    const [started, gate] = [new Gate(), new Gate()];
    const its = worker(bench, async (job) => {
      started.open();
      await gate.opened;
      return job.data.n as number;
    });
    const deduplication = { id: 'once', keepLastIfActive: true };
    const completed = emitted(its, 'completed', 2);
    for (const n of [1, 2, 3]) {
      await bench.add({ key: 'a', n }, { deduplication });
      await started.opened;
    }
    gate.open();
    expect((await completed).map(([, value]) => value)).toEqual([1, 3]);
  });

  test('attempts and backoff: only runs that fail use them', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'a');
    const startedAt: number[] = [];
    const its = worker(bench, (job) => {
      startedAt.push(Date.now());
      if (job.attemptsMade < 2) throw new Error(`try ${job.attemptsMade}`);
      return 'done';
    });
    const completed = emitted(its, 'completed');
    const job = await bench.add({ key: 'a' }, { attempts: 3, backoff: { type: 'exponential', delay: 100 } });
    await parked(bench, 1);
    await held.release();
    await completed;
    const [first = 0, second = 0, third = 0] = startedAt;
    expect(second - first).toBeGreaterThanOrEqual(95);
    expect(third - second).toBeGreaterThanOrEqual(195);
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 3, attemptsStarted: 4 });
    expect(bench.failures.map(({ message }) => message)).toEqual(['try 0', 'try 1']);
  });

  test('jobs that are removed when they end', async () => {
    await using bench = new Bench(redisUrl);
    const its = worker(bench, (job) => {
      if (job.data.key === 'fails') throw new Error('mine');
    });
    const [completed, failed] = [emitted(its, 'completed'), emitted(its, 'failed')];
    const options = { removeOnComplete: true, removeOnFail: true };
    const jobs = [await bench.add({ key: 'a' }, options), await bench.add({ key: 'fails' }, options)];
    await Promise.all([completed, failed]);
    for (const job of jobs) await expect.poll(() => job.getState()).toBe('unknown');
    expect(bench.errors).toEqual([]);
  });

  test('a limit of starts, where a busy job does not use them', async () => {
    await using bench = new Bench(redisUrl);
    const options = { maxStartedAttempts: 2 };
    expect(() => worker(bench, () => 1, options)).toThrow(/maxStartedAttempts/);
    const held = await hold(bench, 'a');
    const its = worker(bench, () => 1, options, { whenBusy: 'hold' });
    const completed = emitted(its, 'completed');
    await bench.add({ key: 'a' });
    await emitted(its, 'active');
    await held.release();
    await completed;
  });

  test('a concurrency that changes while it runs', async () => {
    await using bench = new Bench(redisUrl);
    const gate = new Gate();
    const its = worker(bench, () => gate.opened);
    await its.waitUntilReady();
    its.concurrency = 3;
    const three = emitted(its, 'leaseAcquired', 3);
    const completed = emitted(its, 'completed', 3);
    for (let n = 0; n < 3; n++) await bench.add({ key: n });
    await three;
    gate.open();
    await completed;
  });

  test('pauses: what comes back waits for the end of them, of the worker and of the queue', async () => {
    await using bench = new Bench(redisUrl);
    const held = await hold(bench, 'a');
    const ran: unknown[] = [];
    const its = worker(bench, (job) => ran.push(job.id));
    const completed = emitted(its, 'completed', 2);
    const jobs = [await bench.add({ key: 'a' }), await bench.add({ key: 'a' })];
    await parked(bench, 2);
    await bench.queue.pause();
    await its.pause();
    await held.release();
    await parked(bench, 1);
    await its.resume();
    await sleep(100);
    expect(ran).toEqual([]);
    await bench.queue.resume();
    await completed;
    expect(ran).toEqual(jobs.map(({ id }: Job) => id));
  });
});
