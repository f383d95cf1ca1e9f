import type { PGlite, Transaction } from '@electric-sql/pglite';
import type { Fence } from '@leasehold/core';
import { postgresFence, type PgPool, type PgPoolClient, type PostgresFence, type TxOf } from '@leasehold/core/postgres';
import type pg from 'pg';
import type postgres from 'postgres';
import { expectTypeOf, test } from 'vitest';

test('tx is what the client’s own transactions are', () => {
  expectTypeOf<TxOf<pg.Pool>>().toEqualTypeOf<pg.PoolClient>();
  expectTypeOf<TxOf<postgres.Sql>>().toEqualTypeOf<postgres.TransactionSql>();
  expectTypeOf<TxOf<postgres.Sql<{ bigint: bigint }>>>().toEqualTypeOf<postgres.TransactionSql<{ bigint: bigint }>>();
  expectTypeOf<TxOf<PGlite>>().toEqualTypeOf<Transaction>();
  expectTypeOf<TxOf<PgPool>>().toEqualTypeOf<PgPoolClient>();
});

test('the fence is made of the clients themselves, and takes no other', () => {
  const make = (pool: pg.Pool, sql: postgres.Sql, db: PGlite): void => {
    expectTypeOf(postgresFence(pool)).toEqualTypeOf<PostgresFence<pg.PoolClient>>();
    expectTypeOf(postgresFence(sql, { name: 'ledger' })).toEqualTypeOf<PostgresFence<postgres.TransactionSql>>();
    expectTypeOf(postgresFence(db)).toEqualTypeOf<PostgresFence<Transaction>>();
    expectTypeOf(postgresFence(pool)).toExtend<Fence>();
    const written = postgresFence(pool).write({ resource: '', fencingToken: 1, leaseId: '' }, async (tx) => {
      const { rows } = await tx.query<{ n: number }>('select 1 as n');
      return rows;
    });
    expectTypeOf(written).toEqualTypeOf<Promise<{ n: number }[]>>();
    // @ts-expect-error -- a URL is no client
    postgresFence('postgres://localhost');
    // @ts-expect-error -- no such option
    postgresFence(pool, { lockTimeoutMs: 5 });
    // @ts-expect-error -- no such isolation
    postgresFence(pool, { isolation: 'snapshot' });
  };
  expectTypeOf(make).toBeFunction();
});
