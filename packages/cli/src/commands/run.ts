import { type Command, InvalidArgumentError, Option } from 'commander';
import type { JobSettings } from '../config/settings.ts';
import { CliError, EXIT } from '../exit.ts';
import { escapeText } from '../output/escape.ts';
import type { Output } from '../output/output.ts';
import type { Column } from '../output/table.ts';
import { readConfig } from './config-file.ts';
import type { CommonFlags } from './flags.ts';
import { outputOf, type Session } from './session.ts';

interface RunFlags {
  readonly only?: readonly string[] | undefined;
  readonly dryRun?: boolean | undefined;
}

const COLUMNS: readonly Column[] = [
  { title: 'JOB', yields: 'last' },
  { title: 'WHEN' },
  { title: 'RESOURCE' },
  { title: 'HANDLER', yields: 'first' },
];

export function addRun(program: Command, session: Session): Command {
  return program
    .command('run')
    .summary('run the jobs of a config file, until SIGTERM or SIGINT')
    .description(
      'Runs the jobs of a config file in this process. SIGTERM and SIGINT end it: no more work is taken, runs have the grace of the config (shutdown.grace), then they are aborted and have 5 s more. A second signal ends it at once. Logs are lines of JSON on the standard output.',
    )
    .argument('[file]', 'the config (leasehold.yaml and the like in this folder)')
    .addOption(new Option('--only <jobs>', 'these jobs alone, separated by commas').argParser(namesFlag))
    .option('--dry-run', 'check everything, show what would run, connect to nothing')
    .action(async (file: string | undefined, { only, dryRun = false }: RunFlags, command: Command) => {
      const output = outputOf(session, command);
      try {
        if (dryRun) await show(file, only, session, output);
        else await runFile(file, only, session, command.optsWithGlobals<CommonFlags>());
      } catch (error) {
        throw await asFailure(error, session);
      }
    });
}

function namesFlag(text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.includes('')) throw new InvalidArgumentError('Give names of jobs, separated by commas.');
  return names;
}

async function runFile(
  file: string | undefined,
  only: readonly string[] | undefined,
  { io }: Session,
  { quiet = false, verbose = false }: CommonFlags,
): Promise<void> {
  const [{ pino }, { runConfig }] = await Promise.all([import('pino'), import('../run/run-config.ts')]);
  const { config } = await readConfig(file, io.env);
  const level = verbose ? 'debug' : quiet ? 'warn' : 'info';
  const log = pino({ level }, { write: (line: string) => void io.stdout.write(line) });
  const running = await runConfig(config, { log, signals: true, ...(only !== undefined && { only }) });
  await running.closed;
}

async function show(
  file: string | undefined,
  only: readonly string[] | undefined,
  { io }: Session,
  output: Output,
): Promise<void> {
  const [{ onlyThese }, { resolveHandlers }] = await Promise.all([
    import('../run/run-config.ts'),
    import('../config/handlers.ts'),
  ]);
  const config = onlyThese((await readConfig(file, io.env)).config, only);
  await resolveHandlers(config);
  const jobs = config.settings.jobs.map((job) => ({
    job: job.name,
    kind: job.kind,
    when: whenOf(job),
    resource: resourceOf(job),
    handler: `${job.handler.module}#${job.handler.exported}`,
  }));
  if (output.isJson) return output.json('plan', { jobs });
  await output.table(
    COLUMNS,
    jobs.map(({ job, when, resource, handler }) => [job, when, resource, handler].map((text) => ({ text }))),
  );
}

function whenOf(job: JobSettings): string {
  switch (job.kind) {
    case 'cron':
      return `${job.expression} ${job.timezone}`;
    case 'interval':
      return `every ${job.everyMs / 1000} s`;
    case 'queue':
      return `queue ${job.queue}`;
  }
}

function resourceOf(job: JobSettings): string {
  if (job.kind === 'queue') return job.lease.resource.text;
  return job.lease.resource ?? `${job.name}@{tick}`;
}

/** All problems of a config, each on a line of its own. */
async function asFailure(error: unknown, { io }: Session): Promise<unknown> {
  const { ConfigFileError, formatProblems } = await import('../config/problem.ts');
  if (!(error instanceof ConfigFileError)) return error;
  const { problems } = error;
  for (const problem of problems) io.stderr.write(`${escapeText(`error: ${formatProblems([problem]).trimEnd()}`)}\n`);
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return new CliError(EXIT.usage, `${count}; nothing runs`, 'leasehold validate');
}
