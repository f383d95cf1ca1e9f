import type { Clock } from '../clock.ts';
import { ConfigError } from '../errors.ts';
import type { Driver } from './driver.ts';
import { PgDriver, type PgPool, type PgPoolClient } from './pg.ts';
import { PGliteDriver, type PGliteLike } from './pglite.ts';
import { PostgresJsDriver, type PostgresJs } from './postgres-js.ts';

/** What the fence can work with: a pool of `pg`, an instance of `postgres`, or a PGlite. */
export type PostgresClient = PgPool | PostgresJs | PGliteLike;

/** What the body of a write gets from such a client. Overloads are inferred only where both sides have them. */
export type TxOf<Client> = Client extends {
  begin: { (scope: (tx: infer Tx) => unknown): unknown; (options: string, scope: (tx: infer _) => unknown): unknown };
}
  ? Tx
  : Client extends { transaction: (scope: (tx: infer Tx) => Promise<unknown>) => Promise<unknown> }
    ? Tx
    : Client extends { connect: { (): Promise<infer Lent>; (done: infer _): void } }
      ? Lent
      : Client extends { connect: () => Promise<infer Lent> }
        ? Lent
        : never;

/** Throws `ConfigError` for what is no such client. */
export function driverOf<Tx>(client: unknown, clock: Clock): Driver<Tx> {
  const has = (name: string): boolean =>
    typeof (client as Record<string, unknown> | null | undefined)?.[name] === 'function';
  if (has('begin') && has('unsafe')) {
    if (has('savepoint'))
      throw new ConfigError('client', 'is a transaction; give the instance that postgres() returned');
    return new PostgresJsDriver<Tx>(client as PostgresJs, clock);
  }
  if (has('transaction') && has('exec')) return new PGliteDriver<Tx>(client as PGliteLike, clock);
  if (has('connect') && has('query')) {
    if (has('release') || has('escapeIdentifier') || has('getTypeParser')) {
      throw new ConfigError(
        'client',
        'is a single Client of pg; give a Pool: a write needs a connection of its own, and one connection cannot run two transactions side by side',
      );
    }
    return new PgDriver(client as PgPool, clock) as Driver<PgPoolClient> as unknown as Driver<Tx>;
  }
  throw new ConfigError('client', 'must be a Pool of pg, what postgres() returned, or a PGlite');
}
