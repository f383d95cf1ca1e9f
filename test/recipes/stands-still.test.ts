// PostgreSQL ends the session of an owner that stands still inside its transaction. What each library makes of it.
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { uniqueName } from '../support/redis-client.ts';
import type { Standing } from './fixtures/standing.ts';

const standsStill = new URL('./fixtures/stands-still.ts', import.meta.url);

let database: Database;
let admin: pg.Pool;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  admin = new pg.Pool({ connectionString: database.url });
  await installSchema(admin);
  for (const table of ['accounts', 'protected_accounts']) {
    await admin.query(`create table ${table} (resource text primary key, balance integer not null)`);
  }
  await admin.query(`select leasehold.protect('protected_accounts', 'new.resource')`);
});

afterAll(async () => {
  await admin.end();
  await database[Symbol.asyncDispose]();
});

async function stand(library: string, table = 'accounts'): Promise<Standing> {
  const key = uniqueName();
  const resource = `shop/${key}`;
  const ledger = postgresFence(admin);
  await ledger.write({ resource, fencingToken: 1, leaseId: 'first' }, (tx) =>
    tx.query(`insert into ${table} values ($1, 100)`, [resource]),
  );
  return { key, library, table, resource };
}

function start(standing: readonly Standing[]): Child {
  return startChild(standsStill, { env: { POSTGRES_URL: database.url, STANDING: JSON.stringify(standing) } });
}

/** A successor is admitted: the server has ended the session of the one before. */
async function succeed({ resource }: Standing): Promise<void> {
  await postgresFence(admin).activate({ resource, fencingToken: 2, leaseId: 'second' });
}

async function balanceOf({ table, resource }: Standing): Promise<number> {
  const { rows } = await admin.query(`select balance from ${table} where resource = $1`, [resource]);
  return (rows[0] as { balance: number }).balance;
}

test('an error for whoever stood still, nothing committed, and the process lives on', async () => {
  const libraries = ['pg', 'Drizzle over pg', 'Kysely', 'Knex', 'Prisma'];
  const standing = await Promise.all(libraries.map((library) => stand(library)));
  await using child = start(standing);
  await Promise.all(
    standing.map(async (each) => {
      await child.next(`open ${each.key}`);
      await succeed(each);
      child.send(`go on ${each.key}`);
      expect(await child.next(`went on ${each.key}`), each.library).toHaveProperty('error.message');
      expect(await child.next(`ended ${each.key}`), each.library).toHaveProperty('error.message');
      await child.next(`another transaction ${each.key}`);
      expect(await balanceOf(each), each.library).toBe(100);
    }),
  );
  expect(await child.exit).toEqual({ code: 0, signal: null });
});

test('pg without a listener on its clients ends the process', async () => {
  const standing = await stand('pg without a listener');
  await using child = start([standing]);
  await child.next(`open ${standing.key}`);
  await succeed(standing);
  expect(await child.exit).toMatchObject({ code: 1 });
  expect(child.output).toContain('terminating connection due to idle-in-transaction timeout');
  expect(await balanceOf(standing)).toBe(100);
});

// That is why the fence's own `write` does not let it. Should this fail with a newer version, the documentation may
// say so.
test('postgres goes on outside of the transaction once it has another connection; protect refuses that', async () => {
  const libraries = ['postgres', 'Drizzle over postgres'];
  const unprotected = await Promise.all(libraries.map((library) => stand(library)));
  const guarded = await Promise.all(libraries.map((library) => stand(library, 'protected_accounts')));
  await using child = start([...unprotected, ...guarded]);
  const goOn = async (each: Standing) => {
    await child.next(`open ${each.key}`);
    await succeed(each);
    expect(await child.next(`ended ${each.key}`), each.library).toHaveProperty('error.message');
    await child.next(`another transaction ${each.key}`);
    child.send(`go on ${each.key}`);
    return child.next(`went on ${each.key}`);
  };
  await Promise.all([
    ...unprotected.map(async (each) => {
      expect(await goOn(each), each.library).toMatchObject({ error: null });
      expect(await balanceOf(each), each.library).toBe(99);
    }),
    ...guarded.map(async (each) => {
      expect(await goOn(each), each.library).toMatchObject({ error: { code: 'LH002' } });
      expect(await balanceOf(each), each.library).toBe(100);
    }),
  ]);
});
