import type { SchemaStatus } from '@leasehold/core/postgres';
import { type Command, Option } from 'commander';
import { EXIT } from '../exit.ts';
import { tokenText } from '../output/lease.ts';
import type { Output } from '../output/output.ts';
import type { Tone } from '../output/style.ts';
import { withDatabase, withDatabaseFlags, type Database } from './fence-database.ts';
import { countFlag } from './flags.ts';
import type { Session } from './session.ts';

const ROWS = 10;

export function addFenceStatus(fence: Command, session: Session): Command {
  const command = fence
    .command('status')
    .summary('is it installed, what does it protect, what are the highest tokens')
    .description(
      'Reads, and changes nothing. Tells the version, of how many resources a grant is kept and the highest of them, which tables refuse a write without a guard, and how many transactions have bypassed that. Exit 3 if the fence is missing or outdated.',
    )
    .addOption(
      new Option('-n, --limit <count>', 'how many of the highest tokens, 1 to 1000').argParser(countFlag).default(ROWS),
    );
  return withDatabaseFlags(command).action(async ({ limit }: { readonly limit: number }, its: Command) => {
    await withDatabase(session, its, async (database, output) => {
      const { schemaStatus } = await import('@leasehold/core/postgres');
      const status = await schemaStatus(database.pool, { schema: database.schema, limit });
      if (output.isJson) {
        output.json('fence-status', { database: database.address, schemaName: database.schema, ...status });
      } else await show(output, database, status);
      if (status.state === 'current' || status.state === 'newer') return;
      session.exit = EXIT.no;
      output.note('Next: leasehold fence install');
    });
  });
}

async function show(output: Output, { name, schema }: Database, status: SchemaStatus): Promise<void> {
  const { state, version, latest, isStandby, rows, horizon, bypasses, protectedTables, highest } = status;
  const [word, tone] = STATES[state];
  const fields: (readonly [string, string, Tone?])[] = [
    ['database', name],
    ['schema', schema],
    ...(isStandby ? [STANDBY] : []),
    ['state', state === 'missing' ? word : `${word}, version ${version} (this program: ${latest})`, tone],
  ];
  if (state !== 'missing') {
    fields.push(
      ['resources', String(rows)],
      ['horizon', horizon === 0 ? '-' : `${tokenText(horizon)}: a resource without a row needs a higher token`],
      ['bypasses', bypasses === null ? 'not told to this role' : String(bypasses)],
      [
        'protected',
        protectedTables.length === 0 ? 'no table; writes through the fence are checked' : `${protectedTables.length}`,
      ],
    );
  }
  output.fields(fields);
  if (protectedTables.length > 0) {
    output.heading('Protected tables');
    await output.table(
      [{ title: 'TABLE' }, { title: 'TRIGGER' }, { title: 'RESOURCE OF A ROW', yields: 'last' }],
      protectedTables.map(({ table, isEnabled, expression }) => [
        { text: table },
        isEnabled ? { text: 'on', tone: 'good' } : { text: 'DISABLED', tone: 'bad' },
        { text: expression },
      ]),
    );
  }
  if (highest.length === 0) return;
  output.heading(highest.length < rows ? `The ${highest.length} highest of ${rows} tokens` : 'Tokens');
  await output.table(
    [
      { title: 'RESOURCE', yields: 'first' },
      { title: 'TOKEN', align: 'right' },
      { title: 'SINCE' },
      { title: 'LEASE', yields: 'last' },
    ],
    highest.map(({ resource, fencingToken, changedAt, leaseId }) => [
      { text: resource },
      { text: tokenText(fencingToken) },
      { text: output.instant(changedAt) },
      leaseId === null ? { text: 'SEALED', tone: 'warning' } : { text: leaseId },
    ]),
  );
}

const STANDBY = ['server', 'STANDBY: as far as it has come; only its primary admits and refuses', 'warning'] as const;

const STATES: Readonly<Record<SchemaStatus['state'], readonly [word: string, tone: Tone]>> = {
  missing: ['MISSING', 'bad'],
  outdated: ['OUTDATED', 'bad'],
  current: ['INSTALLED', 'good'],
  newer: ['INSTALLED', 'good'],
};
