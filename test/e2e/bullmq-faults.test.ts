import { LeasedWorker } from '@leasehold/bullmq';
import type { LeaseLostError } from '@leasehold/core';
import { redisFence } from '@leasehold/core/redis';
import type { Job } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { aborted, Bench, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');
const TTL_MS = 1500;
const REFRESH_MS = 500;

describe('a lease that is lost in mid-job', () => {
  test('aborts the signal within a refresh interval; the job runs again and is completed once', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const tokens: number[] = [];
    let noticedMs = Infinity;
    let reason: Error | undefined;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job, _, signal) => {
          tokens.push(job.lease.fencingToken);
          if (tokens.length > 1) return 'second run';
          const from = performance.now();
          await raw.del(`${bench.prefix}:{reports}`);
          reason = await aborted(signal);
          noticedMs = performance.now() - from;
          // As if it had not heard.
          return 'first run';
        },
        { connection: bench.connection, lease: { resource: 'reports', manager: bench.manager({ ttl: TTL_MS }) } },
      ),
    );
    const losses: LeaseLostError[] = [];
    worker.on('leaseLost', (_, error) => losses.push(error));
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 1 });
    await completed;

    expect(noticedMs).toBeLessThan(REFRESH_MS + 200);
    expect(reason).toMatchObject({ code: 'LEASE_LOST', reason: 'missing', fencingToken: tokens[0] });
    expect(losses).toEqual([reason]);
    expect(tokens[1]).toBeGreaterThan(tokens[0] as number);
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second run', attemptsMade: 1, attemptsStarted: 2 });
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test.each(['lease', 'grant'] as const)('does not let a run write that does not listen, by its %s', async (by) => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const ledger = redisFence(raw, { name: 'ledger' });
    const balance = `{${bench.prefix}/reports}:balance`;
    const [stolen, written] = [new Gate(), new Gate()];
    const refusals: unknown[] = [];
    const worker = bench.worker(
      new LeasedWorker<{ who: string }>(
        bench.name,
        async (job) => {
          const { who } = job.data;
          const holder = by === 'lease' ? job.lease : job.lease.grant;
          const write = () => ledger.write(holder, (tx) => void tx.call('RPUSH', balance, who));
          if (who === 'first' && job.attemptsStarted === 1) {
            await raw.del(`${bench.prefix}:{reports}`);
            stolen.open();
            await written.opened;
            await write().catch((error: unknown) => {
              refusals.push(error);
              throw error;
            });
          }
          await write();
          written.open();
        },
        {
          connection: bench.connection,
          concurrency: 2,
          lease: { resource: 'reports', fences: [ledger], manager: bench.manager({ ttl: TTL_MS }) },
        },
      ),
    );
    const lost = emitted(worker, 'leaseLost');
    const completed = emitted(worker, 'completed', 2);
    const first = await bench.add({ who: 'first' });
    await stolen.opened;
    await bench.add({ who: 'second' });
    await completed;
    expect(refusals).toEqual([expect.objectContaining({ code: 'STALE_TOKEN' })]);
    const [args] = await lost;
    expect(args?.[1]).toMatchObject({ code: 'LEASE_LOST', reason: 'fenced' });
    expect(await raw.lrange(balance, 0, -1)).toEqual(['second', 'first']);
    expect(await bench.stored(first)).toMatchObject({ attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });
});

describe('a lock of BullMQ that is lost in mid-job', () => {
  test('aborts the signal; the job is run again by BullMQ and completed once', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const reasons: Error[] = [];
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job, _, signal) => {
          if (reasons.length > 0) return 'second run';
          await raw.del(`bull:${bench.name}:${job.id}:lock`);
          reasons.push(await aborted(signal));
          throw reasons[0];
        },
        {
          connection: bench.connection,
          lockDuration: 1000,
          stalledInterval: 300,
          lease: { resource: 'reports', manager: bench.manager() },
        },
      ),
    );
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 1 });
    await completed;
    expect(reasons[0]).toMatchObject({
      code: 'RUN_CANCELLED',
      reason: 'caller',
      cause: { message: `BullMQ could not renew its lock of job ${job.id}` },
    });
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second run', attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });
});

describe('a job that BullMQ takes for stalled while it runs', () => {
  test('does not run beside itself in the same process, and is completed once', { timeout: 60_000 }, async () => {
    await using bench = new Bench(redisUrl);
    await using child = startChild(new URL('fixtures/bullmq-stall.ts', import.meta.url), {
      env: { REDIS_URL: redisUrl, QUEUE: bench.name, PREFIX: bench.prefix, LOCK_MS: '800' },
    });
    const job = await bench.add({}, { attempts: 1 });
    const { runs } = await child.next<{ runs: number }>('completed', { timeoutMs: 45_000 });
    const said = child.unread;
    expect(runs).toBe(2);
    expect(said.filter(({ type }) => type === 'started')).toMatchObject([{ atOnce: 1 }, { atOnce: 1 }]);
    expect(said.find(({ type }) => type === 'ended')).toMatchObject({
      run: 1,
      reason: expect.stringMatching(/^RUN_CANCELLED reports: caller/),
    });
    // What BullMQ itself says of the lock, and nothing of results that it refuses.
    const errors = said.filter(({ type }) => type === 'error' || type === 'failed').map(({ error }) => error);
    expect(new Set(errors)).toEqual(new Set([`could not renew lock for job ${job.id}`]));
    const { attemptsMade, attemptsStarted } = await bench.stored(job);
    expect(attemptsMade).toBe(1);
    expect(attemptsStarted).toBeGreaterThan(2);
  });
});

describe('a worker that is killed in mid-job', () => {
  test('is followed by another, with a larger token and no attempt used', async () => {
    await using bench = new Bench(redisUrl);
    await using child = startChild(new URL('fixtures/bullmq-worker.ts', import.meta.url), {
      env: { REDIS_URL: redisUrl, QUEUE: bench.name, PREFIX: bench.prefix },
    });
    const job = await bench.add({}, { attempts: 1 });
    const { fencingToken } = await child.next<{ fencingToken: number }>('started');
    await child.kill9();

    const worker = bench.worker(
      new LeasedWorker(bench.name, (its) => its.lease.fencingToken, {
        connection: bench.connection,
        lockDuration: 1000,
        stalledInterval: 300,
        lease: { resource: 'reports', manager: bench.manager({ ttl: TTL_MS }) },
      }),
    );
    const [args] = await emitted(worker, 'completed');
    expect(args?.[1]).toBeGreaterThan(fencingToken);
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });
});

describe('a lease store that goes down', () => {
  test('before a job: the job keeps its slot and runs when the store is back', async () => {
    // It remembers the resource, so nothing has to be waited out.
    await using leases = await startRedis({ args: ['--appendonly', 'yes', '--appendfsync', 'always'] });
    await using bench = new Bench(redisUrl);
    const manager = bench.manager({}, leases.url);
    await manager.run('reports', () => {});
    await leases.kill();
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'done', {
        connection: bench.connection,
        lease: { resource: 'reports', manager },
      }),
    );
    const active = emitted(worker, 'active');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 1 });
    await active;
    await leases.restart();
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'done', attemptsMade: 1, attemptsStarted: 1 });
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('before a job: a worker that closes puts the job back', async () => {
    await using leases = await startRedis();
    await using bench = new Bench(redisUrl);
    const manager = bench.manager({}, leases.url);
    await manager.run('reports', () => {});
    await leases.kill();
    const asked = new Gate();
    const resource = (): string => {
      setImmediate(asked.open);
      return 'reports';
    };
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'done', { connection: bench.connection, lease: { resource, manager } }),
    );
    const job = await bench.add({}, { attempts: 1 });
    await asked.opened;
    await worker.close();
    expect(await job.getState()).toBe('waiting');
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 0 });
    expect(bench.errors).toEqual([expect.objectContaining({ code: 'STORE_UNAVAILABLE' })]);
  });

  test('in mid-job: the loss is noticed without it, and the job runs again when it is back', async () => {
    await using leases = await startRedis();
    await using bench = new Bench(redisUrl);
    const down = new Gate();
    let runs = 0;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (_job, _token, signal) => {
          if (++runs > 1) return 'second run';
          await leases.kill();
          const reason = await aborted(signal);
          down.open();
          throw reason;
        },
        {
          connection: bench.connection,
          lease: { resource: 'reports', manager: bench.manager({ ttl: TTL_MS }, leases.url) },
        },
      ),
    );
    const lost = emitted(worker, 'leaseLost');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 1 });
    await down.opened;
    const [args] = await lost;
    expect(args?.[1]).toMatchObject({ code: 'LEASE_LOST' });
    await leases.restart();
    await completed;
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'second run', attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });
});

describe('a job that BullMQ starts again in another worker of the same process', () => {
  test.each([['reports'], [null]])('ends the first run and does not run beside it (resource %s)', async (resource) => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const lease = { resource: () => resource, manager: bench.manager() };
    const [begun, ended] = [new Gate(), new Gate()];
    const reasons: Error[] = [];
    let isRunning = false;
    const first = bench.worker(
      new LeasedWorker(
        bench.name,
        async (_job, _token, signal) => {
          isRunning = true;
          begun.open();
          reasons.push(await aborted(signal));
          await ended.opened;
          isRunning = false;
        },
        { connection: bench.connection, skipStalledCheck: true, lease },
      ),
    );
    const job = await bench.add({}, { attempts: 1 });
    await begun.opened;
    await raw.del(`bull:${bench.name}:${job.id}:lock`);
    await first.pause(true);
    const second = bench.worker(
      new LeasedWorker(bench.name, () => `beside the first: ${isRunning}`, {
        connection: bench.connection,
        stalledInterval: 100,
        lease,
      }),
    );
    const completed = emitted(second, 'completed');
    const [active] = await emitted(second, 'active');
    expect((active?.[0] as Job | undefined)?.attemptsStarted).toBe(2);
    await expect.poll(() => reasons.length).toBe(1);
    ended.open();
    const [reason] = reasons;
    expect(((reason?.cause as Error | undefined) ?? reason)?.message).toMatch(/^BullMQ started job 1 again/);
    expect((await completed)[0]?.[1]).toBe('beside the first: false');
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1 });
    expect(bench.failures).toEqual([]);
  });
});
