import { fileURLToPath } from 'node:url';
import { LeasedWorker } from '@leasehold/bullmq';
import { describe, expect, inject, test } from 'vitest';
import { Bench, emitted } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

describe('one lease for a whole worker', () => {
  test('whose processor is a file has the lease of the term there', async () => {
    await using bench = new Bench(redisUrl);
    const worker = bench.worker(
      new LeasedWorker(bench.name, fileURLToPath(new URL('fixtures/bullmq-sandboxed.mjs', import.meta.url)), {
        connection: bench.connection,
        useWorkerThreads: true,
        workerThreadsOptions: { execArgv: [] },
        lease: { resource: 'payments', scope: 'worker', manager: bench.manager() },
      }),
    );
    const tokens: number[] = [];
    worker.on('elected', ({ fencingToken }) => tokens.push(fencingToken));
    const completed = emitted(worker, 'completed');
    await bench.add({ does: 'report' });
    expect((await completed)[0]?.[1]).toMatchObject({
      lease: { resource: `${bench.prefix}/payments`, fencingToken: tokens[0] },
    });
  });

  test('runs job schedulers in office alone, and on when another one takes over', async () => {
    await using bench = new Bench(redisUrl);
    const ran: { who: string; id: string }[] = [];
    const make = (who: string): LeasedWorker =>
      bench.worker(
        new LeasedWorker(bench.name, (job) => void ran.push({ who, id: job.id as string }), {
          connection: bench.connection,
          lease: { resource: 'payments', scope: 'worker', manager: bench.manager({ ttl: 2000 }) },
        }),
      );
    const first = make('first');
    await emitted(first, 'elected');
    const second = make('second');
    const before = emitted([first, second], 'completed', 4);
    await bench.queue.upsertJobScheduler('every', { every: 100 }, { name: 'tick' });
    await before;
    expect(ran.every(({ who }) => who === 'first')).toBe(true);
    const after = emitted(second, 'completed', 4);
    await first.close();
    await after;
    await bench.queue.removeJobScheduler('every');
    expect(new Set(ran.map(({ id }) => id)).size).toBe(ran.length);
    expect(bench.failures).toEqual([]);
    expect(bench.errors).toEqual([]);
  });
});
