import { type Command, InvalidArgumentError, Option } from 'commander';
import type { JobSettings } from '../config/settings.ts';
import type { Output } from '../output/output.ts';
import type { Column } from '../output/table.ts';
import { readJobs } from './config-file.ts';
import type { CommonFlags } from './flags.ts';
import { resourceText } from './job-resource.ts';
import { runFailure } from './run-failure.ts';
import { logTo, runJob } from './run-job.ts';
import { outputOf, type Session } from './session.ts';

interface RunFlags {
  readonly only?: readonly string[] | undefined;
  readonly once?: string | undefined;
  readonly dev?: boolean | undefined;
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
      'Runs the jobs of a config file in this process. SIGTERM and SIGINT end it: no more work is taken, runs have the grace of the config (shutdown.grace), then they are aborted and have 5 s more. A second signal ends it at once. It ends with 0, or with 1 if runs were left behind, by shutdown.exitOnAbandon, and after an error that nobody caught; with 143 or 130 after a second signal. Logs are lines of JSON on the standard output. In a service or in the background start node_modules/.bin/leasehold itself: npx is for the terminal, it passes no SIGTERM on and leaves the jobs running.',
    )
    .argument('[file]', 'the config (leasehold.yaml and the like in this folder)')
    .addOption(new Option('--only <jobs>', 'these jobs alone, separated by commas').argParser(namesFlag))
    .addOption(
      new Option(
        '--once <job>',
        'run this cron or interval job now, once, and end; 75: it is running elsewhere',
      ).conflicts(['only', 'dryRun']),
    )
    .addOption(
      new Option(
        '--dev',
        'if the Redis of the config does not answer, use a private redis-server; if there is none, run cron and interval jobs on leases in memory',
      ).conflicts(['once', 'dryRun']),
    )
    .option('--dry-run', 'check everything, show what would run, connect to nothing')
    .action(
      async (file: string | undefined, { only, once, dev = false, dryRun = false }: RunFlags, command: Command) => {
        const output = outputOf(session, command);
        try {
          if (once !== undefined) await runOnce(file, once, session, command.optsWithGlobals<CommonFlags>());
          else if (dryRun) await show(file, only, session, output);
          else if (dev) await runDev(file, only, session, command.optsWithGlobals<CommonFlags>());
          else await runFile(file, only, session, command.optsWithGlobals<CommonFlags>());
        } catch (error) {
          throw await runFailure(error, session);
        }
      },
    );
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
  flags: CommonFlags,
): Promise<void> {
  const { runConfig } = await import('../run/run-config.ts');
  const { config } = await readJobs(file, io.env);
  const log = await logTo(io, flags);
  const running = await runConfig(config, { log, signals: true, ...(only !== undefined && { only }) });
  await running.closed;
}

async function runDev(
  file: string | undefined,
  only: readonly string[] | undefined,
  { io }: Session,
  flags: CommonFlags,
): Promise<void> {
  const [{ runConfig }, { onlyThese }, { devConfig }] = await Promise.all([
    import('../run/run-config.ts'),
    import('../run/handlers.ts'),
    import('./run-dev.ts'),
  ]);
  const log = await logTo(io, flags);
  const asked = onlyThese((await readJobs(file, io.env)).config, only);
  await using dev = await devConfig(asked, io, log);
  const { config, store } = dev;
  const running = await runConfig(config, { log, signals: true, ...(store !== undefined && { store }) });
  await running.closed;
}

async function runOnce(file: string | undefined, job: string, session: Session, flags: CommonFlags): Promise<void> {
  const { config } = await readJobs(file, session.io.env);
  await runJob(config, job, session, flags);
}

async function show(
  file: string | undefined,
  only: readonly string[] | undefined,
  { io }: Session,
  output: Output,
): Promise<void> {
  const [{ onlyThese }, { resolveHandlers }] = await Promise.all([
    import('../run/handlers.ts'),
    import('../config/handlers.ts'),
  ]);
  const config = onlyThese((await readJobs(file, io.env)).config, only);
  await resolveHandlers(config);
  const jobs = config.settings.jobs.map((job) => ({
    job: job.name,
    kind: job.kind,
    when: whenOf(job),
    resource: resourceText(job),
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
