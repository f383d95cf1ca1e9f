import { LeasedWorker, withLease, type LeasedProcessor, type LeaseOptions } from '@leasehold/bullmq';
import { installSchema } from '@leasehold/core/postgres';
import * as bullmq from 'bullmq';
import { createPostgresBackend, Queue, type Job, type Worker } from 'bullmq';
import { createClient } from 'redis';
import { describe, expect, inject, test } from 'vitest';
import { startChild, type Child } from '../support/child.ts';
import { FakeTime } from '../support/faketime.ts';
import { testNeeding } from '../support/needing.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { PostgresBench, PostgresWorker } from './fixtures/bullmq-postgres.ts';
import { aborted, emitted, Gate } from './fixtures/bullmq-setup.ts';

const [redisUrl, postgresUrl] = [inject('redisUrl'), inject('postgresUrl')];
/** 6.0.0 takes neither a client of node-redis as it is nor binds a class to a backend. */
const isLater = 'withBackend' in bullmq;

describe('a queue in PostgreSQL', () => {
  function leased(
    bench: PostgresBench,
    processor: LeasedProcessor,
    lease: Partial<LeaseOptions> = {},
    options = {},
  ): Worker {
    const manager = lease.manager ?? bench.manager();
    return bench.worker(
      new PostgresWorker(bench.name, processor, {
        connection: bench.pool,
        ...options,
        lease: { resource: (job) => `customer:${job.data.key}`, ...lease, manager },
      }) as unknown as Worker,
    );
  }

  test('has one job of a resource at a time, over all workers, and uses no attempts for it', async () => {
    await using bench = await PostgresBench.start(redisUrl, postgresUrl);
    const tokens = new Map<string, number[]>();
    let atOnce = 0;
    let most = 0;
    const workers = [1, 2].map(() =>
      leased(
        bench,
        async (job) => {
          most = Math.max(most, ++atOnce);
          const its = tokens.get(job.data.key) ?? [];
          tokens.set(job.data.key, [...its, job.lease.fencingToken]);
          await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
          expect(tokens.get(job.data.key)?.at(-1)).toBe(job.lease.fencingToken);
          atOnce--;
        },
        {},
        { concurrency: 5 },
      ),
    );
    const completed = emitted(workers, 'completed', 30);
    await bench.queue.addBulk(Array.from({ length: 30 }, (_, n) => ({ name: 'job', data: { key: 'abc'[n % 3] } })));
    const jobs = (await completed).map(([job]) => job as Job);
    for (const its of tokens.values()) expect(its).toEqual([...new Set(its)].toSorted((a, b) => a - b));
    expect(most).toBeGreaterThan(1);
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true);
    expect(jobs.some((job) => job.attemptsStarted > 1)).toBe(true);
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('gets a busy job back when its resource is free, not when its delay is over', async () => {
    await using bench = await PostgresBench.start(redisUrl, postgresUrl);
    const held = await bench.manager().acquire('customer:a');
    const worker = leased(bench, () => 'done');
    const completed = emitted(worker, 'completed');
    let busy = emitted(worker, 'leaseBusy');
    const job = await bench.add({ key: 'a' });
    // The delay grows, so that it is long enough to tell the two apart.
    for (let n = 0; n < 3; n++) {
      await busy;
      await expect.poll(() => job.getState()).toBe('delayed');
      busy = emitted(worker, 'leaseBusy');
      await job.promote();
    }
    await busy;
    await expect.poll(() => job.getState()).toBe('delayed');
    const putBackAt = Date.now();
    const { delay } = await bench.stored(job);
    await held.release();
    await completed;
    expect(delay).toBeGreaterThan(5000);
    const { processedOn, attemptsMade } = await bench.stored(job);
    expect(processedOn as number).toBeLessThan(putBackAt + delay - 1000);
    expect(attemptsMade).toBe(1);
    expect(bench.errors).toEqual([]);
  });

  test('leaves alone a delay that somebody else has set', async () => {
    await using bench = await PostgresBench.start(redisUrl, postgresUrl);
    const held = await bench.manager().acquire('customer:a');
    const worker = leased(bench, () => 'done');
    const jobs = [];
    for (const jobId of ['changed', 'added again']) {
      const busy = emitted(worker, 'leaseBusy');
      jobs.push(await bench.queue.add('job', { key: 'a' }, { jobId }));
      await busy;
    }
    for (const job of jobs) await expect.poll(() => job.getState()).toBe('delayed');
    await jobs[0]?.changeDelay(60_000);
    await jobs[1]?.remove();
    await bench.queue.add('job', { key: 'a' }, { jobId: 'added again', delay: 60_000 });
    await held.release();
    await worker.close();
    for (const job of jobs) {
      expect(await job.getState()).toBe('delayed');
      expect((await bench.stored(job)).delay).toBe(60_000);
    }
    expect(bench.errors).toEqual([]);
  });

  test('a job whose lease is lost runs again under a later one, without using an attempt', async () => {
    await using bench = await PostgresBench.start(redisUrl, postgresUrl);
    await using redis = await connectRedis(redisUrl);
    const tokens: number[] = [];
    const worker = leased(
      bench,
      async (job, _, signal) => {
        if (tokens.push(job.lease.fencingToken) > 1) return 'second run';
        await redis.del(`${bench.prefix}:{customer:a}`);
        await aborted(signal);
        return 'first run';
      },
      { manager: bench.manager({ ttl: 1000 }) },
    );
    const lost = emitted(worker, 'leaseLost');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({ key: 'a' }, { attempts: 1 });
    await lost;
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second run', attemptsMade: 1 });
    expect(tokens[1]).toBeGreaterThan(tokens[0] as number);
    expect(bench.failures).toEqual([]);
  });

  test('a worker that closes puts its job back for another one, which has the resource at once', async () => {
    await using bench = await PostgresBench.start(redisUrl, postgresUrl);
    const begun = new Gate();
    const first = leased(
      bench,
      async (_job, _token, signal) => {
        begun.open();
        throw await aborted(signal);
      },
      { grace: 0 },
    );
    const job = await bench.add({ key: 'a' }, { attempts: 1 });
    await begun.opened;
    await first.close();
    const second = leased(bench, () => 'second worker');
    await emitted(second, 'completed');
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second worker', attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });

  test('a worker in office gives its office to another when it closes', async () => {
    await using bench = await PostgresBench.start(redisUrl, postgresUrl);
    const office = { scope: 'worker', resource: 'payments' } as const;
    const first = leased(bench, () => 'first', office);
    const done = emitted(first, 'completed');
    await bench.add({});
    await done;
    const second = leased(bench, () => 'second', office);
    const elected = emitted(second, 'elected');
    await first.close();
    await elected;
    const doneBySecond = emitted(second, 'completed');
    await bench.add({});
    expect((await doneBySecond)[0]?.[1]).toBe('second');
    expect(bench.failures).toEqual([]);
  });

  if (isLater) {
    test('a class that BullMQ has bound to the backend can be leased as well', async () => {
      await using bench = await PostgresBench.start(redisUrl, postgresUrl);
      const Leased = withLease(bullmq.withBackend(createPostgresBackend).Worker, { manager: bench.manager() });
      const worker = new Leased(bench.name, (job) => job.lease.resource, {
        connection: bench.pool,
        lease: { resource: 'reports' },
      }) as unknown as Worker;
      const completed = emitted(bench.worker(worker), 'completed');
      await bench.add({});
      expect((await completed)[0]?.[1]).toBe('reports');
    });
  }

  testNeeding(
    'libfaketime',
    'a worker whose clock is ahead takes a healthy job, and the fence keeps both apart',
    async () => {
      await using bench = await PostgresBench.start(redisUrl, postgresUrl);
      await installSchema(bench.pool);
      await bench.pool.query('create table writes (n serial, writer text)');
      using clock = new FakeTime();
      clock.step(60_000);
      const member = (name: string, env = {}): Child =>
        startChild(new URL('fixtures/bullmq-postgres-worker.ts', import.meta.url), {
          env: {
            REDIS_URL: redisUrl,
            POSTGRES_URL: bench.url,
            QUEUE: bench.name,
            PREFIX: bench.prefix,
            NAME: name,
            ...env,
          },
        });
      await using honest = member('honest');
      await honest.next('ready');
      const job = await bench.add({ key: 'a' }, { attempts: 1 });
      const { fencingToken } = await honest.next('started');
      await using ahead = member('ahead', clock.env);
      // BullMQ has given it the job, whose lock has 30 s to go. Its lease is held elsewhere.
      await ahead.next('busy');
      honest.send('write');
      expect(await honest.next('wrote')).toMatchObject({ code: undefined });
      honest.send('end');
      const second = await ahead.next('started', { timeoutMs: 40_000 });
      expect(second['fencingToken']).toBeGreaterThan(fencingToken as number);
      honest.send('write');
      expect(await honest.next('wrote')).toMatchObject({ code: 'STALE_TOKEN' });
      ahead.send('write');
      expect(await ahead.next('wrote')).toMatchObject({ code: undefined });
      ahead.send('end');
      await ahead.next('completed');
      const { rows } = await bench.pool.query<{ writer: string }>('select writer from writes order by n');
      expect(rows.map(({ writer }) => writer)).toEqual(['honest', 'ahead']);
      expect(await bench.stored(job)).toMatchObject({ returnvalue: 'ahead', attemptsMade: 1 });
      expect(honest.unread.filter(({ type }) => type === 'completed' || type === 'failed')).toEqual([]);
    },
  );
});

if (isLater) {
  describe('a client of node-redis', () => {
    test('does for the queue and for the leases, and is left open', async () => {
      await using redis = await connectRedis(redisUrl);
      const client = createClient({ url: redisUrl });
      client.on('error', () => {});
      await client.connect();
      const [name, resource] = [uniqueName('jobs'), uniqueName('resource')];
      const queue = new Queue(name, { connection: client });
      const worker = new LeasedWorker(name, (job) => job.lease.fencingToken, {
        connection: client,
        lease: { resource },
      });
      const completed = emitted(worker, 'completed');
      await queue.add('job', {});
      expect((await completed)[0]?.[1]).toBeGreaterThan(0);
      expect(await redis.exists(`leasehold:{${resource}}`)).toBe(1);
      await worker.close();
      await queue.close();
      expect(await client.ping()).toBe('PONG');
      client.destroy();
    });
  });
}
