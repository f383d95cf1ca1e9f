import { inspectSchedule } from '@leasehold/cron';

import type { LoadedConfig } from './load.ts';
import { checkLoaded } from './loaded.ts';
import type { Problem } from './problem.ts';
import type { CronJobSettings, QueueJobSettings, JobSettings, Settings } from './settings.ts';
import { sorted, type Source } from './source.ts';
import { problemsOfTls } from './tls-files.ts';

/** When a cron job runs. */
export interface JobSchedule {
  readonly job: string;
  readonly expression: string;
  readonly timezone: string;
  /** From now on; empty if there is no tick within ten years. */
  readonly next: readonly Date[];
}

/** What a config comes to, and what in it hardly does what was meant. */
export interface Advice {
  readonly warnings: readonly Problem[];
  readonly schedules: readonly JobSchedule[];
}

/** The hours in which zones set their clocks. */
const CHANGING_HOURS: ReadonlySet<number> = new Set([1, 2, 3]);

/** Looks at settings that are valid, as of now. `count` next ticks are given for each cron job, 0 to 100. @default 5 */
export function checkConfig(config: LoadedConfig, { count = 5 }: { readonly count?: number } = {}): Advice {
  checkLoaded(config);
  const { settings, source } = config;
  const warnings: Problem[] = [];
  const schedules: JobSchedule[] = [];
  for (const job of settings.jobs) {
    if (job.kind === 'cron') schedules.push(adviseCron(job, source, warnings, count));
    else if (job.kind === 'interval') warnOfTtl(job, job.everyMs, source, warnings);
    else warnOfResource(job, source, warnings);
  }
  warnings.push(...problemsOfTls(settings, source));
  warnOfQueues(settings, source, warnings);
  warnOfFences(settings, source, warnings);
  return { warnings: sorted(warnings), schedules };
}

function adviseCron(job: CronJobSettings, source: Source, warnings: Problem[], count: number): JobSchedule {
  const { name, expression, timezone } = job;
  const warn = (key: string, message: string, remedy?: string): void =>
    void warnings.push(source.problem(['jobs', name, key], message, remedy));
  const info = inspectSchedule(expression, { timezone, count: Math.max(count, 5) });
  const { next, clockChange, zoneChanges, hours } = info;
  if (next.length === 0) warn('cron', 'names no time within ten years');
  const odd = [clockChange?.missing, clockChange?.repeated].filter((time) => time !== null && time !== undefined);
  for (const { message } of odd) warn('cron', message, 'choose another time, or timezone: UTC');
  // What runs more often hardly misses one run.
  if (zoneChanges && odd.length === 0 && hours.length <= 4 && hours.some((hour) => CHANGING_HOURS.has(hour))) {
    const message = `runs between 01:00 and 03:59 in ${timezone}, when clocks are set forward or back`;
    warn('cron', message, 'a day with a change has another length; UTC has none');
  }
  warnOfTtl(job, shortestGap(next), source, warnings);
  const { ttlMs } = job.lease;
  const { startingDeadlineMs, retry, catchUp } = job;
  if (retry > 0 && ttlMs >= startingDeadlineMs) {
    const message = `can hardly be: a killed run holds its lease for ${ttlMs} ms (ttl), and a tick begins at most ${startingDeadlineMs} ms late (startingDeadline)`;
    warn('retry', message, 'lower lease.ttl or raise startingDeadline');
  }
  if (catchUp === 'latest' && startingDeadlineMs < 60_000) {
    const message = `makes up only for what is less than ${startingDeadlineMs} ms late (startingDeadline)`;
    warn('catchUp', message, 'raise startingDeadline to as long as an outage may last');
  }
  return { job: name, expression, timezone, next: next.slice(0, count) };
}

function shortestGap(next: readonly Date[]): number {
  const gaps = next.slice(1).map((at, index) => at.getTime() - (next[index] as Date).getTime());
  return Math.min(...gaps, Infinity);
}

/** After a crash nothing runs until the lease has run out. */
function warnOfTtl(
  job: Exclude<JobSettings, { kind: 'queue' }>,
  gapMs: number,
  source: Source,
  warnings: Problem[],
): void {
  const { ttlMs } = job.lease;
  if (ttlMs <= gapMs) return;
  const message = `has a lease of ${ttlMs} ms, longer than the ${gapMs} ms between two runs: a killed process makes several of them fail to run`;
  warnings.push(source.problem(['jobs', job.name, 'lease', 'ttl'], message, `lower lease.ttl to ${gapMs} ms or less`));
}

/** Too many jobs under one name, or not surely one thing. */
function warnOfResource({ name, lease }: QueueJobSettings, source: Source, warnings: Problem[]): void {
  const warn = (message: string, remedy: string): void =>
    void warnings.push(source.problem(['jobs', name, 'lease', 'resource'], message, remedy));
  if (lease.scope === 'job' && lease.resource.fields.length === 0) {
    const message = 'is the same for all jobs of the queue, so they run one at a time in all processes';
    warn(message, "name a field of the job, such as '{data.customerId}', or write scope: worker");
  }
  if (!lease.resource.isSeparated) {
    const message =
      'has two fields without a : between them, so different values may make one name (x-y and z, x and y-z)';
    warn(message, 'write a : between fields; those in values are encoded');
  }
}

/** Of two workers of a queue either takes a job, whatever it is. */
function warnOfQueues({ jobs }: Settings, source: Source, warnings: Problem[]): void {
  const first = new Map<string, string>();
  for (const job of jobs) {
    if (job.kind !== 'queue') continue;
    const queue = JSON.stringify([job.connection, job.prefix, job.queue]);
    const other = first.get(queue);
    if (other === undefined) {
      first.set(queue, job.name);
      continue;
    }
    const message = `takes from the same queue as jobs.${other}: each of its jobs goes to one of the two handlers, by chance`;
    warnings.push(source.problem(['jobs', job.name, 'queue'], message, 'use one handler, or two queues'));
  }
}

function warnOfFences({ fences, jobs }: Settings, source: Source, warnings: Problem[]): void {
  for (const name of fences.keys()) {
    if (jobs.some(({ lease }) => lease.fences.includes(name))) continue;
    const message = 'is used by no job';
    warnings.push(
      source.problem(
        ['fences', name],
        message,
        `write lease: { fences: [${name}] } in the jobs that write through it`,
        'key',
      ),
    );
  }
}
