import { setTimeout as sleep } from 'node:timers/promises';
import { LeasedWorker, type LeasedJob } from '@leasehold/bullmq';
import { expect, inject, test } from 'vitest';
import { Bench, emitted } from './fixtures/bullmq-setup.ts';

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
