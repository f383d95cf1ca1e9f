import { setTimeout as sleep } from 'node:timers/promises';
import { LeasedWorker, type LeasedJob } from '@leasehold/bullmq';
import { redisFence } from '@leasehold/core/redis';
import { expect, inject, test } from 'vitest';
import { startChild } from '../support/child.ts';
import { TcpProxy } from '../support/proxy.ts';
import { connectRedis } from '../support/redis-client.ts';
import { stateOf } from '../support/signals.ts';
import { Bench, connectionOf, emitted, Gate } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

interface Data {
  readonly key: string;
}

test('jobs of one key that follow one another in a process ask the store once, and each has a token of its own', async () => {
  await using bench = new Bench(redisUrl);
  // As long as it may be: a slow machine must not make another lease of it.
  const manager = bench.manager({ linger: '10s' });
  const asked: string[] = [];
  manager.on('operation', ({ operation }) => asked.push(operation));
  const ran: { leaseId: string; token: number }[] = [];
  const worker = bench.worker(
    new LeasedWorker<Data>(
      bench.name,
      ({ lease }) => void ran.push({ leaseId: lease.leaseId, token: lease.fencingToken }),
      {
        connection: bench.connection,
        autorun: false,
        lease: { resource: ({ data }) => data.key, manager },
      },
    ),
  );
  const completed = emitted(worker, 'completed', 30);
  await bench.queue.addBulk(Array.from({ length: 30 }, () => ({ name: 'job', data: { key: 'a' } })));
  void worker.run();
  await completed;
  expect(asked.filter((operation) => operation !== 'extend')).toEqual(['acquire']);
  expect(new Set(ran.map(({ leaseId }) => leaseId)).size).toBe(1);
  const first = ran[0]?.token ?? 0;
  expect(ran.map(({ token }) => token)).toEqual(ran.map((_, index) => first + index));
  expect(bench.failures).toEqual([]);
});

test('a process whose lease lingers gives it to the job of another one that asks, and tokens follow the order of the work', async () => {
  await using bench = new Bench(redisUrl);
  const tokens: number[] = [];
  let running = 0;
  let most = 0;
  const ranBy = new Map<number, number>();
  const workers = [0, 1].map((index) =>
    bench.worker(
      new LeasedWorker<Data>(
        bench.name,
        async (job: LeasedJob<Data>) => {
          most = Math.max(most, ++running);
          tokens.push(job.lease.fencingToken);
          ranBy.set(index, (ranBy.get(index) ?? 0) + 1);
          await sleep(2);
          running--;
        },
        {
          connection: bench.connection,
          concurrency: 3,
          autorun: false,
          lease: { resource: ({ data }) => data.key, manager: bench.manager({ linger: '10s' }) },
        },
      ),
    ),
  );
  const [first, second] = workers as [LeasedWorker, LeasedWorker];
  const job = { name: 'job', data: { key: 'a' } };
  let completed = emitted(workers, 'completed');
  void first.run();
  await bench.add(job.data);
  await completed;
  await first.pause();
  completed = emitted(workers, 'completed');
  void second.run();
  const startedMs = performance.now();
  await bench.add(job.data);
  await completed;
  // Nobody waited for the end of the linger.
  expect(performance.now() - startedMs).toBeLessThan(8000);
  expect(ranBy).toEqual(
    new Map([
      [0, 1],
      [1, 1],
    ]),
  );

  completed = emitted(workers, 'completed', 40);
  void first.resume();
  await bench.queue.addBulk(Array.from({ length: 40 }, () => job));
  const jobs = (await completed).map(([its]) => its as LeasedJob<Data>);
  expect(most).toBe(1);
  expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
  expect(new Set(tokens).size).toBe(42);
  expect(jobs.every(({ attemptsMade }) => attemptsMade === 1)).toBe(true);
  expect(bench.failures).toEqual([]);
  expect(bench.errors).toEqual([]);
});

test('a process that is stopped while its lease lingers serves no job with it when it goes on, and writes nothing', async () => {
  await using bench = new Bench(redisUrl);
  await using raw = await connectRedis(redisUrl);
  const ledger = redisFence(raw, { name: 'ledger' });
  const balance = `{${bench.prefix}/reports}:balance`;
  await using child = startChild(new URL('fixtures/bullmq-lingering.ts', import.meta.url), {
    env: { REDIS_URL: redisUrl, QUEUE: bench.name, PREFIX: bench.prefix, BALANCE: balance, TTL_MS: '900' },
  });
  const jobs = await bench.queue.addBulk([1, 2, 3].map(() => ({ name: 'job', data: {} })));
  const first = await child.next<{ fencingToken: number }>('started');
  await expect.poll(() => stateOf(child.pid), { interval: 2, timeout: 10_000 }).toMatch(/^[Tt]/);
  // It has the second job; the third is taken here.
  expect(await jobs[1]?.getState()).toBe('active');
  const tokens: number[] = [];
  const refused = new Gate();
  const worker = bench.worker(
    new LeasedWorker(
      bench.name,
      async (job) => {
        tokens.push(job.lease.fencingToken);
        await ledger.write(job.lease, (tx) => void tx.call('RPUSH', balance, `job ${job.id}`));
        child.cont();
        await refused.opened;
      },
      { connection: bench.connection, lease: { resource: 'reports', fences: [ledger], manager: bench.manager() } },
    ),
  );
  const completed = emitted(worker, 'completed');
  expect(await child.next('late')).toMatchObject({ code: 'STALE_TOKEN' });
  expect(await child.next('busy')).toMatchObject({ jobId: jobs[1]?.id });
  refused.open();
  await completed;
  const [, second] = jobs;
  await expect.poll(() => second?.getState(), { interval: 5, timeout: 10_000 }).toBe('completed');
  // Whoever has run it, it was under a lease of its own.
  const after = child.unread.find(({ type }) => type === 'started') as { fencingToken: number } | undefined;
  const order = [first.fencingToken, ...tokens, ...(after === undefined ? [] : [after.fencingToken])];
  expect(order).toEqual([...new Set(order)].toSorted((a, b) => a - b));
  expect(order).toHaveLength(3);
  expect(await raw.lrange(balance, 0, -1)).toEqual([jobs[0], jobs[2], jobs[1]].map((job) => `job ${job?.id}`));
  expect(bench.failures).toEqual([]);
});

test('two workers of one manager pass a lease that lingers between them, one job at a time', async () => {
  await using bench = new Bench(redisUrl);
  const manager = bench.manager({ linger: '10s' });
  const tokens: number[] = [];
  const ranBy = new Set<number>();
  let running = 0;
  let most = 0;
  const workers = [0, 1].map((index) =>
    bench.worker(
      new LeasedWorker<Data>(
        bench.name,
        async (job: LeasedJob<Data>) => {
          most = Math.max(most, ++running);
          tokens.push(job.lease.fencingToken);
          ranBy.add(index);
          await sleep(1);
          running--;
        },
        { connection: bench.connection, concurrency: 2, autorun: false, lease: { resource: 'a', manager } },
      ),
    ),
  );
  const asked: string[] = [];
  manager.on('operation', ({ operation }) => asked.push(operation));
  // In turn: what one has left lingering serves the other.
  for (const worker of workers) {
    void worker.run();
    for (let n = 0; n < 3; n++) {
      const completed = emitted(worker, 'completed');
      await bench.add({ key: 'a' });
      await completed;
    }
    await worker.pause();
  }
  expect(ranBy).toEqual(new Set([0, 1]));
  expect(asked.filter((operation) => operation !== 'extend')).toEqual(['acquire']);
  const completed = emitted(workers, 'completed', 30);
  await bench.queue.addBulk(Array.from({ length: 30 }, () => ({ name: 'job', data: { key: 'a' } })));
  for (const worker of workers) void worker.resume();
  await completed;
  expect(most).toBe(1);
  expect(tokens).toHaveLength(36);
  expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
  expect(bench.failures).toEqual([]);
  expect(bench.errors).toEqual([]);
});

test.each([
  ['acquisition', 'before'],
  ['release', 'after'],
] as const)('the lost answer to the %s of a lease that lingers costs no job, and blocks nobody', async (_, when) => {
  await using proxy = await TcpProxy.start(connectionOf(redisUrl));
  await using bench = new Bench(redisUrl);
  const [near, manager] = [bench.manager(), bench.manager({ linger: '10s' }, proxy.redisUrl)];
  await manager.run('warm-up', () => {});
  const ran: number[] = [];
  const worker = bench.worker(
    new LeasedWorker<Data>(bench.name, ({ lease }) => void ran.push(lease.fencingToken), {
      connection: bench.connection,
      autorun: false,
      lease: { resource: ({ data }) => data.key, manager },
    }),
  );
  const lost = when === 'before' ? proxy.loseNextReply(`${bench.prefix}:{a}`) : undefined;
  const completed = emitted(worker, 'completed', 20);
  await bench.queue.addBulk(Array.from({ length: 20 }, () => ({ name: 'job', data: { key: 'a' } })));
  void worker.run();
  await Promise.all([lost, completed]);
  const given = when === 'after' ? proxy.loseNextReply(`${bench.prefix}:{a}`) : undefined;
  const next = await near.acquire('a', { wait: '5s' });
  await given;
  expect(ran).toEqual([...new Set(ran)].toSorted((a, b) => a - b));
  expect(ran).toHaveLength(20);
  expect(next.fencingToken).toBeGreaterThan(Math.max(...ran));
  await worker.close();
  await next.release();
  // The second release has touched nothing of its successor.
  expect(await near.inspect('a')).toMatchObject({ state: 'free', fencingToken: next.fencingToken });
  expect(await manager.run('a', () => 'still open')).toBe('still open');
  expect(bench.failures).toEqual([]);
});
