import type { Command } from 'commander';
import { Option } from 'commander';
import { eventTable } from '../output/events.ts';
import { countFlag } from './flags.ts';
import { withLeases, type Session } from './session.ts';
import { noRecord } from './show.ts';

interface LogFlags {
  readonly limit: number;
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
    .action(async (resource: string, { limit }: LogFlags, command: Command) => {
      await withLeases(session, command, async ({ leases, target, output }) => {
        const events = await leases.history(resource, { limit });
        if (events.length === 0 && (await leases.inspect(resource)) === null) throw noRecord(resource, target.prefix);
        if (output.isJson) return output.json('log', { namespace: target.prefix, resource, events });
        if (events.length > 0) return eventTable(output, events);
        output.note(`No events of ${resource} are kept: nothing exceptional has happened to it.`);
      });
    });
}
