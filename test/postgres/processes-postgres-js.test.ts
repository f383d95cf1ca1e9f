// A connection of postgres.js that is lost inside a write, and has a successor before the body goes on.
import { FenceUnavailableError } from '@leasehold/core';
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import postgres, { type Sql, type TransactionSql } from 'postgres';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';

import { createDatabase, type Database } from '../support/postgres.ts';

let database: Database;
let admin: Sql;
/** One connection, so that the next query of anybody takes the place of the lost one. */
let db: Sql;
let tokens = 0;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  admin = postgres(database.url, { max: 2, onnotice: () => {} });
  await installSchema(admin);
  await admin`create table accounts (id integer primary key, balance integer not null)`;
});

beforeEach(async () => {
  db = postgres(database.url, { max: 1, onnotice: () => {} });
  await admin`truncate accounts`;
  await admin`insert into accounts values (1, 0)`;
});

// Nothing that is sent to nobody has ended this process by then: vitest would report it.
afterEach(() => db.end({ timeout: 1 }));

afterAll(async () => {
  await admin.end();
  await database[Symbol.asyncDispose]();
});

async function balance(): Promise<number> {
  const [row] = await admin<{ balance: number }[]>`select balance from accounts`;
  return row?.balance ?? NaN;
}

/** Ends the session of a transaction, and gives the connection to somebody else. */
async function lose(tx: TransactionSql): Promise<void> {
  const [session] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
  await admin`select pg_terminate_backend(${session?.pid ?? 0})`;
  await db`select 1`;
}

const add = (tx: TransactionSql): Promise<unknown> => tx`update accounts set balance = balance + 1`;

/** What a body makes of it. */
const bodies: Readonly<Record<string, (tx: TransactionSql) => Promise<unknown>>> = {
  'goes on writing': async (tx) => {
    await lose(tx);
    await add(tx);
  },
  'swallows every error': async (tx) => {
    await lose(tx);
    for (const query of [() => add(tx), () => tx.unsafe('update accounts set balance = 7'), () => add(tx)]) {
      await query().catch(() => {});
    }
  },
  'sends what it has prepared before': async (tx) => {
    const prepared = [tx`update accounts set balance = 7`, tx.unsafe('update accounts set balance = 8')];
    await lose(tx);
    await Promise.allSettled(prepared);
  },
  'writes and loses the connection while it waits for that': async (tx) => {
    await add(tx);
    const [session] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
    const waiting = tx`select pg_sleep(60)`.catch(() => add(tx));
    waiting.catch(() => {}); // it may reject before it is waited for
    await admin`select pg_terminate_backend(${session?.pid ?? 0})`;
    await waiting;
  },
  'is inside a savepoint': async (tx) => {
    await tx.savepoint(async (inner) => {
      await add(inner);
      await lose(tx);
      await add(inner);
    });
  },
  'opens a savepoint afterwards': async (tx) => {
    await lose(tx);
    await tx.savepoint((inner) => add(inner)).catch(() => {});
    await tx.savepoint(async (inner) => [add(inner)]).catch(() => {});
  },
  'returns as if nothing had happened': async (tx) => {
    await add(tx);
    await lose(tx);
  },
  'throws an error of its own': async (tx) => {
    await add(tx);
    await lose(tx);
    throw new Error('the body’s own');
  },
};

test.each(Object.entries(bodies))('a body that %s: nothing is written, by nobody', async (name, body) => {
  const fence = postgresFence(db);
  const grant = { resource: 'shop/a', fencingToken: ++tokens, leaseId: 'x' };
  const error = await fence.write(grant, body).catch((reason: unknown) => reason);
  if (name === 'throws an error of its own') expect(error).toMatchObject({ message: 'the body’s own' });
  else {
    expect(error).toBeInstanceOf(FenceUnavailableError);
    expect(error).toMatchObject({ outcome: 'not-written' });
  }
  // So that whatever was left in a queue has been sent. The next connection may still reject with the error of the last.
  for (let time = 0; time < 3; time++) await db`select 1`.catch(() => {});
  expect(await balance()).toBe(0);
  await fence.write({ ...grant, fencingToken: ++tokens }, add);
  expect(await balance()).toBe(1);
});

test('a connection that is not lost: queries, lists, fragments and savepoints as postgres.js has them', async () => {
  const fence = postgresFence(db);
  const grant = { resource: 'shop/a', fencingToken: ++tokens, leaseId: 'x' };
  const value = await fence.write(grant, async (tx) => {
    await tx`insert into accounts ${tx([
      { id: 2, balance: 20 },
      { id: 3, balance: 30 },
    ])}`;
    const some = tx`where id in ${tx([1, 2])}`;
    await tx`update ${tx('accounts')} set balance = balance + 1 ${some}`;
    await tx.savepoint('wrong', (inner) => inner`update accounts set balance = 'x'`).catch(() => {});
    const both = await tx.savepoint((inner) => [inner`select 1 as n`, inner`select 2 as n`]);
    expect(both.map(([row]) => row)).toEqual([{ n: 1 }, { n: 2 }]);
    const seen: unknown[] = [];
    await tx`select id from accounts order by id`.cursor(
      2,
      (rows) => void seen.push(...rows.map(({ id }) => id as number)),
    );
    expect(seen).toEqual([1, 2, 3]);
    return tx<{ balance: number }[]>`select balance from accounts order by id`.values();
  });
  expect([...value]).toEqual([[1], [21], [30]]);
});

test('a tx that is kept for later writes nothing', async () => {
  const fence = postgresFence(db);
  let kept: TransactionSql | undefined;
  await fence.write({ resource: 'shop/a', fencingToken: ++tokens, leaseId: 'x' }, (tx) => {
    kept = tx;
  });
  const late = kept as unknown as TransactionSql;
  await expect(add(late)).rejects.toThrow('this transaction is over');
  await expect(late.savepoint((inner) => add(inner))).rejects.toThrow('this transaction is over');
  expect(await balance()).toBe(0);
});
