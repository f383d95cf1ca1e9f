import type { Command } from 'commander';
import type pg from 'pg';
import { CliError, EXIT } from '../exit.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { checkInstalled, withDatabase, withDatabaseFlags } from './fence-database.ts';
import type { Session } from './session.ts';

interface ProtectFlags {
  readonly remove?: boolean;
  readonly yes?: boolean;
}

/** Who waits for the lock of a table holds up everybody behind. */
const LOCK_TIMEOUT = '3s';

export function addFenceProtect(fence: Command, session: Session): Command {
  const command = fence
    .command('protect')
    .summary('make a table refuse writes without a guard')
    .description(
      "Installs triggers: a row that is inserted, updated or deleted without a guard of its resource in the same transaction is refused (LH002), and so is TRUNCATE. The expression gives the qualified name of a row's resource, <prefix>/<resource>. It catches the code path that somebody forgot. Again: replaces the expression. It needs a lock on the table, and gives up after 3 s of waiting for it.",
    )
    .argument('<table>', 'as in SQL, such as accounts or shop.accounts')
    .argument('[expression]', `over NEW, such as "'shop/account:' || NEW.id"`)
    .option('--remove', 'take the protection back')
    .option('--yes', 'do not ask; needed where there is no terminal');
  return withDatabaseFlags(command).action(
    async (
      table: string,
      expression: string | undefined,
      { remove = false, yes = false }: ProtectFlags,
      its: Command,
    ) => {
      if (remove === (expression !== undefined)) {
        throw new CliError(
          EXIT.usage,
          remove ? '--remove takes no expression' : 'an expression is missing: which resource is a row of?',
          `leasehold fence protect accounts "'shop/account:' || NEW.id"`,
        );
      }
      checkConfirmable(session.io, yes, its);
      await withDatabase(session, its, async (database, output) => {
        const { pool, schema, address, name } = database;
        const { schemaStatus } = await import('@leasehold/core/postgres');
        checkInstalled(await schemaStatus(pool, { schema, limit: 0 }), database);
        output.warn(
          expression === undefined
            ? `In ${name}: ${table} will take writes without a guard again.`
            : `In ${name}: from then on ${table} refuses each row that is written without a guard of ${expression}. Whoever does that today fails.`,
        );
        if (!yes) await confirmByName(session.io, 'The triggers will be changed.', table);
        const sql =
          expression === undefined
            ? `select "${schema}".unprotect($1::regclass) as done`
            : `select "${schema}".protect($1::regclass, $2) as done`;
        const done = await change(pool, sql, [table, ...(expression === undefined ? [] : [expression])]);
        const outcome = expression === undefined ? (done ? 'removed' : 'unchanged') : 'protected';
        if (output.isJson) {
          output.json('fence-protect', {
            database: address,
            schemaName: schema,
            table,
            expression: expression ?? null,
            outcome,
          });
        } else if (outcome === 'unchanged') output.line(`${table} was not protected`);
        else output.line(outcome === 'removed' ? `${table} is no longer protected` : `${table} is protected`);
        if (outcome === 'unchanged') session.exit = EXIT.no;
      });
    },
  );
}

async function change(pool: pg.Pool, sql: string, values: readonly string[]): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query(`begin; set local lock_timeout = '${LOCK_TIMEOUT}'`);
    const { rows } = await client.query<{ done: boolean }>(sql, [...values]);
    await client.query('commit');
    return rows[0]?.done === true;
  } catch (error) {
    // Nothing is committed. A connection that is gone has rolled back by itself.
    await client.query('rollback').catch(() => {});
    throw usageOf(error);
  } finally {
    client.release();
  }
}

/** Classes of SQLSTATE: what is wrong with the table, or with the expression. */
const OF_INPUT = /^(?:22|42(?!501)|0A)/;

function usageOf(error: unknown): unknown {
  const { code = '', message, hint } = error as pg.DatabaseError;
  if (!OF_INPUT.test(code)) return error;
  const text = message.replace(/^leasehold: /, '');
  return new CliError(EXIT.usage, `${text}; nothing was changed`, hint ?? 'leasehold fence protect --help');
}
