import { type Command, Option } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { formatDuration } from '../output/time.ts';
import { checkInstalled, withDatabase, withDatabaseFlags, type Database } from './fence-database.ts';
import { durationFlag } from './flags.ts';
import type { Session } from './session.ts';

interface PruneFlags {
  readonly olderThan: string;
  readonly yes?: boolean;
}

const DAY_MS = 24 * 60 * 60 * 1000;

export function addFencePrune(fence: Command, session: Session): Command {
  const command = fence
    .command('prune')
    .summary('forget resources that had no new grant for long')
    .description(
      'Tells how many rows would go; with --yes they go. No old owner gets in by that: the horizon is raised to the highest token that is forgotten, and a resource without a row admits only tokens above it. So give longer than any lease is held: an owner whose grant is older loses its lease at its next write. Rows in use stay. The role needs DELETE.',
    )
    .addOption(
      new Option('--older-than <duration>', 'since their last grant or seal, 1d or more, such as 90d')
        .argParser(durationFlag)
        .makeOptionMandatory(),
    )
    .option('--yes', 'do it; without it nothing changes');
  return withDatabaseFlags(command).action(async ({ olderThan, yes = false }: PruneFlags, its: Command) => {
    const { parseDuration } = await import('@leasehold/core');
    const ageMs = parseDuration('--older-than', olderThan === '0' ? 0 : olderThan);
    if (ageMs < DAY_MS) {
      throw new CliError(
        EXIT.usage,
        `--older-than is ${olderThan}: must be a day or more, because a token may be a day ahead of its clock`,
        'leasehold fence prune --older-than 90d',
      );
    }
    await withDatabase(session, its, async (database, output) => {
      const { schemaStatus } = await import('@leasehold/core/postgres');
      const { pool, schema, address, name } = database;
      const status = await schemaStatus(pool, { schema, limit: 0 });
      checkInstalled(status, database);
      const old = await oldRows(database, ageMs);
      const removed = yes ? await prune(database, ageMs) : 0;
      const horizon = yes
        ? (await schemaStatus(pool, { schema, limit: 0 })).horizon
        : Math.max(status.horizon, old.highest);
      const age = formatDuration(ageMs);
      if (output.isJson) {
        const fields = { database: address, schemaName: schema, olderThanMs: ageMs, isDryRun: !yes };
        return output.json('fence-prune', { ...fields, rows: status.rows, old: old.count, removed, horizon });
      }
      if (yes)
        return output.line(`${removed} of ${status.rows} rows of ${name} are forgotten; the horizon is at ${horizon}`);
      output.line(`${old.count} of ${status.rows} rows of ${name} are older than ${age}`);
      if (old.count === 0) return;
      output.note(
        `The horizon would rise from ${status.horizon} to ${horizon}: whoever has a grant older than that is refused.`,
      );
      output.note('Nothing was changed. The same with --yes does it.');
    });
  });
}

async function oldRows(
  { pool, schema }: Database,
  ageMs: number,
): Promise<{ readonly count: number; readonly highest: number }> {
  const { rows } = await pool.query<{ count: string; highest: string | null }>(
    `select count(*)::text as count, max(token)::text as highest from "${schema}".fence
     where changed_at < clock_timestamp() - make_interval(secs => $1)`,
    [ageMs / 1000],
  );
  const [row] = rows;
  return { count: Number(row?.count ?? 0), highest: Number(row?.highest ?? 0) };
}

/** The library's own function, whose rules these are. Returns how many rows went. */
async function prune({ pool, schema }: Database, ageMs: number): Promise<number> {
  const { rows } = await pool.query<{ removed: string }>(
    `select "${schema}".prune(make_interval(secs => $1))::text as removed`,
    [ageMs / 1000],
  );
  return Number(rows[0]?.removed ?? 0);
}
