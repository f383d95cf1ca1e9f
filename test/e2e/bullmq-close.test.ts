import { LeasedWorker, type LeaseOptions } from '@leasehold/bullmq';
import type { RunCancelledError } from '@leasehold/core';
import { describe, expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { aborted, Bench, connectionOf, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

/** A worker whose first job goes on until its signal is aborted, and what that was. */
function oneJob(bench: Bench, end: (reason: Error) => unknown, lease: Partial<LeaseOptions> = {}) {
  const started = new Gate();
  const reasons: Error[] = [];
  const manager = bench.manager();
  const worker = bench.worker(
    new LeasedWorker(
      bench.name,
      async (_job, _token, signal) => {
        started.open();
        reasons.push(await aborted(signal));
        return end(reasons[0] as Error);
      },
      { connection: bench.connection, lease: { resource: 'reports', manager, ...lease } },
    ),
  );
  return { worker, manager, started: started.opened, reasons };
}

function raise(error: unknown): never {
  throw error;
}

describe('a worker that closes', () => {
  test('aborts its job after the grace, not before, and puts it back for others without an attempt', async () => {
    await using bench = new Bench(redisUrl);
    const { worker, manager, started, reasons } = oneJob(bench, raise, { grace: 200 });
    const job = await bench.add({}, { attempts: 1 });
    await started;
    const from = performance.now();
    await worker.close();
    expect(performance.now() - from).toBeGreaterThanOrEqual(195);
    expect(reasons).toEqual([
      expect.objectContaining({ code: 'RUN_CANCELLED', reason: 'shutdown', resource: 'reports' }),
    ]);
    expect((reasons[0] as RunCancelledError).fencingToken).toBeGreaterThan(0);
    expect(await job.getState()).toBe('waiting');
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 0 });
    await using next = await manager.tryAcquire('reports');
    expect(next.acquired).toBe(true);
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });

  test('counts what its job returns, and what it tells BullMQ', async () => {
    await using bench = new Bench(redisUrl);
    const { worker, started } = oneJob(bench, () => 'wound up', { grace: 0 });
    const job = await bench.add({});
    await started;
    await worker.close();
    expect(await bench.stored(job)).toMatchObject({ returnvalue: 'wound up', attemptsMade: 1 });
  });

  test('aborts jobs without a lease as well', async () => {
    await using bench = new Bench(redisUrl);
    const { worker, started, reasons } = oneJob(bench, () => raise(new Error('cut off')), {
      grace: 0,
      resource: () => null,
    });
    const job = await bench.add({}, { attempts: 1 });
    await started;
    await worker.close();
    expect(reasons).toEqual([expect.objectContaining({ code: 'RUN_CANCELLED', reason: 'shutdown' })]);
    expect(await job.getState()).toBe('waiting');
  });

  test('leaves behind a processor that does not listen, and never its lease to another beside it', async () => {
    await using bench = new Bench(redisUrl);
    const late = new Gate();
    const { worker, manager, started } = oneJob(bench, () => late.opened, { grace: 0, abandonAfter: 100 });
    const abandoned = emitted(worker, 'leaseAbandoned');
    const job = await bench.add({}, { attempts: 1 });
    await started;
    await worker.close();
    expect(await abandoned).toMatchObject([[{ id: job.id }, { code: 'RUN_CANCELLED', reason: 'shutdown' }]]);
    expect(await job.getState()).toBe('waiting');
    expect(await manager.tryAcquire('reports')).toMatchObject({ acquired: false, reason: 'held' });
    late.open();
  });

  test('waits for nothing when it is forced: who gives up is put back, who does not is left behind, and so is its lease', async () => {
    await using bench = new Bench(redisUrl);
    const ended = new Gate();
    const { worker, manager, started, reasons } = oneJob(bench, raise, { resource: 'heard' });
    const deaf = oneJob(bench, () => ended.opened, { resource: 'deaf', manager, ttl: 1000 });
    const jobs = [await bench.add({}), await bench.add({})];
    await Promise.all([started, deaf.started]);
    const from = performance.now();
    await Promise.all([worker.close(true), deaf.worker.close(true)]);
    expect(performance.now() - from).toBeLessThan(2000);
    const shutdown = expect.objectContaining({ code: 'RUN_CANCELLED', reason: 'shutdown' });
    expect([reasons, deaf.reasons]).toEqual([[shutdown], [shutdown]]);
    for (const job of jobs) {
      expect(await job.getState()).toBe('delayed');
      expect(await bench.stored(job)).toMatchObject({ attemptsMade: 0, attemptsStarted: 1 });
    }
    await using free = await manager.tryAcquire('heard');
    expect(free.acquired).toBe(true);
    expect(await manager.tryAcquire('deaf')).toMatchObject({ acquired: false, reason: 'held' });
    // Though its processor goes on.
    await using next = await manager.acquire('deaf', { wait: '5s' });
    expect(next.fencingToken).toBeGreaterThan(0);
    ended.open();
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });

  test('then its manager closes too, also when a processor never ends', async () => {
    await using bench = new Bench(redisUrl);
    const never = new Gate();
    const { worker, manager, started } = oneJob(bench, () => never.opened, { grace: 0, abandonAfter: 50 });
    await bench.add({});
    await started;
    await worker.close();
    expect((await manager.close({ grace: 100 })).unsettled).toMatchObject([{ resource: 'reports' }]);
    never.open();
  });

  test('may be told so twice, and before it is ready', async () => {
    await using bench = new Bench(redisUrl);
    const { worker } = oneJob(bench, raise);
    const closed = worker.close();
    expect(worker.close()).toBe(closed);
    expect(worker.close(true)).toBe(closed);
    await closed;
    const own = new LeasedWorker(bench.name, () => 1, {
      connection: { ...bench.connection },
      lease: { resource: 'reports' },
    });
    await own.close();
    expect(bench.errors).toEqual([]);
  });

  test('begins no job that BullMQ had asked for before', async () => {
    await using bench = new Bench(redisUrl);
    const { worker } = oneJob(bench, raise, { grace: 0 });
    await worker.waitUntilReady();
    let closed: Promise<void> | undefined;
    worker.on('active', () => (closed ??= worker.close()));
    const active = emitted(worker, 'active');
    const job = await bench.add({}, { attempts: 1 });
    await active;
    await closed;
    expect(await job.getState()).toBe('waiting');
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 0, attemptsStarted: 1 });
  });

  test('comes to an end while Redis is gone: idle, never connected, and in mid-job', { timeout: 40_000 }, async () => {
    await using server = await startRedis();
    await using bench = new Bench(redisUrl);
    await using there = new Bench(server.url);
    there.queue.on('error', () => {});
    const options = { connection: there.connection };
    // On a queue without jobs: a worker that is paused takes one more that it had asked for before.
    const idle = new LeasedWorker(`${there.name}-idle`, () => 1, { ...options, lease: { resource: 'idle' } });
    await idle.waitUntilReady();
    const started = new Gate();
    // Its leases are on a Redis that lives.
    const busy = new LeasedWorker(
      there.name,
      async (_job, _token, signal) => {
        started.open();
        throw await aborted(signal);
      },
      { ...options, lease: { resource: 'busy', manager: bench.manager(), grace: 0 } },
    );
    await there.add({});
    await started.opened;
    await server.kill();
    const never = new LeasedWorker(there.name, () => 1, {
      connection: connectionOf(server.url),
      lease: { resource: 'never' },
    });
    const errors: Error[] = [];
    for (const worker of [idle, busy, never]) worker.on('error', (error) => errors.push(error));
    const from = performance.now();
    await Promise.all([idle, busy, never].map((worker) => worker.close()));
    expect(performance.now() - from).toBeLessThan(15_000);
    await server.restart();
  });
});

describe.concurrent('a worker that closes while its manager goes on', () => {
  // Longer than BullMQ takes to close.
  const FAR_MS = 150;

  test.each([
    ['whose job stands in line', { whenBusy: 'hold' }, false],
    ['whose job stands in line, by force', { whenBusy: 'hold' }, true],
    ['that stands for election', { scope: 'worker' }, false],
    ['that stands for election, by force', { scope: 'worker' }, true],
  ] as const)('leaves no turn behind: one %s', async (_, lease, force) => {
    await using proxy = await TcpProxy.start(connectionOf(redisUrl));
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const [others, manager] = [bench.manager(), bench.manager({}, proxy.redisUrl)];
    const held = await others.acquire('reports');
    const worker = bench.worker(
      new LeasedWorker(bench.name, (): void => expect.unreachable(), {
        connection: bench.connection,
        lease: { resource: 'reports', manager, ...lease },
      }),
    );
    await bench.add({});
    const queue = `${bench.prefix}:{reports}:q`;
    await expect.poll(() => raw.zcard(queue), { interval: 2 }).toBe(1);
    proxy.delay({ up: FAR_MS });
    await worker.close(force);
    expect(await raw.zcard(queue)).toBe(0);
    proxy.pass();
    await held.release();
    expect(await manager.run('reports', () => 'still open')).toBe('still open');
    expect(bench.errors).toEqual([]);
  });

  test.each([
    ['', {}, false],
    [', by force', {}, true],
    [', elected', { scope: 'worker' }, false],
  ] as const)('leaves no lease behind that lingers%s', async (_, lease, force) => {
    await using proxy = await TcpProxy.start(connectionOf(redisUrl));
    await using bench = new Bench(redisUrl);
    const [others, manager] = [bench.manager(), bench.manager({ linger: '10s' }, proxy.redisUrl)];
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => 'done', {
        connection: bench.connection,
        lease: { resource: 'reports', manager, ...lease },
      }),
    );
    const completed = emitted(worker, 'completed');
    await bench.add({});
    await completed;
    expect(await others.inspect('reports')).toMatchObject({ state: 'held' });
    proxy.delay({ up: FAR_MS });
    await worker.close(force);
    expect(await others.inspect('reports')).toMatchObject({ state: 'free' });
    proxy.pass();
    expect(await manager.run('reports', () => 'still open')).toBe('still open');
    expect(bench.errors).toEqual([]);
  });
});

describe('a process that is told to end', () => {
  test('is followed at once by another, by its job and by its lease', async () => {
    await using bench = new Bench(redisUrl);
    await using child = startChild(new URL('fixtures/bullmq-worker.ts', import.meta.url), {
      env: { REDIS_URL: redisUrl, QUEUE: bench.name, PREFIX: bench.prefix, TTL_MS: '30000' },
    });
    const job = await bench.add({}, { attempts: 1 });
    const { fencingToken } = await child.next<{ fencingToken: number }>('started');
    let startedAt = 0;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        (its) => {
          startedAt = performance.now();
          return its.lease.fencingToken;
        },
        { connection: bench.connection, lease: { resource: 'reports', manager: bench.manager() } },
      ),
    );
    await worker.waitUntilReady();
    const completed = emitted(worker, 'completed');
    const from = performance.now();
    child.kill('SIGTERM');
    const [args] = await completed;
    expect(args?.[1]).toBeGreaterThan(fencingToken);
    expect(startedAt - from).toBeLessThan(1000);
    await child.next('closed');
    expect(await child.exit).toEqual({ code: 0, signal: null });
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1, attemptsStarted: 2 });
    expect([bench.failures, bench.errors]).toEqual([[], []]);
  });
});
