import type { Diagnosis } from '@leasehold/core/diagnosis';
import type { Command } from 'commander';
import { EXIT } from '../exit.ts';
import { diagnosisView } from '../output/diagnosis.ts';
import { configHere } from './config-file.ts';
import { withFences } from './fences.ts';
import { withLeases, type Session } from './session.ts';

interface DiagnoseFlags {
  readonly observe?: boolean;
  readonly byHand?: boolean;
}

export function addDiagnose(program: Command, session: Session): Command {
  return program
    .command('diagnose')
    .summary('is this lease stale, and what may I do: evidence and verdict')
    .description(
      'Collects evidence about a resource (record, owner, process, store, fences of the config, clocks) and gives a verdict: what is allowed now, and what to wait for. It never writes. Exit 0 if nothing is wrong or it rights itself, 3 if it waits for somebody: to start the next run, to act or to understand, 4 if nothing is known.',
    )
    .argument('<resource>', 'its name, as given to the lease')
    .option('--observe', 'watch the record for its ttl and a margin, by the clock of this host: the second signal')
    .option('--by-hand', 'only the commands with which a person checks the same; they read only')
    .action(async (resource: string, flags: DiagnoseFlags, command: Command) => {
      await withLeases(session, command, async ({ leases, target, output, flags: common }) => {
        const config = common.config ?? (await configHere(common, session.io.env));
        const { diagnose } = await import('@leasehold/core/diagnosis');
        const diagnosis = await withFences(command, session.io, (fences) =>
          diagnose(leases, resource, {
            fences,
            observe: flags.observe === true,
            onProgress: ({ forMs, neededMs }) =>
              output.progress(`watching: ${(forMs / 1000).toFixed(0)} of ${(neededMs / 1000).toFixed(0)} s`),
          }),
        );
        if (output.isJson) {
          const { schema: _schema, ...fields } = diagnosis;
          output.json('diagnosis', fields);
        } else if (flags.byHand === true) {
          for (const { command: line, lookFor } of diagnosis.byHand) output.line(`${line}    # ${lookFor}`);
        } else await diagnosisView(output, diagnosis, { target, config, flags: common });
        session.exit = exitOf(diagnosis);
      });
    });
}

function exitOf({ verdict: { code, severity } }: Diagnosis): number {
  if (code === 'unknown') return EXIT.unreachable;
  return severity === 'act' || severity === 'alarm' ? EXIT.no : EXIT.done;
}
