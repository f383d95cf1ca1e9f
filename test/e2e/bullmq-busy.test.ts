import { setTimeout as sleep } from 'node:timers/promises';
import { LeasedWorker, type LeaseOptions, type SkippedResult } from '@leasehold/bullmq';
import { Worker, type Job } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { Bench, emitted } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

interface Data {
  readonly key: string;
}

function resource(job: Job<Data>): string {
  return `customer:${job.data.key}`;
}

describe('a job that was put back because its resource was busy', () => {
  test('comes back when the resource is free, not when its delay is over', async () => {
    await using bench = new Bench(redisUrl);
    const held = await bench.manager().acquire('customer:a');
    const started: number[] = [];
    const worker = bench.worker(
      new LeasedWorker<Data>(bench.name, () => void started.push(Date.now()), {
        connection: bench.connection,
        lease: { resource, manager: bench.manager() },
      }),
    );
    const busy = emitted(worker, 'leaseBusy');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ key: 'a' });
    await busy;
    await expect.poll(() => job.getState()).toBe('delayed');
    const { delay } = await bench.stored(job);
    const releasedAt = Date.now();
    await held.release();
    await completed;
    expect(delay).toBeGreaterThanOrEqual(750);
    expect((started[0] as number) - releasedAt).toBeLessThan(delay - 300);
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1, attemptsStarted: 2 });
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('is one of many that come one after the other, in whichever process, each after a few starts', async () => {
    await using bench = new Bench(redisUrl);
    let running = 0;
    let most = 0;
    const workers = [1, 2].map(() =>
      bench.worker(
        new LeasedWorker<Data>(
          bench.name,
          async () => {
            most = Math.max(most, ++running);
            await sleep(5);
            running--;
          },
          { connection: bench.connection, concurrency: 5, lease: { resource, manager: bench.manager() } },
        ),
      ),
    );
    const completed = emitted(workers, 'completed', 60);
    await bench.queue.addBulk(Array.from({ length: 60 }, () => ({ name: 'job', data: { key: 'a' } })));
    const jobs = (await completed).map(([job]) => job as Job);
    expect(most).toBe(1);
    expect(jobs.every(({ attemptsMade }) => attemptsMade === 1)).toBe(true);
    const starts = jobs.reduce((sum, { attemptsStarted }) => sum + attemptsStarted, 0);
    expect(starts / jobs.length).toBeLessThan(5);
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('does not stand in the way of others, which are done as if it were not there', async () => {
    await using bench = new Bench(redisUrl);
    const held = await bench.manager().acquire('customer:busy');
    const worker = bench.worker(
      new LeasedWorker<Data>(bench.name, () => sleep(10), {
        connection: bench.connection,
        concurrency: 3,
        autorun: false,
        lease: { resource, manager: bench.manager() },
      }),
    );
    const free = emitted(worker, 'completed', 40);
    const all = emitted(worker, 'completed', 46);
    const blocked = await Promise.all(Array.from({ length: 6 }, () => bench.add({ key: 'busy' })));
    await bench.queue.addBulk(Array.from({ length: 40 }, (_, n) => ({ name: 'job', data: { key: `free-${n}` } })));
    void worker.run();
    const done = (await free).map(([job]) => (job as Job<Data>).data.key);
    expect(done).not.toContain('busy');
    for (const job of blocked) expect((await bench.stored(job)).attemptsStarted).toBe(1);
    await held.release();
    await all;
    expect(bench.failures).toEqual([]);
  });

  test('comes back when its worker closes, so that another process can wait for it', async () => {
    await using bench = new Bench(redisUrl);
    const held = await bench.manager().acquire('customer:a');
    const options = { connection: bench.connection };
    const first = bench.worker(
      new LeasedWorker<Data>(bench.name, () => 'first', { ...options, lease: { resource, manager: bench.manager() } }),
    );
    const busy = emitted(first, 'leaseBusy');
    const job = await bench.add({ key: 'a' });
    await busy;
    await expect.poll(() => job.getState()).toBe('delayed');
    await first.close();
    expect(await job.getState()).toBe('waiting');

    const second = bench.worker(
      new LeasedWorker<Data>(bench.name, () => 'second', { ...options, lease: { resource, manager: bench.manager() } }),
    );
    const completed = emitted(second, 'completed');
    await emitted(second, 'leaseBusy');
    await held.release();
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second', attemptsMade: 1 });
  });
});

describe('a delay that somebody else has set', () => {
  const FAR_MS = 60_000;

  /** A job that was put back, by a worker that is told when its resource is free. */
  async function putBack(bench: Bench) {
    const held = await bench.manager().acquire('customer:a');
    const manager = bench.manager();
    const worker = bench.worker(
      new LeasedWorker<Data>(bench.name, () => 'ran', { connection: bench.connection, lease: { resource, manager } }),
    );
    const busy = emitted(worker, 'leaseBusy');
    const job = await bench.add({ key: 'a' }, { jobId: 'debounced' });
    await busy;
    await expect.poll(() => job.getState()).toBe('delayed');
    /** The worker has heard that the resource is free, and has made of it what it does. */
    const heard = async (): Promise<void> => {
      const free = new Promise<void>((resolve) => manager.once('free', () => resolve()));
      await held.release();
      await free;
      // Last of all it passes the message on, as it has nobody to bring back.
      const probe = bench.manager();
      await expect
        .poll(async () => (await probe.inspect('customer:a'))?.fencingToken)
        .toBeGreaterThan(held.fencingToken);
    };
    return { held, worker, job, heard };
  }

  const ways: Record<string, (bench: Bench, job: Job<Data>) => Promise<unknown>> = {
    'by adding the job again': async (bench, job) => {
      await job.remove();
      return bench.add({ key: 'a' }, { jobId: 'debounced', delay: FAR_MS });
    },
    'by adding the job again for another resource': async (bench, job) => {
      await job.remove();
      return bench.add({ key: 'b' }, { jobId: 'debounced', delay: FAR_MS });
    },
    'by changing it': (_, job) => job.changeDelay(FAR_MS),
    'by the backoff of a run elsewhere': async (bench, job) => {
      const elsewhere = new Worker(bench.name, () => Promise.reject(new Error('once')), {
        connection: bench.connection,
        autorun: false,
        settings: { backoffStrategy: () => FAR_MS },
      });
      bench.closing(elsewhere);
      await job.promote();
      const its = await elsewhere.getNextJob('elsewhere');
      Object.assign(its as Job, { opts: { attempts: 2, backoff: { type: 'custom' } } });
      await (its as Job).moveToFailed(new Error('once'), 'elsewhere');
    },
  };

  test.each(Object.keys(ways))('%s is kept when the resource is free', async (way) => {
    await using bench = new Bench(redisUrl);
    const { worker, job, heard } = await putBack(bench);
    if (way.endsWith('elsewhere')) await worker.pause();
    await ways[way]?.(bench, job);
    await heard();
    const now = await bench.stored(job);
    expect([await now.getState(), now.delay]).toEqual(['delayed', FAR_MS]);
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });

  test.each(Object.keys(ways))('%s is kept when the worker closes', async (way) => {
    await using bench = new Bench(redisUrl);
    const { worker, job, held } = await putBack(bench);
    if (way.endsWith('elsewhere')) await worker.pause();
    await ways[way]?.(bench, job);
    await worker.close();
    const now = await bench.stored(job);
    expect([await now.getState(), now.delay]).toEqual(['delayed', FAR_MS]);
    await held.release();
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });
});

describe('whenBusy', () => {
  async function busyJob(bench: Bench, whenBusy: LeaseOptions['whenBusy']) {
    const held = await bench.manager().acquire('customer:a');
    const worker = bench.worker(
      new LeasedWorker<Data, number | SkippedResult>(bench.name, (job) => job.lease.fencingToken, {
        connection: bench.connection,
        lease: { resource, manager: bench.manager(), whenBusy: whenBusy ?? 'delay' },
      }),
    );
    return { held, worker };
  }

  test('`skip` completes the job, its result says why', async () => {
    await using bench = new Bench(redisUrl);
    const { held, worker } = await busyJob(bench, 'skip');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ key: 'a' });
    await completed;
    const { returnvalue, attemptsStarted } = await bench.stored(job);
    expect(returnvalue).toEqual({ skipped: 'busy', resource: 'customer:a' });
    expect(attemptsStarted).toBe(1);
    await held.release();
  });

  test("`fail` uses an attempt, and the job's backoff", async () => {
    await using bench = new Bench(redisUrl);
    const { held, worker } = await busyJob(bench, 'fail');
    const failed = emitted(worker, 'failed');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ key: 'a' }, { attempts: 2, backoff: { type: 'fixed', delay: 30 } });
    const [args] = await failed;
    expect(args?.[1]).toMatchObject({ code: 'RESOURCE_BUSY', holder: { fencingToken: held.fencingToken } });
    await held.release();
    await completed;
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 2 });
    expect(bench.errors).toEqual([]);
  });

  test('`hold` keeps the slot and waits in line', async () => {
    await using bench = new Bench(redisUrl);
    const { held, worker } = await busyJob(bench, 'hold');
    const active = emitted(worker, 'active');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ key: 'a' });
    await active;
    const probe = bench.manager();
    await expect.poll(async () => (await probe.inspect('customer:a'))?.waiting).toBe(1);
    await held.release();
    await completed;
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1, attemptsStarted: 1 });
  });

  test('`hold` ends when the job is cancelled, which fails it', async () => {
    await using bench = new Bench(redisUrl);
    const { held, worker } = await busyJob(bench, 'hold');
    const probe = bench.manager();
    const failed = emitted(worker, 'failed');
    const job = await bench.add({ key: 'a' }, { attempts: 1 });
    await expect.poll(async () => (await probe.inspect('customer:a'))?.waiting).toBe(1);
    worker.cancelJob(job.id as string, 'not wanted');
    await failed;
    expect(await job.getState()).toBe('failed');
    expect(await bench.stored(job)).toMatchObject({
      attemptsMade: 1,
      failedReason: expect.stringMatching(/^RUN_CANCELLED /),
    });
    await held.release();
    expect(bench.errors).toEqual([]);
  });

  test('`hold` ends with the worker, for another process', async () => {
    await using bench = new Bench(redisUrl);
    const { held, worker } = await busyJob(bench, 'hold');
    const probe = bench.manager();
    const job = await bench.add({ key: 'a' });
    await expect.poll(async () => (await probe.inspect('customer:a'))?.waiting).toBe(1);
    await worker.close();
    expect(await job.getState()).toBe('waiting');
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 0 });
    await expect.poll(async () => (await probe.inspect('customer:a'))?.waiting).toBe(0);
    await held.release();
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });
});
