import type { TickInfo } from '@leasehold/core';
import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import type { JobSettings } from '../config/settings.ts';
import { CliError, EXIT } from '../exit.ts';
import { jobRunTable, tickTable } from '../output/events.ts';
import { configHere, readConfig } from './config-file.ts';
import { nextFlag, type CommonFlags } from './flags.ts';
import { withLeases, type Session } from './session.ts';

interface RunsFlags {
  readonly resource?: string;
  readonly next: number;
}

/** A job of a config file: what it has run, and when it runs next. */
interface JobRuns {
  readonly job: string;
  readonly resource: string;
  readonly ticks: readonly TickInfo[];
  readonly next: readonly Date[];
}

export function addRuns(program: Command, session: Session): Command {
  return program
    .command('runs')
    .summary('last ticks of a job: outcome, attempt, owner')
    .description(
      'Shows the last tick that a job has claimed, and the one before it; with a config file also the next ones, and all jobs with a schedule if none is named. CLAIMED: it runs, or its process died. Exit 3 if the job has never claimed one.',
    )
    .argument('[job]', 'its name')
    .option('--resource <resource>', "what the job's lease is on (as in the config file, or the job's name)")
    .addOption(nextFlag(3))
    .action(async (job: string | undefined, flags: RunsFlags, command: Command) => {
      const common = command.optsWithGlobals<CommonFlags>();
      const { env } = session.io;
      const here = await configHere(common, env);
      // A job that is not of the file in this folder may be one of another program.
      const isOfHere = here !== undefined && (job === undefined || (await hasSchedule(here, job, env)));
      const file = common.config ?? (isOfHere ? here : undefined);
      if (job === undefined && file === undefined) {
        throw new CliError(
          EXIT.usage,
          'name a job, or a config file with --config',
          'leasehold runs --config leasehold.yaml',
        );
      }
      if (file !== undefined) return runsOfConfig(session, command, file, job, flags);
      if (job !== undefined) return runsOfJob(session, command, job, flags.resource ?? job);
    });
}

async function hasSchedule(file: string, job: string, env: Session['io']['env']): Promise<boolean> {
  const { settings } = (await readConfig(file, env)).config;
  return settings.jobs.some(({ name, kind }) => name === job && kind !== 'queue');
}

async function runsOfJob(session: Session, command: Command, job: string, resource: string): Promise<void> {
  await withLeases(session, command, async ({ leases, target, output }) => {
    const ticks = await leases.runs(job, { resource });
    if (ticks.length === 0) {
      throw new CliError(
        EXIT.no,
        `job ${job} has never claimed a tick on ${resource} in ${target.prefix}`,
        'the name of its lease with --resource',
      );
    }
    if (output.isJson) output.json('runs', { namespace: target.prefix, jobs: [{ job, resource, ticks, next: [] }] });
    else await tickTable(output, ticks);
  });
}

async function runsOfConfig(
  session: Session,
  command: Command,
  file: string,
  job: string | undefined,
  { resource, next }: RunsFlags,
): Promise<void> {
  const { config } = await readConfig(file, session.io.env);
  const wanted = scheduledJobs(config, file, job);
  const { checkConfig } = await import('../config/advice.ts');
  const { schedules } = checkConfig(config, { count: next });
  await withLeases(session, command, async ({ leases, target, output }) => {
    const jobs = await Promise.all(
      wanted.map(async ({ name, on }): Promise<JobRuns> => {
        const ticks = await leases.runs(name, { resource: resource ?? on });
        const found = schedules.find((schedule) => schedule.job === name);
        return { job: name, resource: resource ?? on, ticks, next: found?.next ?? [] };
      }),
    );
    if (output.isJson) output.json('runs', { namespace: target.prefix, jobs });
    else await jobRunTable(output, jobs);
  });
}

function scheduledJobs(
  { settings }: LoadedConfig,
  file: string,
  job: string | undefined,
): readonly { readonly name: string; readonly on: string }[] {
  const jobs = settings.jobs.flatMap((its) => (its.kind === 'queue' ? [] : [{ name: its.name, on: resourceOf(its) }]));
  if (job === undefined) return jobs;
  const found = jobs.filter(({ name }) => name === job);
  if (found.length > 0) return found;
  const names = jobs.map(({ name }) => name).join(', ') || 'none';
  throw new CliError(EXIT.usage, `${file} has no job ${job} with a schedule; there are: ${names}`);
}

function resourceOf(job: Exclude<JobSettings, { kind: 'queue' }>): string {
  return job.lease.resource ?? job.name;
}
