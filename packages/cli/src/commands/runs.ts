import type { TickInfo } from '@leasehold/core';
import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { nearest } from '../config/nearest.ts';
import type { JobSettings } from '../config/settings.ts';
import { CliError, EXIT } from '../exit.ts';
import { jobRunTable, tickTable } from '../output/events.ts';
import { quoteWord } from '../output/quote.ts';
import { readConfig } from './config-file.ts';
import { nextFlag, type CommonFlags } from './flags.ts';
import { jobsOfConfig, leasesOfJob, type JobsOfConfig } from './job-resource.ts';
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
      const here = await jobsOfConfig(session, common);
      const found = here?.jobs.find(({ name }) => name === job);
      if (found !== undefined && found.kind !== 'cron') throw withoutTicks(found, common);
      // A job that is not of the file in this folder may be one of another program.
      const file = common.config ?? (job === undefined || found !== undefined ? here?.file : undefined);
      if (job === undefined && file === undefined) {
        throw new CliError(
          EXIT.usage,
          'name a job, or a config file with --config',
          'leasehold runs --config leasehold.yaml',
        );
      }
      if (file !== undefined) return runsOfConfig(session, command, file, job, flags);
      if (job !== undefined) return runsOfJob(session, command, job, flags.resource ?? job, here);
    });
}

function withoutTicks(job: Exclude<JobSettings, { kind: 'cron' }>, flags: CommonFlags): CliError {
  const what =
    job.kind === 'queue'
      ? `a queue job, which has no ticks: BullMQ keeps what became of its jobs, in the queue ${job.queue}`
      : 'an interval job, which has no ticks: its next run is counted from its last';
  return new CliError(EXIT.usage, `${job.name} is ${what}`, leasesOfJob(job, flags));
}

/** Which jobs have ticks, and the command that tells of the one that was meant. */
function others(job: string, jobs: readonly JobSettings[]): { readonly names: string; readonly meant?: string } {
  const names = jobs.filter(({ kind }) => kind === 'cron').map(({ name }) => name);
  const meant = nearest(job, names);
  const said = `with a schedule there are ${names.join(', ') || 'none'}`;
  return meant === undefined ? { names: said } : { names: said, meant: `leasehold runs ${quoteWord(meant)}` };
}

async function runsOfJob(
  session: Session,
  command: Command,
  job: string,
  resource: string,
  here: JobsOfConfig | undefined,
): Promise<void> {
  await withLeases(session, command, async ({ leases, target, output }) => {
    const ticks = await leases.runs(job, { resource });
    if (ticks.length === 0) {
      const never = `job ${job} has never claimed a tick on ${resource} in ${target.prefix}`;
      if (here === undefined) throw new CliError(EXIT.no, never, 'the name of its lease with --resource');
      const { names, meant } = others(job, here.jobs);
      const next = meant ?? 'the name of its lease with --resource';
      throw new CliError(EXIT.no, `${never}, and ${here.file} has no such job; ${names}`, next);
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
  const jobs = settings.jobs.flatMap((its) =>
    its.kind === 'cron' ? [{ name: its.name, on: its.lease.resource ?? its.name }] : [],
  );
  if (job === undefined) return jobs;
  const found = jobs.filter(({ name }) => name === job);
  if (found.length > 0) return found;
  const { names, meant } = others(job, settings.jobs);
  const next = meant === undefined ? undefined : `${meant} --config ${quoteWord(file)}`;
  throw new CliError(EXIT.usage, `${file} has no job ${job}; ${names}`, next);
}
