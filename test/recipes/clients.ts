import type { Lease } from '@leasehold/core';
import { PrismaPg } from '@prisma/adapter-pg';
import { drizzle as drizzlePg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleJs } from 'drizzle-orm/postgres-js';
import createKnex from 'knex';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { PrismaClient } from './prisma-client.ts';
import {
  listening,
  withDrizzle,
  withKnex,
  withKysely,
  withPg,
  withPostgresJs,
  withPrisma,
  type Ledger,
  type Tables,
} from './recipes.ts';

export type Send = (sql: string) => Promise<unknown>;

/** A client library with its recipe. */
export interface Client extends AsyncDisposable {
  /** The recipe: takes `amount` from account 42. */
  withdraw(ledger: Ledger, lease: Lease, amount: number): Promise<void>;
  /** A transaction as this library makes it, with statements as they are. */
  transaction(body: (send: Send) => Promise<unknown>): Promise<unknown>;
}

/** Each over `connections` connections of its own. */
export const clients: Readonly<Record<string, (url: string, connections?: number) => Client>> = {
  pg(url, max = 2) {
    const pool = listening(new pg.Pool({ connectionString: url, max }));
    return {
      withdraw: (...args) => withPg(pool, ...args),
      async transaction(body) {
        const client = await pool.connect();
        try {
          await client.query('begin');
          await body((sql) => client.query(sql));
          await client.query('commit');
        } catch (error) {
          await client.query('rollback').catch(() => {});
          throw error;
        } finally {
          client.release();
        }
      },
      [Symbol.asyncDispose]: () => pool.end(),
    };
  },

  postgres(url, max = 2) {
    const db = postgres(url, { max });
    return {
      withdraw: (...args) => withPostgresJs(db, ...args),
      transaction: (body) => db.begin((tx) => body((sql) => tx.unsafe(sql))),
      [Symbol.asyncDispose]: () => db.end(),
    };
  },

  'Drizzle over pg'(url, max = 2) {
    const pool = listening(new pg.Pool({ connectionString: url, max }));
    const db = drizzlePg(pool);
    return {
      withdraw: (...args) => withDrizzle(db, ...args),
      transaction: (body) => db.transaction((tx) => body((sql) => tx.execute(sql))),
      [Symbol.asyncDispose]: () => pool.end(),
    };
  },

  'Drizzle over postgres'(url, max = 2) {
    const client = postgres(url, { max });
    const db = drizzleJs(client);
    return {
      withdraw: (...args) => withDrizzle(db, ...args),
      transaction: (body) => db.transaction((tx) => body(async (sql) => tx.execute(sql))),
      [Symbol.asyncDispose]: () => client.end(),
    };
  },

  Kysely(url, max = 2) {
    const pool = listening(new pg.Pool({ connectionString: url, max }));
    const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
    return {
      withdraw: (...args) => withKysely(db, ...args),
      transaction: (body) => db.transaction().execute((tx) => body((sql) => tx.executeQuery(CompiledQuery.raw(sql)))),
      [Symbol.asyncDispose]: () => db.destroy(),
    };
  },

  Knex(url, max = 2) {
    const knex = createKnex({ client: 'pg', connection: url, pool: { min: 0, max } });
    return {
      withdraw: (...args) => withKnex(knex, ...args),
      transaction: (body) => knex.transaction((tx) => body(async (sql) => tx.raw(sql))),
      [Symbol.asyncDispose]: () => knex.destroy(),
    };
  },

  Prisma(url, max = 2) {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max }) });
    return {
      withdraw: (...args) => withPrisma(prisma, ...args),
      transaction: (body) => prisma.$transaction((tx) => body((sql) => tx.$executeRawUnsafe(sql))),
      [Symbol.asyncDispose]: () => prisma.$disconnect(),
    };
  },
};
