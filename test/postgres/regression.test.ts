// The store has lost its data and its clock is behind: it gives out tokens that the resource has long left behind.
import { LeaseManager } from '@leasehold/core';
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import { redisStore } from '@leasehold/core/redis';
import pg from 'pg';
import { expect, inject } from 'vitest';

import { FakeTime } from '../support/faketime.ts';
import { testNeeding } from '../support/needing.ts';
import { createDatabase } from '../support/postgres.ts';
import { connectRedis } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { watchedFence } from './fixtures/watched-fence.ts';

const HOUR_MS = 3_600_000;

testNeeding(
  'libfaketime',
  'a Redis that was flushed and lags by an hour: one refused activation, then the run, and nobody does anything',
  async () => {
    using time = new FakeTime();
    await using redis = await startRedis({ faketime: time });
    await using raw = await connectRedis(redis.url);
    await using database = await createDatabase(inject('postgresUrl'));
    const pool = new pg.Pool({ connectionString: database.url, max: 2 });
    await installSchema(pool);
    const fence = watchedFence(postgresFence(pool));
    const run = async (): Promise<number> => {
      // Each time as by another process, which knows nothing of the tokens before.
      const leases = new LeaseManager({ store: redisStore(redis.url) });
      const token = await leases.run('a', { fences: [fence] }, async ({ grant }) => {
        await fence.write(grant, (tx) => tx.query('select 1'));
        return grant.fencingToken;
      });
      await leases.close();
      return token;
    };
    const codes = () => fence.activations.map(({ code }) => code);

    const before = await run();
    expect(codes()).toEqual([null]);

    time.step(-HOUR_MS);
    await raw.flushall();
    const [seconds] = await raw.time();
    expect(Number(seconds) * 1_000_000).toBeLessThan(before);

    const after = await run();
    expect(codes()).toEqual([null, 'STALE_TOKEN', null]);
    expect(after).toBeGreaterThan(before);
    expect(await fence.highest('leasehold/a')).toMatchObject({ fencingToken: after });

    // The record has learned it: the next owner is not refused at all.
    expect(await run()).toBeGreaterThan(after);
    expect(codes()).toEqual([null, 'STALE_TOKEN', null, null]);
    await pool.end();
  },
);
