import type { z } from 'zod';

import type { cronJob, defaultsSchema, intervalJob, queueJob } from './job-schema.ts';
import type { Judge } from './judge.ts';
import { checkTtl } from './timing.ts';
import { nearest } from './nearest.ts';
import { show } from './show.ts';
import type { Path } from './problem.ts';
import type {
  CronJobSettings,
  IntervalJobSettings,
  KeepSettings,
  LeaseSettings,
  QueueJobSettings,
  RedisSettings,
  TimingSettings,
} from './settings.ts';
import { hasBraces } from './template.ts';
import { fenceReference } from './values.ts';

type Given<S extends z.ZodType> = z.output<S>;

/** What a job is judged beside. */
export interface Context {
  readonly judge: Judge;
  readonly defaults: Given<typeof defaultsSchema>;
  /** What of it is sound, which the ttl of each job must go with. */
  readonly timing: TimingSettings;
  /** Names of all fences, of those with a fault too. */
  readonly fences: readonly string[];
  /** Undefined: something is wrong with it. */
  readonly redis: RedisSettings | undefined;
  readonly folder: string;
}

/** Timers of processes differ by so much at most, for a long interval; a short one has a tenth. */
const MAX_SLACK_MS = 5000;

/** Rules between the options of a job, which are those of `leasedCron`, and its defaults. */
export function cronSettings(context: Context, name: string, job: Given<typeof cronJob>): CronJobSettings {
  const { judge, defaults } = context;
  const path = ['jobs', name];
  const { cron, handler, isolate = 'none', manual = 'lease', lease = {} } = job;
  const overlap = job.overlap ?? defaults.overlap ?? 'skip';
  const retry = job.retry ?? defaults.retry ?? 0;
  const catchUp = job.catchUp ?? defaults.catchUp ?? 'none';
  const startingDeadlineMs = job.startingDeadline ?? defaults.startingDeadline ?? 300_000;
  const maxRandomDelayMs = job.maxRandomDelay ?? 0;
  if (job.timezone !== undefined && job.timeZone !== undefined && job.timezone !== job.timeZone) {
    judge.add([...path, 'timeZone'], 'is not the same as timezone, which is the same option', 'leave one out');
  }
  if (overlap === 'allow') {
    const by = job.overlap === undefined ? 'overlap: allow (of defaults)' : 'overlap: allow';
    if (lease.resource !== undefined) {
      const remedy = 'leave one out: each tick has a lease of its own';
      judge.add([...path, 'lease', 'resource'], `with ${by} would have several owners at a time`, remedy);
    }
    if (retry > 0) {
      const at = job.retry === undefined ? path : [...path, 'retry'];
      const remedy = job.retry === undefined ? 'write retry: 0 or overlap: skip here' : 'leave one out';
      judge.add(
        at,
        `${job.retry === undefined ? 'has a retry (of defaults), which' : ''} cannot be with ${by}`.trim(),
        remedy,
      );
    }
    if (catchUp === 'latest') {
      const at = job.catchUp === undefined ? path : [...path, 'catchUp'];
      const what = job.catchUp === undefined ? 'has catchUp: latest (of defaults), which' : '';
      const remedy = job.catchUp === undefined ? 'write catchUp: none or overlap: skip here' : 'leave one out';
      judge.add(at, `${what} cannot be with ${by}, where no record tells which tick was the last`.trim(), remedy);
    }
  }
  if (maxRandomDelayMs > startingDeadlineMs) {
    const rule =
      'is too long: it must be at most startingDeadline (5m if it is left out), or runs could begin too late';
    judge.add([...path, 'maxRandomDelay'], rule, 'raise startingDeadline');
  }
  refuseBraces(judge, path, lease.resource);
  return {
    kind: 'cron',
    name,
    handler,
    isolate,
    expression: cron,
    timezone: job.timezone ?? job.timeZone ?? defaults.timezone ?? 'UTC',
    startingDeadlineMs,
    overlap,
    catchUp,
    retry,
    maxRandomDelayMs,
    maxExecutions: job.maxExecutions,
    missedExecutionToleranceMs: job.missedExecutionTolerance,
    suppressMissedWarning: job.suppressMissedWarning ?? false,
    manual,
    lease: {
      ...leaseSettings(context, path, lease),
      resource: overlap === 'allow' ? undefined : (lease.resource ?? name),
    },
  };
}

export function intervalSettings(context: Context, name: string, job: Given<typeof intervalJob>): IntervalJobSettings {
  const path = ['jobs', name];
  const { every, handler, isolate = 'none', manual = 'lease', lease = {} } = job;
  refuseBraces(context.judge, path, lease.resource);
  return {
    kind: 'interval',
    name,
    handler,
    isolate,
    everyMs: every,
    minHoldMs: every - Math.floor(Math.min(every / 10, MAX_SLACK_MS)),
    manual,
    lease: { ...leaseSettings(context, path, lease), resource: lease.resource ?? name },
  };
}

/** The rules of a worker's `lease`. */
export function queueSettings(
  context: Context,
  name: string,
  job: Given<typeof queueJob>,
  connection: RedisSettings = '',
): QueueJobSettings {
  const { judge } = context;
  const path = ['jobs', name];
  const { queue, handler, isolate = 'none', prefix = 'bull', concurrency = 1 } = job;
  const { limiter, lockDuration: lockDurationMs, lease } = job;
  const { resource, scope = 'job', whenBusy, whenLost = 'requeue', abandonAfter = Infinity } = lease;
  if (typeof connection !== 'string' && connection.kind === 'cluster' && !/\{[^}]+\}/.test(`${prefix}:${queue}`)) {
    const rule = 'has no braces, without which the keys of a queue are on several nodes of the Cluster';
    judge.add([...path, 'prefix'], rule, "write prefix: '{bull}', here and where jobs are added");
  }
  if (scope === 'worker') {
    if (resource.fields.length > 0) {
      const rule = 'names a field of the job, but with scope: worker one lease covers all jobs';
      judge.add([...path, 'lease', 'resource'], rule, 'write a name without braces, or leave out scope');
    }
    if (whenBusy !== undefined) {
      const rule = 'has no meaning with scope: worker: a worker without the lease takes no jobs';
      judge.add([...path, 'lease', 'whenBusy'], rule, 'leave one out');
    }
  }
  return {
    kind: 'queue',
    name,
    handler,
    isolate,
    queue,
    prefix,
    connection,
    concurrency,
    limiter: limiter && { max: limiter.max, durationMs: limiter.duration },
    lockDurationMs,
    stalledIntervalMs: job.stalledInterval,
    maxStalledCount: job.maxStalledCount,
    removeOnComplete: keepSettings(job.removeOnComplete),
    removeOnFail: keepSettings(job.removeOnFail),
    lease: {
      ...leaseSettings(context, path, lease),
      resource,
      scope,
      whenBusy: whenBusy ?? 'delay',
      whenLost,
      abandonAfterMs: abandonAfter,
    },
  };
}

function keepSettings(keep: Given<typeof queueJob>['removeOnFail']): KeepSettings | undefined {
  return keep && { count: keep.count, ageMs: keep.age };
}

interface GivenLease {
  readonly ttl?: number | undefined;
  readonly maxHold?: number | undefined;
  readonly activate?: 'before' | 'on-write' | undefined;
  readonly fences?: readonly string[] | undefined;
}

function leaseSettings(context: Context, path: Path, lease: GivenLease): LeaseSettings {
  const { judge, defaults, timing } = context;
  const { ttl, maxHold, activate } = { ...defaults.lease, ...lease };
  const fences = lease.fences ?? [];
  if (lease.ttl !== undefined) checkTtl(judge, [...path, 'lease', 'ttl'], lease.ttl, timing);
  checkFences(context, path, fences);
  return { ttlMs: ttl ?? 30_000, maxHoldMs: maxHold ?? Infinity, fences, activate: activate ?? 'before' };
}

const reference = fenceReference();

/** What of it is no name at all is told of elsewhere. */
export function checkFences({ judge, fences: known }: Context, path: Path, fences: readonly unknown[]): void {
  for (const [index, given] of fences.entries()) {
    const at = [...path, 'lease', 'fences', index];
    const { data: fence } = reference.safeParse(given);
    if (fence === undefined) continue;
    if (fences.indexOf(fence) < index) judge.add(at, `is ${judge.shown(at, fence)}, which is there twice`);
    if (known.includes(fence)) continue;
    const meant = judge.isHidden(at) ? undefined : nearest(fence, known);
    const names = known.length === 0 ? 'there are none; add one to fences' : `there are ${known.map(show).join(', ')}`;
    judge.add(
      at,
      `is ${judge.shown(at, fence)}: must be the name of one of fences`,
      meant === undefined ? names : `did you mean ${meant}?`,
    );
  }
}

function refuseBraces(judge: Judge, path: Path, resource: string | undefined): void {
  if (resource === undefined || !hasBraces(resource)) return;
  const rule = 'has braces: only jobs of a queue carry data that could be named';
  judge.add([...path, 'lease', 'resource'], rule, 'write a name without braces');
}
