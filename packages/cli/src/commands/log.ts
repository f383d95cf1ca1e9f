import { writeFile } from 'node:fs/promises';
import type { HistoryEntry } from '@leasehold/core';
import type { Command } from 'commander';
import { Option } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { eventTable } from '../output/events.ts';
import type { Output } from '../output/output.ts';
import { countFlag } from './flags.ts';
import { outputOf, withLeases, type Session } from './session.ts';
import { noRecord } from './show.ts';

interface LogFlags {
  readonly limit: number;
  /** True: to the standard output. */
  readonly svg?: string | true;
}

const ALL = 64;

export function addLog(program: Command, session: Session): Command {
  return program
    .command('log')
    .summary('ownership timeline of one resource, the newest first')
    .description(
      "Shows what has happened to the ownership of one resource, the newest first. Managers keep the exceptional events (expired, lost, revoked, adopted, refused) by default, and all of them with history: 'all'.",
    )
    .argument('<resource>', 'its name, as given to the lease')
    .addOption(new Option('-n, --limit <count>', 'how many events at most').argParser(countFlag).default(ALL))
    .option('--svg [file]', 'as a picture: a row for each owner, a bar for each tenure; without a file to the output')
    .action(async (resource: string, { limit, svg }: LogFlags, command: Command) => {
      if (svg !== undefined && outputOf(session, command).isJson) {
        throw new CliError(EXIT.usage, '--svg and --json contradict each other');
      }
      await withLeases(session, command, async ({ leases, target, output }) => {
        const events = await leases.history(resource, { limit });
        if (events.length === 0 && (await leases.inspect(resource)) === null) throw noRecord(resource, target.prefix);
        if (svg !== undefined) return draw(resource, events, svg, output);
        if (output.isJson) return output.json('log', { namespace: target.prefix, resource, events });
        if (events.length > 0) return eventTable(output, events);
        output.note(`No events of ${resource} are kept: nothing exceptional has happened to it.`);
      });
    });
}

async function draw(
  resource: string,
  events: readonly HistoryEntry[],
  to: string | true,
  output: Output,
): Promise<void> {
  const { timelineSvg } = await import('../output/timeline-svg.ts');
  const picture = timelineSvg(resource, events, new Date());
  if (to === true) return output.text(picture);
  try {
    await writeFile(to, picture);
  } catch (error) {
    throw new CliError(EXIT.usage, `--svg ${to} cannot be written: ${(error as Error).message}`);
  }
  output.note(`${to}: ${events.length === 1 ? '1 event' : `${events.length} events`} of ${resource}`);
}
