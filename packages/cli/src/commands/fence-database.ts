import type { SchemaStatus } from '@leasehold/core/postgres';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type pg from 'pg';
import { CliError, EXIT } from '../exit.ts';
import { escapeText } from '../output/escape.ts';
import type { Output } from '../output/output.ts';
import { outputOf, type Session } from './session.ts';

export interface DatabaseFlags {
  readonly database?: string;
  readonly schema: string;
}

/** A database that a command is connected to. */
export interface Database {
  readonly pool: pg.Pool;
  /** Of the fence, as it was given. */
  readonly schema: string;
  /** `postgres://db-3:5432/shop`, never with a password. */
  readonly address: string;
  /** What the server calls it. */
  readonly name: string;
}

/** Somebody waits for the answer. */
const CONNECT_TIMEOUT_MS = 3000;

export function schemaOption(): Option {
  return new Option('--schema <name>', 'the schema that the fence is in')
    .argParser((text) => {
      if (/^(?!pg_)[a-z_][a-z0-9_]{0,47}$/.test(text)) return text;
      throw new InvalidArgumentError('Give 1 to 48 of a-z 0-9 _, not beginning with a digit or pg_.');
    })
    .default('leasehold');
}

export function withDatabaseFlags(command: Command): Command {
  return command
    .option('-d, --database <url>', 'postgres://host:port/db, or from DATABASE_URL; password also from PGPASSWORD')
    .addOption(schemaOption());
}

/** For people: never with a password. Throws `CliError`, exit 2, for what is no address; its text does not repeat it. */
export function databaseAddress(url: string, origin = '--database'): string {
  if (!/^postgres(?:ql)?:\/\/./.test(url) || !URL.canParse(url)) {
    throw new CliError(EXIT.usage, `${origin} is no address of the form postgres://host:port/database`);
  }
  const { hostname, port, pathname, searchParams } = new URL(url);
  const host = hostname === '' ? (searchParams.get('host') ?? 'localhost') : decoded(hostname);
  return `postgres://${host}:${port || (searchParams.get('port') ?? '5432')}${decoded(pathname)}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Says whom it talks to, gives the database to `body`, and closes it whatever happens. */
export async function withDatabase(
  session: Session,
  command: Command,
  body: (database: Database, output: Output) => Promise<void>,
): Promise<void> {
  const output = outputOf(session, command);
  const { database, schema } = command.opts<DatabaseFlags>();
  const [url, origin] = chosen(database, session.io.env);
  const address = databaseAddress(url, origin);
  const { importPg } = await import('../run/fences.ts');
  const { Pool } = await importPg('--database');
  const pool = poolOf(Pool, url, address);
  // Each question says so by itself.
  pool.on('error', () => {});
  try {
    const { name, role } = await introduce(pool, address);
    const parts = [address, `schema ${schema}`, `role ${role}`, ...(origin === undefined ? [] : [origin])];
    output.note(parts.join(' · '), 'quiet');
    await body({ pool, schema, address, name }, output);
  } catch (error) {
    throw databaseFailure(error, address);
  } finally {
    await pool.end();
  }
}

function chosen(flag: string | undefined, env: Session['io']['env']): readonly [url: string, origin?: string] {
  if (flag !== undefined) return [flag];
  const url = env['DATABASE_URL'];
  if (url !== undefined && url !== '') return [url, 'DATABASE_URL'];
  throw new CliError(
    EXIT.usage,
    'no database is named: give --database, or set DATABASE_URL',
    'leasehold fence status -d postgres://127.0.0.1:5432/shop',
  );
}

function poolOf(Pool: typeof pg.Pool, url: string, address: string): pg.Pool {
  try {
    return new Pool({ connectionString: url, max: 1, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  } catch (error) {
    // Its parameters may name files, of certificates.
    throw new CliError(EXIT.usage, `${address} cannot be used: ${(error as Error).message}`);
  }
}

async function introduce(pool: pg.Pool, address: string): Promise<{ readonly name: string; readonly role: string }> {
  try {
    const { rows } = await pool.query<{ name: string; role: string }>(
      'select current_database()::text as name, current_user::text as role',
    );
    return rows[0] ?? { name: '', role: '' };
  } catch (error) {
    throw unreachable(error, address);
  }
}

/** SQLSTATEs: of a session that has ended, of a server that takes none, of one who may not come in. */
const UNREACHABLE = /^(?:08|28|53|57P|3D000)/;
const SQLSTATE = /^(?!E|P[1-9])[0-9A-Z]{5}$/;

/** An error of the database, with what to do. Others as they are. */
function databaseFailure(error: unknown, address: string): unknown {
  if (!(error instanceof Error) || error instanceof CliError || Symbol.for('leasehold.error') in error) return error;
  const { code = '', message } = error as pg.DatabaseError;
  if (!SQLSTATE.test(code) || UNREACHABLE.test(code)) return unreachable(error, address);
  if (code === '42501') {
    return new CliError(
      EXIT.no,
      `${address}: ${message}; nothing was changed`,
      'the same command as the owner of the schema',
    );
  }
  // read_only_sql_transaction: a standby, or a role or database that is set so.
  if (code === '25006') {
    return new CliError(
      EXIT.no,
      `${address} is a standby, or set to read only: ${message}; nothing was changed`,
      'the same command at the primary',
    );
  }
  if (code === '55P03') {
    return new CliError(
      EXIT.no,
      `${address}: a transaction that is open holds the lock that this needs; nothing was changed`,
      'the same command again, or look into pg_stat_activity',
    );
  }
  return error;
}

function unreachable(error: unknown, address: string): CliError {
  const { message, code } = error as { readonly message?: string; readonly code?: string };
  return new CliError(EXIT.unreachable, `cannot reach ${address}: ${escapeText(message || (code ?? String(error)))}`);
}

/** Throws `CliError`, exit 3, where the fence is missing or older than this program. */
export function checkInstalled({ state }: SchemaStatus, { address, schema }: Database): void {
  if (state === 'current' || state === 'newer') return;
  const what =
    state === 'missing' ? `no fence is in schema ${schema} of` : `the fence in schema ${schema} is outdated in`;
  throw new CliError(EXIT.no, `${what} ${address}`, 'leasehold fence install');
}
