import { PGlite, type Transaction } from '@electric-sql/pglite';
import { installSchema, postgresFence, type PostgresFence, type PostgresFenceOptions } from '@leasehold/core/postgres';
import type { FenceSubject } from '@leasehold/core/testing';
import pg from 'pg';
import postgres from 'postgres';

import { createDatabase } from '../support/postgres.ts';

export const nowUs = (): number => Date.now() * 1000;

/** Questions of the test itself, on connections of their own. */
export function connectPool(url: string, options: pg.PoolConfig = {}): pg.Pool & AsyncDisposable {
  const pool = new pg.Pool({ connectionString: url, ...options });
  pool.on('error', () => {}); // every query reports its own failure
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.end() });
}

export function connectPostgresJs(url: string, options: postgres.Options<{}> = {}): postgres.Sql & AsyncDisposable {
  const sql = postgres(url, { onnotice: () => {}, ...options });
  return Object.assign(sql, { [Symbol.asyncDispose]: () => sql.end({ timeout: 1 }) });
}

const LOG = `create table if not exists log (
  at bigint generated always as identity, resource text not null, entry text not null
)`;
const APPEND = 'insert into log (resource, entry) values ($1, $2)';
const ENTRIES = 'select entry from log where resource = $1 order by at';
/** Siblings stand in a line of their own: FOR SHARE lets them in side by side. */
const LINE = 'select pg_advisory_xact_lock(hashtext($1))';
const COUNT = 'select count(*)::int as n from log where resource = $1';

export interface Site extends AsyncDisposable {
  readonly url: string;
}

/** A database with the schema and a log. */
export async function createSite(serverUrl: string): Promise<Site> {
  const database = await createDatabase(serverUrl);
  await using pool = connectPool(database.url, { max: 1 });
  await installSchema(pool);
  await pool.query(LOG);
  return database;
}

/** A subject of the suite over `pg`. */
export function pgSubject(url: string, options: PostgresFenceOptions = {}): FenceSubject<pg.PoolClient> {
  const pools: pg.Pool[] = [];
  const open = (): PostgresFence<pg.PoolClient> => {
    const pool = connectPool(url);
    pools.push(pool);
    return postgresFence(pool, options);
  };
  const fence = open();
  return {
    fence,
    nowUs,
    append: (tx, resource, entry) => tx.query(APPEND, [resource, entry]),
    entries: async (resource) =>
      (await pools[0]!.query<{ entry: string }>(ENTRIES, [resource])).rows.map(({ entry }) => entry),
    count: async (tx, resource) => {
      await tx.query(LINE, [resource]);
      return (await tx.query<{ n: number }>(COUNT, [resource])).rows[0]!.n;
    },
    second: async () => open(),
    close: async () => {
      for (const pool of pools) await pool.end();
    },
  };
}

export function postgresJsSubject(
  url: string,
  options: PostgresFenceOptions = {},
): FenceSubject<postgres.TransactionSql> {
  const clients: postgres.Sql[] = [];
  const open = (): PostgresFence<postgres.TransactionSql> => {
    const sql = connectPostgresJs(url);
    clients.push(sql);
    return postgresFence(sql, options);
  };
  const fence = open();
  return {
    fence,
    nowUs,
    append: (tx, resource, entry) => tx`insert into log (resource, entry) values (${resource}, ${entry})`,
    entries: async (resource) =>
      (await clients[0]!<{ entry: string }[]>`select entry from log where resource = ${resource} order by at`).map(
        ({ entry }) => entry,
      ),
    count: async (tx, resource) => {
      await tx`select pg_advisory_xact_lock(hashtext(${resource}))`;
      return (await tx<{ n: number }[]>`select count(*)::int as n from log where resource = ${resource}`)[0]!.n;
    },
    second: async () => open(),
    close: async () => {
      for (const sql of clients) await sql.end({ timeout: 1 });
    },
  };
}

/** A PGlite has one connection: its second fence is a second fence over it. */
export function pgliteSubject(db: PGlite, options: PostgresFenceOptions = {}): FenceSubject<Transaction> {
  return {
    fence: postgresFence(db, options),
    nowUs,
    append: (tx, resource, entry) => tx.query(APPEND, [resource, entry]),
    entries: async (resource) =>
      (await db.query<{ entry: string }>(ENTRIES, [resource])).rows.map(({ entry }) => entry),
    count: async (tx, resource) => (await tx.query<{ n: number }>(COUNT, [resource])).rows[0]!.n,
    second: async () => postgresFence(db, options),
    close: async () => {},
  };
}

export async function createPglite(): Promise<PGlite> {
  const db = new PGlite();
  await installSchema(db);
  await db.exec(LOG);
  return db;
}
