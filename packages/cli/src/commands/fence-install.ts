import type { Command } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { checkConfirmable, confirmByName } from './confirm.ts';
import { schemaOption, withDatabase, withDatabaseFlags } from './fence-database.ts';
import { outputOf, type Session } from './session.ts';

export function addFenceSql(fence: Command, session: Session): Command {
  return fence
    .command('sql')
    .summary('print the migration, for your migration tool')
    .description(
      'Prints the SQL that install runs: one statement, done whole or not at all, which may be run again and by several at once. PostgreSQL 13 or later.',
    )
    .addOption(schemaOption())
    .action(async ({ schema }: { readonly schema: string }, command: Command) => {
      if (outputOf(session, command).isJson) throw new CliError(EXIT.usage, 'a migration has no JSON form');
      const { schemaSql } = await import('@leasehold/core/postgres');
      session.io.stdout.write(schemaSql({ schema }));
    });
}

export function addFenceInstall(fence: Command, session: Session): Command {
  const command = fence
    .command('install')
    .summary('install the fence in a database, or bring it up to date')
    .description(
      'Says what it will do, asks, and runs the migration that sql prints, in one transaction. It makes tables and functions in a schema of their own and touches no other table; the role needs CREATE on the database. Done already: exit 0.',
    )
    .option('--yes', 'do not ask; needed where there is no terminal');
  return withDatabaseFlags(command).action(async ({ yes }: { readonly yes?: boolean }, its: Command) => {
    checkConfirmable(session.io, yes === true, its);
    await withDatabase(session, its, async ({ pool, schema, address, name }, output) => {
      const { installSchema, schemaStatus } = await import('@leasehold/core/postgres');
      const tell = (outcome: 'installed' | 'updated' | 'unchanged', version: number, text: string): void => {
        if (output.isJson) output.json('fence-install', { database: address, schemaName: schema, outcome, version });
        else output.line(text);
      };
      const before = await schemaStatus(pool, { schema, limit: 0 });
      const { state, version, latest } = before;
      if (state === 'current' || state === 'newer') {
        return tell('unchanged', version, `version ${version} is installed in schema ${schema} of ${name} already`);
      }
      output.warn(
        state === 'missing'
          ? `In ${name}: makes schema ${schema} with the fence, version ${latest} (its tables, and functions in PL/pgSQL).`
          : `In ${name}: brings the fence in schema ${schema} from version ${version} to ${latest}.`,
      );
      output.warn('No other table is touched, and nothing is fenced until a process writes through it.');
      if (yes !== true) await confirmByName(session.io, 'One transaction: all of it, or nothing.', name);
      await installSchema(pool, { schema });
      tell(
        state === 'missing' ? 'installed' : 'updated',
        latest,
        `installed: version ${latest}, in schema ${schema} of ${name}`,
      );
      for (const line of grants(schema)) output.note(line, 'quiet');
    });
  });
}

/** What a role that only writes needs. */
function grants(schema: string): readonly string[] {
  return [
    'Roles that write through it need:',
    `  grant usage on schema "${schema}" to <role>;`,
    `  grant select, insert, update on "${schema}".fence to <role>;`,
    `  grant select, update on "${schema}".horizon to <role>;`,
  ];
}
