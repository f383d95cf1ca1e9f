// A fenced write in a transaction of one's own, with each client. The documentation quotes these functions.
import type { Lease } from '@leasehold/core';
import type { PostgresFence } from '@leasehold/core/postgres';
import { eq, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { integer, pgTable } from 'drizzle-orm/pg-core';
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js';
import type { Knex } from 'knex';
import { CompiledQuery, type Kysely } from 'kysely';
import type { Pool } from 'pg';
import type { Sql } from 'postgres';
import type { PrismaClient } from './prisma-client.ts';

/** Over whatever client: that is for its own `write` and `activate`. */
export type Ledger = PostgresFence<unknown>;

export async function withPg(pool: Pool, ledger: Ledger, lease: Lease, amount: number): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query(ledger.guardSql(lease));
    await client.query('update accounts set balance = balance - $1 where id = 42', [amount]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}

/** A session that the server ends is an `error` event: of the pool, and of a client that is checked out. Unheard it ends the process. */
export function listening(pool: Pool): Pool {
  const report = (error: Error): void => console.error('PostgreSQL:', error.message);
  return pool.on('error', report).on('connect', (client) => client.on('error', report));
}

// With postgres 3.4, also under Drizzle, a transaction whose session was ended goes on outside of it, past its guard. Protect
// the tables as well (`leasehold.protect`), or write by `ledger.write` over the instance of postgres.
export async function withPostgresJs(db: Sql, ledger: Ledger, lease: Lease, amount: number): Promise<void> {
  await db.begin(async (tx) => {
    await tx.unsafe(ledger.guardSql(lease));
    await tx`update accounts set balance = balance - ${amount} where id = 42`;
  });
}

const accounts = pgTable('accounts', { id: integer().primaryKey(), balance: integer().notNull() });

type Drizzle = NodePgDatabase | PostgresJsDatabase;

export async function withDrizzle(db: Drizzle, ledger: Ledger, lease: Lease, amount: number): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(ledger.guardSql(lease));
    await tx
      .update(accounts)
      .set({ balance: sql`balance - ${amount}` })
      .where(eq(accounts.id, 42));
  });
}

export interface Tables {
  accounts: { id: number; balance: number };
}

export async function withKysely(db: Kysely<Tables>, ledger: Ledger, lease: Lease, amount: number): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await tx.executeQuery(CompiledQuery.raw(ledger.guardSql(lease)));
    await tx
      .updateTable('accounts')
      .set((row) => ({ balance: row('balance', '-', amount) }))
      .where('id', '=', 42)
      .execute();
  });
}

export async function withKnex(knex: Knex, ledger: Ledger, lease: Lease, amount: number): Promise<void> {
  await knex.transaction(async (tx) => {
    await tx.raw(ledger.guardSql(lease));
    await tx('accounts').where({ id: 42 }).decrement('balance', amount);
  });
}

export async function withPrisma(prisma: PrismaClient, ledger: Ledger, lease: Lease, amount: number): Promise<void> {
  await prisma.$transaction(async (tx) => {
    await tx.$executeRawUnsafe(ledger.guardSql(lease));
    await tx.account.update({ where: { id: 42 }, data: { balance: { decrement: amount } } });
  });
}

/** For a Prisma in which an error of the database would spoil what comes after it. The answer must be looked at. */
export async function withPrismaAsking(
  prisma: PrismaClient,
  ledger: Ledger,
  lease: Lease,
  amount: number,
): Promise<void> {
  await prisma.$transaction(async (tx) => {
    const [answer] = await tx.$queryRawUnsafe<{ admit: boolean }[]>(ledger.admitSql(lease));
    if (answer?.admit !== true) throw new Error(`${lease.resource}: a later owner has begun`);
    await tx.account.update({ where: { id: 42 }, data: { balance: { decrement: amount } } });
  });
}
