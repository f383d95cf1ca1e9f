import { PGlite, type Transaction } from '@electric-sql/pglite';
import type { Grant } from '@leasehold/core';
import {
  installSchema,
  postgresFence,
  type PostgresClient,
  type PostgresFence,
  type PostgresFenceOptions,
  type TxOf,
} from '@leasehold/core/postgres';
import type { FenceSubject } from '@leasehold/core/testing';
import pg from 'pg';
import postgres from 'postgres';

import { createDatabase } from '../support/postgres.ts';
import { TcpProxy } from '../support/proxy.ts';
import { uniqueName } from '../support/redis-client.ts';

const nowUs = (): number => Date.now() * 1000;

let lastToken = 0;

/** A grant of a resource of its own, later than all before it. */
export function grantFor(resource: string = `test/${uniqueName('resource')}`): Grant {
  lastToken = Math.max(lastToken + 1, nowUs());
  return { resource, fencingToken: lastToken, leaseId: uniqueName('lease') };
}

/** Questions of the test itself, on connections of their own. */
export function connectPool(url: string, options: pg.PoolConfig = {}): pg.Pool & AsyncDisposable {
  const pool = new pg.Pool({ connectionString: url, ...options });
  pool.on('error', () => {}); // every query reports its own failure
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.end() });
}

export function connectPostgresJs(url: string, options: postgres.Options<{}> = {}): postgres.Sql & AsyncDisposable {
  const sql = postgres(url, { onnotice: () => {}, ...options });
  return Object.assign(sql, { [Symbol.asyncDispose]: () => sql.end({ timeout: 0 }) });
}

/**
 * Whether a commit can be proved although there was a checkpoint since, from PostgreSQL 15 on. Other files of tests drop
 * databases on the same server, and each of these is a checkpoint.
 */
export async function canTellOutcomes(pool: pg.Pool): Promise<boolean> {
  const { rows } = await pool.query<{ can: boolean }>(
    `select current_setting('server_version_num')::int >= 150000 as can`,
  );
  return rows[0]!.can;
}

/** Resolves when so many sessions of this database wait for a lock, or when `isOver`. */
export async function isBlocked(pool: pg.Pool, sessions: number, isOver: () => boolean = () => false): Promise<void> {
  while (!isOver()) {
    const { rows } = await pool.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    if (rows[0]!.n >= sessions) return;
  }
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

/** COMMIT in the simple or in the extended protocol; not the isolation level. */
// oxlint-disable-next-line no-control-regex -- bytes of the protocol
export const COMMIT: RegExp = /(?:[\0-\x1f]|; )commit\0/i;

/** A proxy before the database of `url`, and the address through it. */
export async function proxyTo(url: string): Promise<{ readonly proxy: TcpProxy; readonly url: string }> {
  const proxy = await TcpProxy.start({ port: Number(new URL(url).port) });
  const through = new URL(url);
  through.port = String(proxy.port);
  return { proxy, url: through.href };
}

/** A kind of client, for a subject before the log of a site. */
interface Kind<Client extends PostgresClient> {
  open(url: string): Client;
  append(tx: TxOf<Client>, resource: string, entry: string): PromiseLike<unknown>;
  count(tx: TxOf<Client>, resource: string): Promise<number>;
  end(client: Client): Promise<void>;
}

const overPg: Kind<pg.Pool> = {
  open: (url) => connectPool(url),
  append: (tx, resource, entry) => tx.query(APPEND, [resource, entry]),
  async count(tx, resource) {
    await tx.query(LINE, [resource]);
    const { rows } = await tx.query<{ n: number }>(COUNT, [resource]);
    return rows[0]!.n;
  },
  end: (pool) => pool.end(),
};

const overPostgresJs: Kind<postgres.Sql> = {
  // Without prepared statements, so that the proxy can read what is sent.
  open: (url) => connectPostgresJs(url, { prepare: false, backoff: () => 0 }),
  append: (tx, resource, entry) => tx`insert into log (resource, entry) values (${resource}, ${entry})`,
  async count(tx, resource) {
    await tx`select pg_advisory_xact_lock(hashtext(${resource}))`;
    const [row] = await tx<{ n: number }[]>`select count(*)::int as n from log where resource = ${resource}`;
    return row!.n;
  },
  end: (sql) => sql.end({ timeout: 0 }),
};

/** How long an owner that stops may stand still in its transaction. Milliseconds. */
const IDLE_MS = 400;

async function subjectOver<Client extends PostgresClient>(
  kind: Kind<Client>,
  url: string,
  options: PostgresFenceOptions,
): Promise<FenceSubject<TxOf<Client>>> {
  const { proxy, url: throughProxy } = await proxyTo(url);
  const reader = connectPool(url, { max: 1 });
  const clients: Client[] = [];
  const open = (to: string, more: PostgresFenceOptions = {}): PostgresFence<TxOf<Client>> => {
    const client = kind.open(to);
    clients.push(client);
    return postgresFence(client, { ...options, ...more });
  };
  const fence = open(throughProxy);
  const ends: (() => Promise<unknown>)[] = [];
  const canTell = await canTellOutcomes(reader);
  return {
    fence,
    outcomeUnknown: !canTell,
    nowUs,
    append: (tx, resource, entry) => kind.append(tx, resource, entry),
    entries: async (resource) => {
      const { rows } = await reader.query<{ entry: string }>(ENTRIES, [resource]);
      return rows.map(({ entry }) => entry);
    },
    count: (tx, resource) => kind.count(tx, resource),
    second: async () => open(url),
    loseAnswer: async () => void proxy.loseNextReply(COMMIT),
    loseRequest: async () => void proxy.loseNextRequest(COMMIT),
    async abandon(grant, entry) {
      // Stopped for good, as far as the server can tell: the connection stands, and nothing comes.
      const other = await proxyTo(url);
      const stopped = open(other.url, { idleTimeout: IDLE_MS });
      let hasStopped = (): void => {};
      const standsStill = new Promise<void>((resolve) => (hasStopped = resolve));
      let letGo = (): void => {};
      // It throws, so that nobody asks what became of its COMMIT.
      const end = new Promise<void>((_, reject) => (letGo = () => reject(new Error('gone'))));
      const write = stopped
        .write(grant, async (tx) => {
          await kind.append(tx, grant.resource, entry);
          other.proxy.hold('up', 'down');
          hasStopped();
          await end;
        })
        .catch(() => 'gone');
      ends.push(async () => {
        await other.proxy.close();
        letGo();
        await write;
      });
      await standsStill;
    },
    close: async () => {
      for (const end of ends) await end();
      for (const client of clients) await kind.end(client);
      await reader.end();
      await proxy.close();
    },
  };
}

/** A subject of the suite over `pg`. */
export const pgSubject = (url: string, options: PostgresFenceOptions = {}): Promise<FenceSubject<pg.PoolClient>> =>
  subjectOver(overPg, url, options);

/** A subject of the suite over `postgres`. */
export const postgresJsSubject = (
  url: string,
  options: PostgresFenceOptions = {},
): Promise<FenceSubject<postgres.TransactionSql>> => subjectOver(overPostgresJs, url, options);

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
