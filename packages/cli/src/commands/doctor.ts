import type { Checkup } from '@leasehold/core/diagnosis';
import { Argument, type Command } from 'commander';
import type { Settings } from '../config/settings.ts';
import { CliError, EXIT } from '../exit.ts';
import { doctorView } from '../output/doctor.ts';
import { configHere, readConfig } from './config-file.ts';
import { withCheckedFences } from './checked-fences.ts';
import type { CommonFlags } from './flags.ts';
import { withLeases, type Session } from './session.ts';

export function addDoctor(program: Command, session: Session): Command {
  return program
    .command('doctor')
    .summary('is this store fit to keep leases, and this config for its processes')
    .description(
      'Asks the store, the fences of the config and this host what would lose a lease on a bad day: eviction, persistence, replicas, rights, memory, clocks, and leases that are shorter than the pauses that their owners have measured. It never writes. Exit 0 if nothing is worse than a notice, 3 for a warning or an error, 4 if the store cannot be reached.',
    )
    .addArgument(new Argument('[config]', 'as --config'))
    .action(async (file: string | undefined, _flags: object, command: Command) => {
      const settings = await settingsOf(file, command, session);
      const jobs = settings?.jobs ?? [];
      const ttl = Math.min(...jobs.map(({ lease }) => lease.ttlMs));
      const timing = { ...settings?.timing, ...(ttl < Infinity ? { ttl } : {}) };
      await withLeases(
        session,
        command,
        async ({ leases, output }) => {
          const { doctor } = await import('@leasehold/core/diagnosis');
          const checkup = await withCheckedFences(settings?.fences ?? new Map(), (fences) =>
            doctor(leases, {
              fences,
              leases: jobs.map(({ name, lease }) => ({
                ...{ name, ttlMs: lease.ttlMs, isFenced: lease.fences.length > 0 },
              })),
            }),
          );
          if (output.isJson) {
            const { schema: _schema, ...fields } = checkup;
            output.json('doctor', fields);
          } else await doctorView(output, checkup);
          session.exit = exitOf(checkup);
        },
        { ...timing, quarantine: settings?.store.quarantine ?? false },
      );
    });
}

/** Of the config that is named, or lies here; without one there are none, and only the store is looked at. */
async function settingsOf(file: string | undefined, command: Command, { io }: Session): Promise<Settings | undefined> {
  const flags = command.optsWithGlobals<CommonFlags>();
  if (file !== undefined && flags.config !== undefined && flags.config !== file) {
    throw new CliError(EXIT.usage, `two configs are named: ${file} and ${flags.config}`, 'leasehold doctor <config>');
  }
  if (file !== undefined) command.setOptionValue('config', file);
  const config = file ?? flags.config ?? (await configHere(flags, io.env));
  if (config === undefined) return undefined;
  return (await readConfig(config, io.env)).config.settings;
}

function exitOf({ reached, severity }: Checkup): number {
  if (!reached) return EXIT.unreachable;
  return severity === 'error' || severity === 'warning' ? EXIT.no : EXIT.done;
}
