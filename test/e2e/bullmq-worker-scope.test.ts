import { once } from 'node:events';
import { LeasedWorker } from '@leasehold/bullmq';
import { currentLease, type LeaseManager, StaleTokenError, type Lease, type LeaseLostError } from '@leasehold/core';
import { redisFence } from '@leasehold/core/redis';
import { Worker, type Job } from 'bullmq';
import { describe, expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { aborted, Bench, connectionOf, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

/** As a fence would say: the lease is lost from this instant on. */
function usurp({ grant, holding }: Lease): void {
  const highest = { fencingToken: grant.fencingToken + 1, leaseId: 'a later one' };
  holding.refused(new StaleTokenError(grant.resource, { ...grant, fence: 'ledger', highest }));
}

describe('one lease for a whole worker', () => {
  test('one of two takes all jobs, under one lease; when it closes, the other one goes on', async () => {
    await using bench = new Bench(redisUrl);
    const ledger = redisFence(await connect(bench), { name: 'ledger' });
    const make = (who: string): LeasedWorker =>
      bench.worker(
        new LeasedWorker(
          bench.name,
          async (job) => {
            expect(currentLease()).toMatchObject({ leaseId: job.lease.leaseId });
            await ledger.write(job.lease, (tx) => void tx.call('RPUSH', `{${job.lease.grant.resource}}:log`, who));
            return `${who} ${job.lease.fencingToken}`;
          },
          {
            connection: bench.connection,
            concurrency: 3,
            lease: { resource: 'payments', scope: 'worker', fences: [ledger], manager: bench.manager({ ttl: 2000 }) },
          },
        ),
      );
    const first = make('first');
    await emitted(first, 'elected');
    const second = make('second');
    expect([first.isRunning(), second.isRunning(), second.isPaused()]).toEqual([true, true, false]);
    const completed = emitted([first, second], 'completed', 10);
    for (let n = 0; n < 10; n++) await bench.add({});
    const values = new Set((await completed).map(([, value]) => value));
    expect(values.size).toBe(1);
    expect([...values][0]).toMatch(/^first /);

    const elected = emitted(second, 'elected');
    await Promise.all([first.close(), elected]);
    const followed = emitted(second, 'completed', 2);
    await bench.add({});
    await bench.add({});
    for (const [, value] of await followed) expect(value).toMatch(/^second /);
    expect(first.isRunning()).toBe(false);
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('a processor that closes its own manager or worker does not wait for itself', async () => {
    await using bench = new Bench(redisUrl);
    const manager = bench.manager();
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async () => {
          await manager.close({ grace: 0 });
          void worker.close();
          return 'done';
        },
        { connection: bench.connection, lease: { resource: 'payments', scope: 'worker', manager } },
      ),
    );
    const closed = emitted(worker, 'closed');
    const completed = emitted(worker, 'completed');
    await bench.add({});
    expect((await completed)[0]?.[1]).toBe('done');
    await closed;
  });
});

async function connect(bench: Bench): Promise<Awaited<ReturnType<typeof connectRedis>>> {
  const client = await connectRedis(redisUrl);
  bench.closing({ close: async () => client.disconnect() });
  return client;
}

describe('what BullMQ lets through', () => {
  /** Two jobs, the second of which is being fetched, with the end of the first, at the instant that `open` resolves with. */
  async function fetching(
    bench: Bench,
    proxy: TcpProxy,
    make: (processor: (job: Job) => Promise<void>) => Worker,
  ): Promise<{ worker: Worker; started: string[]; jobs: Job[]; fetched: Promise<unknown> }> {
    const started: string[] = [];
    const [begun, gate] = [new Gate(), new Gate()];
    const worker = bench.worker(
      make(async (job) => {
        started.push(job.id as string);
        begun.open();
        await gate.opened;
      }),
    );
    const jobs = [await bench.add({}), await bench.add({})];
    await begun.opened;
    // With the first one's end BullMQ asks for the next.
    const fetched = proxy.nextRequest(/\r\neval/);
    gate.open();
    return { worker, started, jobs, fetched };
  }

  test('a plain worker starts a job after it was paused', async () => {
    await using proxy = await TcpProxy.start(connectionOf(redisUrl));
    await using bench = new Bench(redisUrl);
    const { worker, started, fetched } = await fetching(
      bench,
      proxy,
      (processor) => new Worker(bench.name, processor, { connection: connectionOf(proxy.redisUrl) }),
    );
    await fetched;
    await worker.pause();
    expect(started).toHaveLength(2);
  });

  test.each(['paused', 'lost'] as const)('ours does not start it: %s', async (how) => {
    await using proxy = await TcpProxy.start(connectionOf(redisUrl));
    await using bench = new Bench(redisUrl);
    const manager = bench.manager({ ttl: 2000 });
    let lease: Lease | undefined;
    const { worker, started, jobs, fetched } = await fetching(bench, proxy, (processor) => {
      const made = new LeasedWorker(bench.name, processor, {
        connection: connectionOf(proxy.redisUrl),
        lease: { resource: 'payments', scope: 'worker', manager },
      });
      made.on('elected', (its) => (lease = its));
      return made;
    });
    await fetched;
    const steppedDown = emitted(worker, 'steppedDown');
    const paused = how === 'paused' ? worker.pause() : usurp(lease as Lease);
    await steppedDown;
    const startedBy = started.length;
    // It comes through. Not every BullMQ says `active` of a job that it got with the end of another.
    await expect.poll(async () => (await bench.stored(jobs[1] as Job)).attemptsStarted).toBeGreaterThan(0);
    if (how === 'paused') {
      await paused;
      expect(started).toHaveLength(1);
      expect(await jobs[1]?.getState()).toBe('delayed');
      await worker.resume();
    }
    await expect.poll(() => jobs[1]?.isCompleted(), { timeout: 10_000 }).toBe(true);
    expect(startedBy).toBe(1);
    expect(await bench.stored(jobs[1] as Job)).toMatchObject({ attemptsMade: 1, attemptsStarted: 2 });
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });
});

describe('stepping down', () => {
  test('frees no slot for another job: what is free is not filled again', async () => {
    await using bench = new Bench(redisUrl);
    const full = new Gate();
    let lease: Lease | undefined;
    let isOver = false;
    let late = 0;
    const started: string[] = [];
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job, _token, signal) => {
          started.push(job.id as string);
          if (!job.lease.isHeld()) late++;
          if (isOver) return;
          if (started.length === 3) full.open();
          throw await aborted(signal);
        },
        {
          connection: bench.connection,
          concurrency: 3,
          lease: { resource: 'payments', scope: 'worker', manager: bench.manager({ ttl: 2000 }) },
        },
      ),
    );
    let active = 0;
    worker.on('active', () => active++);
    worker.on('elected', (its) => (lease = its));
    const lost: LeaseLostError[] = [];
    worker.on('leaseLost', (_, error) => lost.push(error));
    const jobs = [];
    for (let n = 0; n < 12; n++) jobs.push(await bench.add({}));
    await full.opened;
    const rested = emitted(worker, 'paused');
    usurp(lease as Lease);
    isOver = true;
    await rested;
    expect(active).toBe(3);
    expect(lost).toHaveLength(3);
    expect(await bench.queue.getJobCounts('waiting', 'delayed', 'active')).toMatchObject({
      waiting: 9,
      delayed: 3,
      active: 0,
    });
    await expect.poll(() => bench.queue.getCompletedCount(), { timeout: 10_000 }).toBe(12);
    expect(late).toBe(0);
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('and being elected again, ten times: jobs keep flowing', async () => {
    await using bench = new Bench(redisUrl);
    let lease: Lease | undefined;
    const worker = bench.worker(
      new LeasedWorker(bench.name, (job) => job.lease.fencingToken, {
        connection: bench.connection,
        concurrency: 2,
        lease: { resource: 'payments', scope: 'worker', manager: bench.manager({ ttl: 1000 }) },
      }),
    );
    worker.on('elected', (its) => (lease = its));
    await once(worker, 'elected');
    const tokens: number[] = [];
    for (let n = 0; n < 10; n++) {
      const elected = once(worker, 'elected');
      if (n % 2 === 0) {
        usurp(lease as Lease);
      } else {
        await worker.pause();
        expect(worker.isPaused()).toBe(true);
        await worker.resume();
      }
      await elected;
      const completed = once(worker, 'completed');
      await bench.add({});
      tokens.push((await completed)[1] as number);
    }
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    await expect(worker.run()).rejects.toThrow('Worker is already running.');
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });

  test('and being elected again asks at once for jobs of which somebody else was told', async () => {
    await using bench = new Bench(redisUrl);
    await using raw = await connectRedis(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(bench.name, () => {}, {
        connection: bench.connection,
        lease: { resource: 'payments', scope: 'worker', manager: bench.manager({ ttl: 2000 }) },
      }),
    );
    const drained = once(worker, 'drained');
    await bench.add({});
    await drained;
    await worker.pause();
    await bench.add({});
    // As if one had been told who died of it.
    expect(await raw.del(`bull:${bench.name}:marker`)).toBe(1);
    const completed = once(worker, 'completed');
    const from = performance.now();
    await worker.resume();
    await completed;
    expect(performance.now() - from).toBeLessThan(3000);
  });

  test('with a processor that does not hear: its slot is free, its job runs in the next term', async () => {
    await using bench = new Bench(redisUrl);
    const [begun, never] = [new Gate(), new Gate()];
    let runs = 0;
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async (job) => {
          if (++runs > 1) return job.lease.fencingToken;
          begun.open();
          return never.opened;
        },
        {
          connection: bench.connection,
          lease: { resource: 'payments', scope: 'worker', abandonAfter: 50, manager: bench.manager({ ttl: 1000 }) },
        },
      ),
    );
    const tokens: number[] = [];
    worker.on('elected', ({ fencingToken }) => tokens.push(fencingToken));
    const abandoned = emitted(worker, 'leaseAbandoned');
    const completed = emitted(worker, 'completed');
    const job = await bench.add({}, { attempts: 1 });
    await begun.opened;
    worker.cancelJob(job.id as string);
    await abandoned;
    expect((await completed)[0]?.[1]).toBe(tokens[1]);
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 1, attemptsStarted: 2 });
    never.open();
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });
});

describe('closing', () => {
  /** A server of its own, and how many connections it has beside those of the queue and the managers. */
  async function counted(bench: Bench, url: string): Promise<{ manager: LeaseManager; more: () => Promise<number> }> {
    const raw = await connectRedis(url);
    bench.closing({ close: async () => raw.disconnect() });
    const manager = bench.manager({ ttl: 2000 }, url);
    // It opens all that it needs.
    await manager.run('warm-up', { wait: 1000 }, () => {});
    await bench.queue.waitUntilReady();
    const clients = async (): Promise<number> => ((await raw.client('LIST')) as string).trim().split('\n').length;
    const before = await clients();
    return { manager, more: async () => (await clients()) - before };
  }

  test.each([false, true])(
    'while it waits for its election leaves the line, and no connection (forced: %s)',
    async (force) => {
      await using server = await startRedis();
      await using bench = new Bench(server.url);
      const { manager, more } = await counted(bench, server.url);
      await using _ = await manager.acquire('payments');
      const worker = bench.worker(
        new LeasedWorker(bench.name, () => {}, {
          connection: bench.connection,
          lease: { resource: 'payments', scope: 'worker', manager },
        }),
      );
      // BullMQ 5 cannot close by force while it connects.
      await worker.waitUntilReady();
      await expect.poll(async () => (await manager.inspect('payments'))?.waiting).toBe(1);
      await Promise.all([worker.close(force), worker.close()]);
      await expect.poll(async () => (await manager.inspect('payments'))?.waiting).toBe(0);
      await expect.poll(more).toBe(0);
      expect(bench.errors).toEqual([]);
    },
  );

  test('by force in the middle of stepping down puts jobs back, and leaves no connection', async () => {
    await using server = await startRedis();
    await using bench = new Bench(server.url);
    const { manager, more } = await counted(bench, server.url);
    const [begun, gate] = [new Gate(), new Gate()];
    const worker = bench.worker(
      new LeasedWorker(
        bench.name,
        async () => {
          begun.open();
          await gate.opened;
        },
        { connection: bench.connection, lease: { resource: 'payments', scope: 'worker', manager } },
      ),
    );
    const job = await bench.add({});
    await begun.opened;
    const steppedDown = emitted(worker, 'steppedDown');
    await manager.revoke('payments');
    await steppedDown;
    await worker.close(true);
    expect(await job.getState()).toBe('waiting');
    expect(await more()).toBe(0);
    expect(await manager.inspect('payments')).toMatchObject({ state: 'held' });
    gate.open();
    await expect.poll(async () => (await manager.inspect('payments'))?.state).toBe('free');
    expect(await more()).toBe(0);
  });

  test('puts jobs back, gives the lease back and lets the process end', async () => {
    await using bench = new Bench(redisUrl);
    await using child = startChild(new URL('fixtures/bullmq-scope-worker.ts', import.meta.url), {
      env: { REDIS_URL: redisUrl, QUEUE: bench.name, PREFIX: bench.prefix, TTL_MS: '5000' },
    });
    // Longer than the grace of this one.
    const job = await bench.add({ workMs: 60_000 });
    await bench.add({ workMs: 1 });
    await expect.poll(() => child.unread.some(({ kind }) => kind === 'first'), { timeout: 10_000 }).toBe(true);
    const manager = bench.manager({ ttl: 5000 });
    expect(await manager.inspect('payments')).toMatchObject({ state: 'held' });
    child.send('do', { op: 'end' });
    expect(await child.exit).toEqual({ code: 0, signal: null });
    expect(await manager.inspect('payments')).toMatchObject({ state: 'free' });
    expect(await bench.stored(job)).toMatchObject({ attemptsMade: 0 });
    expect(await job.getState()).toMatch(/delayed|waiting/);
  });
});
