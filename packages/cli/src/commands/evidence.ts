import { access, constants } from 'node:fs/promises';
import type { Command } from 'commander';
import { CliError, EXIT } from '../exit.ts';
import { makeFolder } from '../folder.ts';
import { escapeJson } from '../output/escape.ts';
import { configHere, readConfig } from './config-file.ts';
import { withFences } from './fences.ts';
import type { CommonFlags } from './flags.ts';
import { withLeases, type Session } from './session.ts';

interface EvidenceFlags {
  readonly out: string;
  readonly observe?: boolean;
}

export function addEvidence(program: Command, session: Session): Command {
  return program
    .command('evidence')
    .summary('write down what is known of a resource, for the record of an incident')
    .description(
      'Collects what diagnose does, with the events of the resource, the record, what its owner measured of itself and what the servers say, into two files of one name: JSON and Markdown. They are new, for you alone (mode 600), and hold no password. What could not be learned is in them, with the reason. It writes nothing to the store. Exit 4 if nothing is known of the record; the files are written all the same.',
    )
    .argument('<resource>', 'its name, as given to the lease')
    .option('--out <folder>', 'where to; it is made if it is not there', '.')
    .option('--observe', 'watch the record for its ttl and a margin first, as diagnose does')
    .action(async (resource: string, flags: EvidenceFlags, command: Command) => {
      await withLeases(session, command, async ({ leases, target, output }) => {
        await checkFolder(flags.out);
        const [{ gatherIncident }, { markdownOf }, { pairName, writePair }, { secretsOf, withoutSecrets }] =
          await Promise.all([
            import('../incident/incident.ts'),
            import('../incident/markdown.ts'),
            import('../incident/pair.ts'),
            import('../incident/secrets.ts'),
          ]);
        const found = await withFences(command, session.io, (fences) =>
          gatherIncident(leases, resource, target, {
            fences,
            observe: flags.observe === true,
            onProgress: ({ forMs, neededMs }) =>
              output.progress(`watching: ${(forMs / 1000).toFixed(0)} of ${(neededMs / 1000).toFixed(0)} s`),
          }),
        );
        const incident = withoutSecrets(found, secretsOf(target, await fencesOf(command, session), session.io.env));
        const texts = { json: jsonOf(incident), markdown: markdownOf(incident) };
        const { json, markdown } = await writePair(
          flags.out,
          pairName(incident.resource, new Date(incident.writtenAt)),
          texts,
        ).catch((error: unknown) => {
          throw notWritten(flags.out, error);
        });
        const { missing, diagnosis } = incident;
        const { verdict } = diagnosis;
        if (output.isJson) output.json('evidence', { resource, json, markdown, verdict: verdict.code, missing });
        else {
          output.fields([
            ['json', json],
            ['markdown', markdown],
            ['verdict', `${verdict.code}: ${verdict.sentence}`],
          ]);
          for (const { what, why } of missing) output.note(`missing: ${what} (${why})`, 'warning');
        }
        if (verdict.code === 'unknown') session.exit = EXIT.unreachable;
      });
    });
}

/** For people as well: a line for each part. What they obey in a terminal is in the texts alone. */
function jsonOf(incident: object): string {
  const lines = JSON.stringify(incident, null, 2).split('\n');
  return `${lines.map((line) => escapeJson(line)).join('\n')}\n`;
}

/** Before anything is asked: --observe takes as long as a lease. */
async function checkFolder(folder: string): Promise<void> {
  try {
    await makeFolder(folder, 0o700);
    await access(folder, constants.W_OK);
  } catch (error) {
    throw notWritten(folder, error);
  }
}

function notWritten(folder: string, error: unknown): CliError {
  const { code, message } = error as NodeJS.ErrnoException;
  return new CliError(
    EXIT.unexpected,
    `nothing was written to ${folder}: ${code ?? message}`,
    'leasehold evidence … --out <folder>',
  );
}

async function fencesOf(command: Command, { io }: Session) {
  const flags = command.optsWithGlobals<CommonFlags>();
  const config = flags.config ?? (await configHere(flags, io.env));
  return config === undefined ? new Map<string, never>() : (await readConfig(config, io.env)).config.settings.fences;
}
