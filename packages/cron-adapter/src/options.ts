import {
  checkJobName,
  checkResourceName,
  ConfigError,
  parseDuration,
  parseOptions,
  type AcquireOptions,
  type Duration,
  type Fence,
} from '@leasehold/core';
import nodeCron, { type TaskOptions } from 'node-cron';
import { z } from 'zod';

import type { CronEvents } from './events.ts';
import { isOutsized } from './slots.ts';

/** The lease of a job. What is left out is as the manager has it. */
export interface CronLeaseOptions {
  /** What must have one owner; jobs that name the same resource exclude each other. @default the job's name */
  readonly resource?: string;
  /** The lease duration. Longer than the longest pause to be survived, not than the run. @default the manager's ttl */
  readonly ttl?: Duration;
  /** The fences that the task writes through. Activated before it begins. */
  readonly fences?: readonly Fence[];
  /** `on-write`: fences are not activated first; only for tasks that read nothing outside the write. @default 'before' */
  readonly activate?: 'before' | 'on-write';
  /** A run that is longer is cancelled (`max-hold`). Counted from the election. @default the manager's maxHold */
  readonly maxHold?: Duration;
}

/** What a job is, whoever triggers it. */
export interface JobOptions {
  /**
   * The job: the same in every process, unique within this one, and stable, because the store remembers the job's last
   * tick under it. 1 to 128 of `A-Z a-z 0-9 _ . : -`.
   */
  readonly name: string;
  /** The zone that the expression's times are in. @default the zone of the machine */
  readonly timezone?: string;
  /** Another spelling of `timezone`. */
  readonly timeZone?: string;
  /** A tick may begin so much later than the schedule says, and no later; 1 s to 180 days. @default '5m' */
  readonly startingDeadline?: Duration;
  /**
   * `skip`: a tick that finds a run of this job going on, in any process, begins none. `allow`: each tick has a lease of its
   * own, of the resource `<name>@<instant>`, so that runs of one job go on side by side; each tick still has one run.
   * @default 'skip'
   */
  readonly overlap?: 'skip' | 'allow';
  /**
   * How often a tick may be run again whose run died, lost its lease, was cancelled or failed, here or in another process,
   * within `startingDeadline`: at least once instead of at most once. 0 to 100. @default 0
   */
  readonly retry?: number;
  /**
   * What `execute()` does, which names no tick. `lease`: it takes the lease, and rejects with `ResourceBusyError` while
   * another run has it. `reject`: it always rejects. `bypass`: it runs without a lease, beside whatever runs.
   * @default 'lease'
   */
  readonly manual?: 'lease' | 'reject' | 'bypass';
  readonly lease?: CronLeaseOptions;
}

type KeptOptions = Pick<
  TaskOptions,
  | 'timezone'
  | 'maxExecutions'
  | 'maxRandomDelay'
  | 'missedExecutionTolerance'
  | 'suppressMissedWarning'
  | 'logger'
  | 'unref'
>;

/** node-cron's options, and those of a job. */
export interface ScheduleOptions extends JobOptions, Omit<KeptOptions, 'timezone'> {
  /** node-cron's way to say `overlap: 'skip'`, which is the default. */
  readonly noOverlap?: true;
  /**
   * `latest`: of the ticks that no process ran (all were down, blocked, or without the store) the newest is run late, within
   * `startingDeadline`. The first start of a new job makes up for nothing. @default 'none'
   */
  readonly catchUp?: 'none' | 'latest';
  /** node-cron's name for `lease.ttl`, in milliseconds. */
  readonly distributedLease?: number;
}

/** A job that something else triggers than `leasedCron`. */
export interface LeasedTaskOptions extends Omit<JobOptions, 'retry'> {
  /**
   * The expression that the other scheduler has, as node-cron reads it: names the tick of a run, so that each has one run in
   * all processes. Not needed for tasks of node-cron, which says for which tick it calls.
   */
  readonly schedule?: string;
  /**
   * For triggers without ticks, such as intervals: after a run has begun, in whatever process, no other begins for so long.
   * A little less than the interval. More than 0, up to 365 days.
   */
  readonly minHold?: Duration;
  /** Told of each call that began no run. What it throws becomes a warning of the process. */
  readonly onSkipped?: (skipped: CronEvents['skipped'][0]) => void;
}

/** Options of a leased task after checking. */
export interface LeasedTaskSettings {
  readonly job: JobSettings;
  readonly schedule: string | undefined;
  readonly minHoldMs: number | undefined;
  readonly onSkipped: LeasedTaskOptions['onSkipped'];
}

/** A job's options after checking. */
export interface JobSettings {
  readonly name: string;
  readonly resource: string;
  /** Of each acquisition, scheduled or not. */
  readonly lease: Omit<AcquireOptions, 'tick' | 'signal' | 'wait' | 'park' | 'detached' | 'retention'>;
  readonly timezone: string | undefined;
  readonly startingDeadlineMs: number;
  readonly overlap: 'skip' | 'allow';
  readonly retry: number;
  readonly manual: 'lease' | 'reject' | 'bypass';
}

/** Options of a schedule after checking. */
export interface ScheduleSettings {
  readonly job: JobSettings;
  readonly catchUp: 'none' | 'latest';
  readonly maxRandomDelayMs: number;
  /** What node-cron gets. */
  readonly cron: KeptOptions & { readonly name: string };
}

const DEFAULT_STARTING_DEADLINE_MS = 300_000;
const MAX_STARTING_DEADLINE_MS = 180 * 86_400_000;

// Options of node-cron that have no meaning here, with what to do about each.
const REFUSED: Readonly<Record<string, string>> = {
  distributed: 'is what a leased task always is; leave it out',
  runCoordinator:
    'cannot be combined with a lease, which elects by itself; leave it out, or schedule with plain node-cron and leaseCoordinator()',
  executeTimeout: 'has no effect on a task that is a function; use lease.maxHold, which also aborts the signal',
  startTimeout: 'has no effect on a task that is a function; leave it out',
};

function duration(option: string): z.ZodType<number> {
  return z.unknown().transform((value) => parseDuration(option, value));
}

function named(option: string, check: (option: string, name: unknown) => asserts name is string): z.ZodType<string> {
  return z.unknown().transform((name) => {
    check(option, name);
    return name;
  });
}

const milliseconds = z.number('must be a number of milliseconds').int('must be whole').min(0, 'must not be negative');

const fence = z.custom<Fence>(
  (value) => typeof value === 'object' && value !== null && typeof (value as Partial<Fence>).activate === 'function',
  'must be a fence',
);

const leaseSchema = z.strictObject(
  {
    resource: named('lease.resource', checkResourceName).optional(),
    ttl: duration('lease.ttl').optional(),
    fences: z.array(fence, 'must be an array of fences').optional(),
    activate: z.enum(['before', 'on-write'], "must be 'before' or 'on-write'").optional(),
    maxHold: duration('lease.maxHold').optional(),
  },
  "must be an object such as { ttl: '30s' }",
);

const jobShape = {
  name: named('name', checkJobName),
  timezone: z.string('must be a string').optional(),
  timeZone: z.string('must be a string').optional(),
  startingDeadline: duration('startingDeadline')
    .refine(
      (ms) => ms >= 1000 && ms <= MAX_STARTING_DEADLINE_MS,
      'must be at least 1 s, because timers are late by themselves, and at most 180 days',
    )
    .optional(),
  overlap: z.enum(['skip', 'allow'], "must be 'skip' or 'allow'").optional(),
  retry: z
    .number('must be a number')
    .int('must be whole')
    .min(0, 'must not be negative')
    .max(100, 'must be at most 100')
    .optional(),
  manual: z.enum(['lease', 'reject', 'bypass'], "must be 'lease', 'reject' or 'bypass'").optional(),
  lease: leaseSchema.optional(),
};

type CronLogger = NonNullable<TaskOptions['logger']>;

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;

/** node-cron comes to no end of a run whose logger throws. */
function guardedLogger(logger: CronLogger): CronLogger {
  function guard(level: (typeof LEVELS)[number]): (message: string | Error, error?: Error) => void {
    return (message, error) => {
      try {
        const log = logger[level] as (message: string | Error, error?: Error) => unknown;
        const result = log.call(logger, message, error);
        if (result instanceof Promise) result.catch(() => {});
      } catch {
        // There is nowhere left to say it.
      }
    };
  }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') };
}

const scheduleSchema = z.strictObject({
  ...jobShape,
  catchUp: z.enum(['none', 'latest'], "must be 'none' or 'latest'").optional(),
  noOverlap: z
    .literal(true, "is what overlap: 'skip' says, and the default; for runs side by side give overlap: 'allow'")
    .optional(),
  maxExecutions: z.number('must be a number').int('must be whole').min(1, 'must be at least 1').optional(),
  maxRandomDelay: milliseconds.optional(),
  missedExecutionTolerance: milliseconds.optional(),
  suppressMissedWarning: z.boolean('must be true or false').optional(),
  logger: z
    .custom<CronLogger>(
      (value) =>
        LEVELS.every((level) => typeof (value as Partial<CronLogger> | null | undefined)?.[level] === 'function'),
      'must be a logger of node-cron (debug, info, warn, error)',
    )
    .transform(guardedLogger)
    .optional(),
  unref: z.boolean('must be true or false').optional(),
  distributedLease: milliseconds.min(100, 'must be at least 100 ms').optional(),
});

/** Throws `ConfigError` for the first option that is missing, unknown or cannot work. */
export function parseScheduleOptions(options: ScheduleOptions): ScheduleSettings {
  const unchecked = options as object as Readonly<Record<string, unknown>> | undefined;
  for (const [option, why] of Object.entries(REFUSED)) {
    if (unchecked?.[option] !== undefined) throw new ConfigError(option, why);
  }
  checkNamed(options);
  const { catchUp = 'none', distributedLease, ...given } = parseOptions(scheduleSchema, options);
  const { lease, noOverlap, maxExecutions, maxRandomDelay, missedExecutionTolerance } = given;
  const { suppressMissedWarning, logger, unref } = given;
  if (distributedLease !== undefined && lease?.ttl !== undefined && lease.ttl !== distributedLease) {
    throw new ConfigError(
      'distributedLease',
      `${distributedLease} ms and lease.ttl ${lease.ttl} ms are the same option; give one`,
    );
  }
  const ttl = lease?.ttl ?? distributedLease;
  const job = jobSettings({ ...given, lease: { ...lease, ttl } });
  if (catchUp === 'latest' && job.overlap === 'allow') {
    throw new ConfigError(
      'catchUp',
      "cannot be 'latest' with overlap: 'allow', where no record tells which tick of the job was the last; leave one out",
    );
  }
  if (noOverlap === true && job.overlap === 'allow') {
    throw new ConfigError('noOverlap', "and overlap: 'allow' contradict each other; give one");
  }
  const maxRandomDelayMs = maxRandomDelay ?? 0;
  if (maxRandomDelayMs > job.startingDeadlineMs) {
    throw new ConfigError(
      'maxRandomDelay',
      `${maxRandomDelayMs} ms is more than startingDeadline (${job.startingDeadlineMs} ms), so runs could begin too late; raise startingDeadline`,
    );
  }
  const { name, timezone } = job;
  const times = { timezone, maxExecutions, maxRandomDelay, missedExecutionTolerance };
  // Without `noOverlap`: for node-cron a tick that is still waited for overlaps as a run does, and it would drop those after it.
  const cron = compact({ ...times, suppressMissedWarning, logger, unref });
  return { job, catchUp, maxRandomDelayMs, cron: { ...cron, name } };
}

const ONLY_SCHEDULED = 'is for jobs that Leasehold schedules: use schedule() of leasedCron(), or @LeasedCron';

const leasedTaskSchema = z.strictObject({
  ...jobShape,
  retry: z.undefined(ONLY_SCHEDULED).optional(),
  catchUp: z.undefined(ONLY_SCHEDULED).optional(),
  schedule: z
    .string('must be a cron expression')
    .refine(
      (expression) => !isOutsized(expression) && nodeCron.validate(expression),
      'is not a cron expression that node-cron can read',
    )
    .optional(),
  minHold: duration('minHold')
    .refine((ms) => ms > 0 && ms <= 365 * 86_400_000, 'must be more than 0 and at most 365 days')
    .optional(),
  onSkipped: z
    .custom<NonNullable<LeasedTaskOptions['onSkipped']>>((value) => typeof value === 'function', 'must be a function')
    .optional(),
});

/** Separates the options of a task from those of where its leases come from, which that one checks. */
export function splitLeasedTaskOptions(options: unknown): { readonly task: object; readonly source: object } {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('options', 'are missing; give a name, and a connection or a manager');
  }
  const isShared = 'manager' in options;
  const isOfTask = (option: string): boolean =>
    isShared ? option !== 'manager' : Object.hasOwn(leasedTaskSchema.shape, option);
  const entries = Object.entries(options);
  return {
    task: Object.fromEntries(entries.filter(([option]) => isOfTask(option))),
    source: Object.fromEntries(entries.filter(([option]) => !isOfTask(option))),
  };
}

/** What `leasedTask` takes beside where its leases come from. */
export const LEASED_TASK_OPTIONS: readonly string[] = Object.keys(leasedTaskSchema.shape);

/** Throws `ConfigError` for the first option that is missing, unknown or cannot work. */
export function parseLeasedTaskOptions(options: object): LeasedTaskSettings {
  checkNamed(options);
  const { schedule, minHold: minHoldMs, onSkipped, catchUp: _, ...given } = parseOptions(leasedTaskSchema, options);
  if (schedule !== undefined && minHoldMs !== undefined) {
    throw new ConfigError('minHold', 'is for triggers without a schedule; leave out one of the two');
  }
  if (minHoldMs !== undefined && given.overlap === 'allow') {
    throw new ConfigError('minHold', "and overlap: 'allow' contradict each other; leave one out");
  }
  return { job: jobSettings(given), schedule, minHoldMs, onSkipped };
}

const OF_LEASE = ['resource', 'ttl', 'fences', 'activate', 'maxHold'] as const;

/** Better answers than a schema has for what is left out most, and for what is put in the wrong place. */
function checkNamed(options: unknown): void {
  for (const option of OF_LEASE) {
    if (typeof options !== 'object' || options === null || !Object.hasOwn(options, option)) continue;
    throw new ConfigError(option, `is an option of the lease: give lease: { ${option}: … }`);
  }
  const name: unknown = (options as { readonly name?: unknown } | null | undefined)?.name;
  if (name === undefined) throw new ConfigError('name', 'is missing; give the job one, the same in every process');
}

type GivenJob = z.output<z.ZodObject<typeof jobShape>>;

/** The rules between the options of a job, and their defaults. */
function jobSettings(given: GivenJob): JobSettings {
  const { name, overlap = 'skip', retry = 0, manual = 'lease', startingDeadline, lease = {} } = given;
  const { resource, ...others } = lease;
  if (overlap === 'allow') {
    if (resource !== undefined) {
      throw new ConfigError(
        'lease.resource',
        "with overlap: 'allow' has several owners at a time, which a lease does not allow; leave one out",
      );
    }
    if (retry > 0) throw new ConfigError('retry', "needs overlap: 'skip'");
  }
  return {
    name,
    resource: resource ?? name,
    lease: compact(others),
    timezone: parseTimezone(given.timezone, given.timeZone),
    startingDeadlineMs: startingDeadline ?? DEFAULT_STARTING_DEADLINE_MS,
    overlap,
    retry,
    manual,
  };
}

function parseTimezone(timezone: string | undefined, timeZone: string | undefined): string | undefined {
  if (timezone !== undefined && timeZone !== undefined && timezone !== timeZone) {
    throw new ConfigError('timeZone', `'${timeZone}' and timezone '${timezone}' are the same option; give one`);
  }
  const zone = timezone ?? timeZone;
  if (zone === undefined) return undefined;
  try {
    Intl.DateTimeFormat('en', { timeZone: zone });
  } catch (error) {
    throw new ConfigError('timezone', `'${zone}' is not a time zone; give one such as 'Europe/Berlin'`, error);
  }
  return zone;
}

type Compact<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The same options without those that are undefined: for others, undefined is not the same as left out. */
function compact<T extends object>(options: T): Compact<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Compact<T>;
}
