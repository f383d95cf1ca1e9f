import { fileURLToPath } from 'node:url';
import { LeasedWorker } from '@leasehold/bullmq';
import { describe, expect, inject, test } from 'vitest';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { Bench, emitted } from './fixtures/bullmq-setup.ts';

const redisUrl = inject('redisUrl');

describe('one lease for a whole worker', () => {
  test('a manager is made from the connection, and closed with the worker', async () => {
    await using server = await startRedis();
    await using raw = await connectRedis(server.url);
    await using bench = new Bench(server.url);
    await bench.queue.waitUntilReady();
    const clients = async (): Promise<number> => ((await raw.client('LIST')) as string).trim().split('\n').length;
    const before = await clients();
    const make = (): LeasedWorker =>
      bench.worker(
        new LeasedWorker(bench.name, (job) => job.lease.resource, {
          connection: { url: server.url },
          lease: { resource: 'payments', scope: 'worker' },
        }),
      );
    const [first, second] = [make(), make()];
    const done = emitted([first, second], 'completed');
    await bench.add({});
    expect((await done)[0]?.[1]).toBe('payments');
    await Promise.all([first.close(), second.close()]);
    await expect.poll(clients).toBe(before);
    expect(bench.errors).toEqual([]);
  });

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
