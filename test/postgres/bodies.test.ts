import type { Grant } from '@leasehold/core';
import { postgresFence, type PostgresFence } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { connectPool, connectPostgresJs, createSite, grantFor, type Site } from './support.ts';

let site: Site;
let pool: pg.Pool;
let fence: PostgresFence<pg.PoolClient>;
let grant: Grant;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url, { max: 12 });
  fence = postgresFence(pool);
});

afterAll(async () => {
  await pool.end();
  await site[Symbol.asyncDispose]();
});

beforeEach(async () => {
  grant = grantFor();
  await fence.activate(grant);
});

const append = (tx: pg.ClientBase, entry: string): Promise<unknown> =>
  tx.query('insert into log (resource, entry) values ($1, $2)', [grant.resource, entry]);

async function entries(): Promise<readonly string[]> {
  const { rows } = await pool.query<{ entry: string }>('select entry from log where resource = $1 order by at', [
    grant.resource,
  ]);
  return rows.map(({ entry }) => entry);
}

const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error: unknown) => error,
  );

describe('bodies', () => {
  test('that swallow the error of a statement do not count as written', async () => {
    const write = fence.write(grant, async (tx) => {
      await append(tx, 'half');
      await failure(tx.query('select 1/0'));
    });
    const error = await failure(write);
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect((error as Error).message).toContain('use a savepoint');
    expect(await entries()).toEqual([]);
  });

  test('that use savepoints do', async () => {
    await fence.write(grant, async (tx) => {
      await tx.query('savepoint s');
      await failure(tx.query('select 1/0'));
      await tx.query('rollback to s');
      await append(tx, 'whole');
    });
    expect(await entries()).toEqual(['whole']);
  });

  test.each(['commit', 'rollback', 'commit and chain; commit', 'commit and chain', 'commit; begin', 'rollback; begin'])(
    'that end the transaction themselves are told, and what they then do in another is not written: %s',
    async (end) => {
      const write = fence.write(grant, async (tx) => {
        await tx.query(end);
        await append(tx, 'unguarded');
      });
      expect(await failure(write)).toMatchObject({ code: 'CONFIG', option: 'body' });
      if (/(chain|begin)$/.test(end)) expect(await entries()).toEqual([]);
    },
  );

  test('over postgres.js: that begin another transaction are told, and nothing of that is written', async () => {
    await using sql = connectPostgresJs(site.url);
    const write = postgresFence(sql).write(grant, async (tx) => {
      await tx.unsafe('commit and chain');
      await tx`insert into log (resource, entry) values (${grant.resource}, 'unguarded')`;
    });
    expect(await failure(write)).toMatchObject({ code: 'CONFIG', option: 'body' });
    expect(await entries()).toEqual([]);
  });

  test('leave no straggler that writes when they have failed: tx is theirs alone', async () => {
    let goOn = (): void => {};
    const later = new Promise<void>((resolve) => (goOn = resolve));
    let straggler: Promise<unknown> | undefined;
    const write = fence.write(grant, async (tx) => {
      straggler = later.then(() => append(tx, 'late'));
      await Promise.all([tx.query('select 1/0'), straggler]);
    });
    expect(await failure(write)).toMatchObject({ code: '22012' });
    await fence.activate({ ...grantFor(), resource: grant.resource });
    goOn();
    expect(await failure(straggler as Promise<unknown>)).toMatchObject({ code: 'CONFIG', option: 'tx' });
    expect(await entries()).toEqual([]);
  });

  test('may throw what cannot be looked at: it comes out, and the client goes back', async () => {
    const trap = (): never => {
      throw new Error('the trap');
    };
    const hostile = new Proxy({}, { getPrototypeOf: trap, get: trap, has: trap });
    await using small = connectPool(site.url, { max: 1 });
    const one = postgresFence(small);
    let caught: unknown;
    const body = (): never => {
      throw hostile;
    };
    await one.write(grant, body).catch((error: unknown) => {
      caught = error;
    });
    expect(Object.is(caught, hostile)).toBe(true);
    expect(await one.write(grant, async (tx) => (await tx.query('select 1')).rowCount)).toBe(1);
  });

  test('cannot give the client back while it is in a transaction', async () => {
    const write = fence.write(grant, (tx) => tx.release());
    expect(await failure(write)).toMatchObject({ code: 'CONFIG', option: 'tx.release' });
    const client = await pool.connect();
    client.release();
  });

  test('that are refused by another fence get its error, and their lease is not told', async () => {
    const [older, newer] = [grantFor(), grantFor()];
    await fence.activate({ ...newer, resource: older.resource });
    const write = fence.write(grant, async (tx) => tx.query(fence.guardSql(older)));
    expect(await failure(write)).toMatchObject({ code: 'LH001', detail: expect.stringContaining(older.resource) });
  });

  test('get a serialization failure as it is, and may write again', async () => {
    const strict = postgresFence(pool, { isolation: 'repeatable read' });
    await pool.query(`create table if not exists counters (name text primary key, n int)`);
    await pool.query(`insert into counters values ($1, 0)`, [grant.resource]);
    const add = async (tx: pg.ClientBase): Promise<void> => {
      await tx.query('update counters set n = n + 1 where name = $1', [grant.resource]);
    };
    const write = strict.write(grant, async (tx) => {
      await tx.query('select * from counters');
      await fence.write(grant, add);
      await add(tx);
    });
    expect(await failure(write)).toMatchObject({ code: '40001' });
    await strict.write(grant, add);
    expect((await pool.query('select n from counters where name = $1', [grant.resource])).rows).toEqual([{ n: 2 }]);
  });

  test('whose work fails at COMMIT get that error', async () => {
    await pool.query(
      `create table if not exists parts (id int primary key, whole int references parts deferrable initially deferred)`,
    );
    const orphan = 'insert into parts values (1, 99)';
    expect(await failure(fence.write(grant, (tx) => tx.query(orphan)))).toMatchObject({ code: '23503' });
    await using sql = connectPostgresJs(site.url);
    const overSql = postgresFence(sql);
    expect(await failure(overSql.write(grant, (tx) => tx.unsafe(orphan)))).toMatchObject({ code: '23503' });
    expect((await pool.query('select * from parts')).rows).toEqual([]);
  });

  test('over postgres.js: that swallow the error of a statement do not count as written either', async () => {
    await using sql = connectPostgresJs(site.url);
    const overSql = postgresFence(sql);
    const write = overSql.write(grant, async (tx) => {
      await tx`insert into log (resource, entry) values (${grant.resource}, 'half')`;
      await failure(tx`select 1/0`);
    });
    expect(await failure(write)).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect(await entries()).toEqual([]);
    await overSql.write(grant, async (tx) => {
      await failure(tx.savepoint((inner) => inner`select 1/0`));
      await tx`insert into log (resource, entry) values (${grant.resource}, 'whole')`;
    });
    expect(await entries()).toEqual(['whole']);
  });

  test('over postgres.js: a client that is busy is not waited for longer than allowed, and is whole afterwards', async () => {
    await using sql = connectPostgresJs(site.url, { max: 1 });
    const small = postgresFence(sql, { timeout: 100, idleTimeout: 50, lockTimeout: 60 });
    const { pid } = (await sql`select pg_backend_pid() as pid`)[0] as { pid: number };
    const busy = sql`select pg_sleep(60)`.catch(() => 'cancelled');
    for (const call of [() => small.write(grant, () => 'never'), () => small.activate(grant)]) {
      expect(await failure(call())).toMatchObject({ code: 'FENCE_UNAVAILABLE' });
    }
    await pool.query('select pg_cancel_backend($1)', [pid]);
    await busy;
    expect(await small.write(grant, () => 'in')).toBe('in');
  });

  test('give what they return as it is, whatever that is', async () => {
    await using sql = connectPostgresJs(site.url);
    const overSql = postgresFence(sql);
    for (const value of [undefined, null, 0, '', [], [1, 2], { rows: [] }]) {
      expect(await fence.write(grant, () => value)).toEqual(value);
      expect(await overSql.write(grant, async () => value)).toEqual(value);
    }
  });

  test('throw what they throw, also if that is no error', async () => {
    await using sql = connectPostgresJs(site.url);
    for (const thrown of [undefined, null, 'no', 0]) {
      const body = (): never => {
        throw thrown;
      };
      expect(await failure(fence.write(grant, body))).toBe(thrown);
      expect(await failure(postgresFence(sql).write(grant, body))).toBe(thrown);
    }
  });
});
