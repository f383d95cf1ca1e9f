import { LeasedWorker } from '@leasehold/bullmq';
import { describe, expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { startRedis } from '../support/redis-server.ts';
import { aborted, Bench, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

describe('when a server is down', () => {
  test('that of the leases: jobs are put back by the own clocks, and go on when it is back', async () => {
    await using leases = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    await using bench = new Bench(redisUrl);
    const begun = new Gate();
    let runs = 0;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (_job, _token, signal) => {
          if (++runs > 1) return 'second run';
          begun.open();
          throw await aborted(signal);
        },
        {
          connection: bench.connection,
          lease: { resource: 'payments', scope: 'worker', manager: bench.manager({ ttl: 1000 }, leases.url) },
        },
      ),
    );
    const completed = emitted(worker, 'completed');
    const steppedDown = emitted(worker, 'steppedDown');
    const job = await bench.add({}, { attempts: 1 });
    await begun.opened;
    await leases.kill();
    expect((await steppedDown)[0]?.[1]).toMatchObject({ code: 'LEASE_LOST' });
    await leases.restart();
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second run', attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });

  test('that of the queue: the one in office stays, and jobs go on when it is back', async () => {
    await using jobs = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    await using bench = new Bench(jobs.url);
    const worker = bench.worker(
      new LeasedWorker(bench.name, (job) => job.lease.fencingToken, {
        connection: bench.connection,
        lease: { resource: 'payments', scope: 'worker', manager: bench.manager({ ttl: 1000 }, redisUrl) },
      }),
    );
    const terms: unknown[] = [];
    worker.on('elected', (lease) => terms.push(lease.fencingToken));
    const first = emitted(worker, 'completed');
    await bench.add({});
    await first;
    await jobs.kill();
    await jobs.restart();
    const second = emitted(worker, 'completed');
    await bench.add({});
    expect((await second)[0]?.[1]).toBe(terms[0]);
    expect(terms).toHaveLength(1);
    expect(bench.failures).toEqual([]);
  });

  test.each([
    'that of both',
    'that of both is not down but silent',
    'that of the queue, while the one in office is told to step down',
  ] as const)('%s: jobs go on when it is back', async (which) => {
    await using jobs = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    await using bench = new Bench(jobs.url);
    bench.queue.on('error', () => {});
    const isOfBoth = which.startsWith('that of both');
    const manager = bench.manager({ ttl: 1000 }, isOfBoth ? jobs.url : redisUrl);
    const begun = new Gate();
    let runs = 0;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job, _token, signal) => {
          if (++runs > 1) return job.lease.fencingToken;
          begun.open();
          throw await aborted(signal);
        },
        {
          connection: bench.connection,
          concurrency: 2,
          lockDuration: 1000,
          stalledInterval: 500,
          lease: { resource: 'payments', scope: 'worker', manager },
        },
      ),
    );
    const tokens: number[] = [];
    worker.on('elected', (lease) => tokens.push(lease.fencingToken));
    const steppedDown = emitted(worker, 'steppedDown');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 1 });
    await begun.opened;
    const isSilent = which.endsWith('silent');
    await (isSilent ? jobs.pause() : jobs.kill());
    if (!isOfBoth) await manager.revoke('payments');
    await steppedDown;
    await (isSilent ? jobs.resume() : jobs.restart());
    expect((await completed)[0]?.[1]).toBe(tokens.at(-1));
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1 });
    expect(tokens).toHaveLength(2);
    expect(bench.failures).toEqual([]);
  });

  // Half of its time is that of a patience that must run out.
  if (process.env['LEASEHOLD_LONG'] === '1') {
    test('that of the queue: the worker closes all the same, gives its lease back, and lets the process end', async () => {
      await using jobs = await startRedis();
      await using bench = new Bench(jobs.url);
      bench.queue.on('error', () => {});
      const manager = bench.manager({ ttl: 5000 }, redisUrl);
      await using child = startChild(new URL('fixtures/bullmq-scope-worker.ts', import.meta.url), {
        env: {
          REDIS_URL: redisUrl,
          JOBS_URL: jobs.url,
          QUEUE: bench.name,
          PREFIX: bench.prefix,
          TTL_MS: '5000',
        },
      });
      await bench.add({ workMs: 60_000 });
      await expect.poll(() => child.unread.some(({ kind }) => kind === 'first'), { timeout: 10_000 }).toBe(true);
      await jobs.kill();
      const from = performance.now();
      child.send('do', { op: 'end' });
      await expect.poll(async () => (await manager.inspect('payments'))?.state, { timeout: 5000 }).toBe('free');
      expect(await child.exit).toEqual({ code: 0, signal: null });
      expect(performance.now() - from).toBeLessThan(12_000);
      await jobs.restart();
    });
  }
});
