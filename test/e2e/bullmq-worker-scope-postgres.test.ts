import type { Worker } from 'bullmq';
import { expect, inject, test } from 'vitest';
import { PostgresBench, PostgresWorker } from './fixtures/bullmq-postgres.ts';
import { aborted, emitted, Gate } from './fixtures/bullmq-setup.ts';

const [redisUrl, postgresUrl] = [inject('redisUrl'), inject('postgresUrl')];

test('one lease for a whole worker whose queue is in PostgreSQL: stepping down puts jobs back, and the next one takes over', async () => {
  await using bench = await PostgresBench.start(redisUrl, postgresUrl);
  const [begun, both] = [new Gate(), new Gate()];
  let running = 0;
  const make = (who: string): Worker =>
    bench.worker(
      new PostgresWorker(
        bench.name,
        async (_job, _token, signal) => {
          if (who === 'second') return who;
          begun.open();
          if (++running === 2) both.open();
          throw await aborted(signal);
        },
        {
          connection: bench.pool,
          concurrency: 2,
          lease: { resource: 'payments', scope: 'worker', grace: 0, manager: bench.manager({ ttl: 2000 }) },
        },
      ) as unknown as Worker,
    );
  const first = make('first');
  await emitted(first, 'elected');
  const second = make('second');
  for (let n = 0; n < 5; n++) await bench.add({});
  await Promise.all([begun.opened, both.opened]);
  const completed = emitted(second, 'completed', 5);
  await first.close();
  const jobs = (await completed).map(([job]) => job as { attemptsMade: number });
  expect(jobs.every(({ attemptsMade }) => attemptsMade === 1)).toBe(true);
  expect(running).toBe(2);

  // The last one stands again, and again.
  for (let n = 0; n < 3; n++) {
    await second.pause();
    const elected = emitted(second, 'elected');
    await second.resume();
    await elected;
    const done = emitted(second, 'completed');
    await bench.add({});
    await done;
  }
  expect(bench.failures).toEqual([]);
  expect(bench.errors).toEqual([]);
});
