import { setTimeout as sleep } from 'node:timers/promises';
import { leased, LeasedWorker, withLease } from '@leasehold/bullmq';
import { currentLease, type Holder } from '@leasehold/core';
import { DelayedError, Worker, type Job } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { aborted, Bench, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

describe('jobs of one resource', () => {
  test('run one at a time over three workers, each with a larger token', async () => {
    await using bench = new Bench(redisUrl);
    const keys = ['a', 'b', 'c', 'd'];
    const counters = new Map(keys.map((key) => [key, 0]));
    const tokens = new Map<string, number[]>(keys.map((key) => [key, []]));
    const workers = [1, 2, 3].map(() =>
      bench.worker(
        new LeasedWorker(
          bench.name,
          async (job) => {
            const { key } = job.data as { key: string };
            expect(currentLease()).toBe(job.lease);
            tokens.get(key)?.push(job.lease.fencingToken);
            // Nothing guards this but the lease.
            const before = counters.get(key) as number;
            await sleep(Math.random() * 5);
            counters.set(key, before + 1);
          },
          {
            connection: bench.connection,
            concurrency: 5,
            lease: { resource: (job) => `customer:${job.data.key}`, manager: bench.manager() },
          },
        ),
      ),
    );
    const completed = emitted(workers, 'completed', 80);
    await bench.queue.addBulk(Array.from({ length: 80 }, (_, n) => ({ name: 'job', data: { key: keys[n % 4] } })));
    const jobs = (await completed).map(([job]) => job as Job);

    expect([...counters.values()]).toEqual([20, 20, 20, 20]);
    for (const its of tokens.values()) expect(its).toEqual([...new Set(its)].toSorted((a, b) => a - b));
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true);
    expect(jobs.some((job) => job.attemptsStarted > 1)).toBe(true);
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('that are busy go back without an attempt, and do not stand in the way of others', async () => {
    await using bench = new Bench(redisUrl);
    const elsewhere = bench.manager();
    const held = await elsewhere.acquire('customer:busy');
    const worker = bench.worker(
      new LeasedWorker(bench.name, async (job) => job.data.key as string, {
        connection: bench.connection,
        autorun: false,
        lease: { resource: (job) => `customer:${job.data.key}`, manager: bench.manager() },
      }),
    );
    const busy = emitted(worker, 'leaseBusy', 6);
    const freeDone = emitted(worker, 'completed', 10);
    const allDone = emitted(worker, 'completed', 13);
    const blocked = await Promise.all([1, 2, 3].map(() => bench.add({ key: 'busy' })));
    for (let n = 0; n < 10; n++) await bench.add({ key: `free-${n}` });
    void worker.run();

    expect((await freeDone).map(([job]) => (job as Job).data.key)).not.toContain('busy');
    const [first] = await busy;
    const [job, holder, remainingMs] = first as [Job, Holder, number];
    expect(job.data.key).toBe('busy');
    expect(holder).toMatchObject({ fencingToken: held.fencingToken });
    expect(remainingMs).toBeGreaterThan(20_000);
    for (const its of blocked) expect(await bench.stored(its)).toMatchObject({ attemptsMade: 0 });

    await held.release();
    await allDone;
    for (const its of blocked) {
      const { attemptsMade, attemptsStarted } = await bench.stored(its);
      expect(attemptsMade).toBe(1);
      expect(attemptsStarted).toBeGreaterThan(1);
    }
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });
});

describe('the resource of a job', () => {
  test('fails the job for good when a value is missing in its name', async () => {
    await using bench = new Bench(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'ran', {
        connection: bench.connection,
        lease: { resource: (job) => `customer:${job.data.key}`, manager: bench.manager() },
      }),
    );
    const failed = emitted(worker, 'failed');
    const job = await bench.add({}, { attempts: 3 });
    await failed;
    const { failedReason, attemptsMade } = await bench.stored(job);
    expect(failedReason).toMatch(/^CONFIG: lease\.resource: "customer:undefined"/);
    expect(attemptsMade).toBe(1);
  });

  test('fails the job in the usual way when its function throws', async () => {
    await using bench = new Bench(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'ran', {
        connection: bench.connection,
        lease: { resource: (job) => job.data.customer.id, manager: bench.manager() },
      }),
    );
    const failed = emitted(worker, 'failed', 2);
    const job = await bench.add({}, { attempts: 2 });
    await failed;
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 2 });
  });

  test('may be none: then there is a signal but no lease', async () => {
    await using bench = new Bench(redisUrl);
    const gate = new Gate();
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job, _, signal) => {
          gate.open();
          const { message } = await aborted(signal);
          return [message, job.lease === undefined, currentLease() === undefined];
        },
        { connection: bench.connection, lease: { resource: () => null, manager: bench.manager() } },
      ),
    );
    const completed = emitted(worker, 'completed');
    const job = await bench.add({});
    await gate.opened;
    expect(worker.cancelJob(job.id as string, 'enough')).toBe(true);
    const [args] = await completed;
    expect(args?.[1]).toEqual(['the job was cancelled: enough', true, true]);
  });
});

describe('BullMQ', () => {
  test('can cancel a job whose processor names no parameter, and the reason is an error', async () => {
    await using bench = new Bench(redisUrl);
    const gate = new Gate();
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (...args) => {
          gate.open();
          throw await aborted(args[2]);
        },
        { connection: bench.connection, lease: { resource: 'reports', manager: bench.manager() } },
      ),
    );
    const failed = emitted(worker, 'failed');
    const job = await bench.add({});
    await gate.opened;
    expect(worker.cancelJob(job.id as string, 'not wanted any more')).toBe(true);
    const [args] = await failed;
    expect(args?.[1]).toMatchObject({
      code: 'RUN_CANCELLED',
      reason: 'caller',
      cause: { message: 'the job was cancelled: not wanted any more' },
    });
    expect((await bench.stored(job)).failedReason).toMatch(/^RUN_CANCELLED reports: caller/);
  });

  test('has the last word when a processor moves its job itself', async () => {
    await using bench = new Bench(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job, token) => {
          if (job.attemptsStarted > 1) return 'second time';
          await job.moveToDelayed(Date.now() + 60, token);
          throw new DelayedError();
        },
        { connection: bench.connection, lease: { resource: 'reports', manager: bench.manager() } },
      ),
    );
    const completed = emitted(worker, 'completed');
    const job = await bench.add({});
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second time', attemptsMade: 1, attemptsStarted: 2 });
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test("fails and tries again by the job's own rules", async () => {
    await using bench = new Bench(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        (job) => {
          if (job.attemptsMade === 0) throw new Error('not yet');
          return 'done';
        },
        { connection: bench.connection, lease: { resource: 'reports', manager: bench.manager() } },
      ),
    );
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 2 });
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'done', attemptsMade: 2 });
    expect(bench.failures.map(({ message }) => message)).toEqual(['not yet']);
  });
});

describe('events', () => {
  test('cannot break a run', async () => {
    await using bench = new Bench(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'done', {
        connection: bench.connection,
        lease: { resource: 'reports', manager: bench.manager() },
      }),
    );
    let last = '';
    worker.on('leaseAcquired', () => {
      throw new Error('thrown by a listener');
    });
    worker.on('leaseAcquired', async () => {
      throw new Error('rejected by a listener');
    });
    worker.on('leaseAcquired', (job) => (last = job.lease.resource));
    const completed = emitted(worker, 'completed');
    await bench.add({});
    await completed;
    expect(last).toBe('reports');
    expect(bench.errors.map(({ message }) => message)).toEqual(['thrown by a listener', 'rejected by a listener']);
    expect(bench.failures).toEqual([]);
  });
});

describe('closing', () => {
  test('a worker waits for its job and gives the resource back', async () => {
    await using bench = new Bench(redisUrl);
    const [started, gate] = [new Gate(), new Gate()];
    const manager = bench.manager();
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async () => {
          started.open();
          await gate.opened;
          return 'done';
        },
        { connection: bench.connection, lease: { resource: 'reports', manager } },
      ),
    );
    const job = await bench.add({});
    await started.opened;
    const closed = worker.close();
    gate.open();
    await closed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'done' });
    await using next = await manager.tryAcquire('reports');
    expect(next.acquired).toBe(true);
  });

  test('the manager first: what runs ends well, what comes goes to another worker', async () => {
    await using bench = new Bench(redisUrl);
    const [started, gate] = [new Gate(), new Gate()];
    const manager = bench.manager();
    const options = { connection: bench.connection };
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async () => {
          started.open();
          await gate.opened;
          return 'first worker';
        },
        { ...options, lease: { resource: 'reports', manager } },
      ),
    );
    const completed = emitted(worker, 'completed');
    const first = await bench.add({});
    await started.opened;
    const closed = manager.close();
    gate.open();
    await closed;
    await completed;

    const troubled = emitted(worker, 'error');
    const second = await bench.add({});
    const [args] = await troubled;
    expect(args?.[0]).toMatchObject({ code: 'MANAGER_CLOSED' });
    await worker.close();
    expect(await second.getState()).toBe('waiting');

    const other = bench.worker(
      new LeasedWorker(bench.name, () => 'second worker', {
        ...options,
        lease: { resource: 'reports', manager: bench.manager() },
      }),
    );
    const taken = emitted(other, 'completed');
    await taken;
    expect(await bench.stored(first)).toMatchObject({ returnvalue: 'first worker', attemptsMade: 1 });
    expect(await bench.stored(second)).toMatchObject({ returnvalue: 'second worker', attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });
});

describe('without a manager', () => {
  test('workers of one connection share one, which closes with the last of them', async () => {
    await using server = await startRedis();
    await using raw = await connectRedis(server.url);
    await using bench = new Bench(server.url);
    await bench.queue.waitUntilReady();
    const clients = async (): Promise<number> => {
      const list = (await raw.client('LIST')) as string;
      return list.trim().split('\n').length;
    };
    const before = await clients();

    const connection = { url: server.url };
    const make = (): LeasedWorker =>
      bench.worker(
        new LeasedWorker(bench.name, () => 'done', {
          connection,
          lease: { resource: (job) => `customer:${job.data.key}` },
        }),
      );
    const first = make();
    const done = emitted(first, 'completed');
    await bench.add({ key: 1 });
    await done;
    expect(await raw.exists('leasehold:{customer:1}')).toBe(1);
    const withOne = await clients();
    const second = make();
    await second.waitUntilReady();
    // BullMQ's own two and no more.
    expect(await clients()).toBe(withOne + 2);

    await first.close();
    const doneBySecond = emitted(second, 'completed');
    await bench.add({ key: 2 });
    await doneBySecond;
    await second.close();
    await expect.poll(clients).toBe(before);
    expect(bench.failures).toEqual([]);
  });

  test('one is made from a client as well, which is left alone', async () => {
    await using bench = new Bench(redisUrl);
    await using client = await connectRedis(redisUrl, { maxRetriesPerRequest: null });
    const resource = bench.prefix;
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'done', { connection: client, lease: { resource } }),
    );
    const done = emitted(worker, 'completed');
    await bench.add({});
    await done;
    expect(await client.exists(`leasehold:{${resource}}`)).toBe(1);
    await worker.close();
    expect(client.status).toBe('ready');
  });
});

describe('beside LeasedWorker', () => {
  test('leased() gives a processor to a plain Worker', async () => {
    await using bench = new Bench(redisUrl);
    const processor = leased<{ key: string }, number>(
      async (job) => {
        expect(currentLease()).toBe(job.lease);
        return job.lease.fencingToken;
      },
      { resource: (job) => `customer:${job.data.key}`, manager: bench.manager() },
    );
    const worker = bench.worker(new Worker(bench.name, processor, { connection: bench.connection, concurrency: 3 }));
    const completed = emitted(worker, 'completed', 3);
    for (let n = 0; n < 3; n++) await bench.add({ key: 'a' });
    const tokens = (await completed).map(([, token]) => token as number);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    expect(bench.failures).toEqual([]);
  });

  test('withLease() leases the jobs of somebody else’s worker class', async () => {
    await using bench = new Bench(redisUrl);
    class Traced extends Worker {
      readonly traced: string[] = [];
      protected override async callProcessJob(job: Job, token: string, signal?: AbortSignal): Promise<unknown> {
        this.traced.push(`${job.data.key} held: ${currentLease()?.isHeld()}`);
        return super.callProcessJob(job, token, signal);
      }
    }
    const LeasedTraced = withLease(Traced, { manager: bench.manager() });
    const worker = bench.worker(
      new LeasedTraced(bench.name, (job) => job.lease.resource, {
        connection: bench.connection,
        lease: { resource: (job) => `customer:${job.data.key}` },
      }),
    );
    const completed = emitted(worker, 'completed');
    await bench.add({ key: 'a' });
    const [args] = await completed;
    expect(args?.[1]).toBe('customer:a');
    expect(worker.traced).toEqual(['a held: true']);
  });
});
