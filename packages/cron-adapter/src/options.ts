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
import type { TaskOptions } from 'node-cron';
import { z } from 'zod';

/** The lease of a task. What is left out is as the manager has it. */
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

type KeptOptions = Pick<
  TaskOptions,
  | 'timezone'
  | 'noOverlap'
  | 'maxExecutions'
  | 'maxRandomDelay'
  | 'missedExecutionTolerance'
  | 'suppressMissedWarning'
  | 'logger'
  | 'unref'
>;

/**
 * node-cron's options, and the lease. Runs of one job never overlap, in no process; with `noOverlap: true` node-cron says
 * so by itself (`execution:overlap`) for runs of this process, without asking the store.
 */
export interface LeasedTaskOptions extends KeptOptions {
  /**
   * The job: the same in every process, unique within this one, and stable, because the store remembers the job's last
   * tick under it.
   */
  readonly name: string;
  /** Another spelling of `timezone`. */
  readonly timeZone?: string;
  /** A tick may begin so much later than the schedule says, and no later. @default '5m' */
  readonly startingDeadline?: Duration;
  readonly lease?: CronLeaseOptions;
  /** node-cron's name for `lease.ttl`, in milliseconds. */
  readonly distributedLease?: number;
}

/** Task options after checking. */
export interface TaskSettings {
  readonly name: string;
  readonly resource: string;
  /** Of each acquisition, scheduled or not. */
  readonly lease: Omit<AcquireOptions, 'tick' | 'signal' | 'detached'>;
  readonly startingDeadlineMs: number;
  readonly maxRandomDelayMs: number;
  /** What node-cron gets. */
  readonly cron: KeptOptions & { readonly name: string };
}

const DEFAULT_STARTING_DEADLINE_MS = 300_000;

// Options of node-cron that have no meaning here, with what to do about each.
const REFUSED: Readonly<Record<string, string>> = {
  distributed: 'is what a leased task always is; leave it out',
  runCoordinator:
    'cannot be combined with a lease, which elects by itself; leave it out, or schedule with plain node-cron',
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

const leaseSchema = z.strictObject({
  resource: named('lease.resource', checkResourceName).optional(),
  ttl: duration('lease.ttl').optional(),
  fences: z.array(fence, 'must be an array of fences').optional(),
  activate: z.enum(['before', 'on-write'], "must be 'before' or 'on-write'").optional(),
  maxHold: duration('lease.maxHold').optional(),
});

const taskSchema = z.strictObject({
  name: named('name', checkJobName),
  timezone: z.string('must be a string').optional(),
  timeZone: z.string('must be a string').optional(),
  noOverlap: z.literal(true, 'runs under one lease never overlap; leave it out, or give true').optional(),
  maxExecutions: z.number('must be a number').int('must be whole').min(1, 'must be at least 1').optional(),
  maxRandomDelay: milliseconds.optional(),
  missedExecutionTolerance: milliseconds.optional(),
  suppressMissedWarning: z.boolean('must be true or false').optional(),
  logger: z
    .custom<NonNullable<TaskOptions['logger']>>(
      (value) => typeof value === 'object' && value !== null,
      'must be a logger of node-cron',
    )
    .optional(),
  unref: z.boolean('must be true or false').optional(),
  startingDeadline: duration('startingDeadline')
    .refine(
      (ms) => ms >= 1000 && ms < 1e15,
      'must be at least 1 s, because timers are late by themselves, and not Infinity',
    )
    .optional(),
  lease: leaseSchema.optional(),
  distributedLease: milliseconds.optional(),
});

/** Throws `ConfigError` for the first option that is missing, unknown or cannot work. */
export function parseTaskOptions(options: LeasedTaskOptions): TaskSettings {
  const unchecked = options as object as Readonly<Record<string, unknown>> | undefined;
  for (const [option, why] of Object.entries(REFUSED)) {
    if (unchecked?.[option] !== undefined) throw new ConfigError(option, why);
  }
  if (unchecked?.['name'] === undefined)
    throw new ConfigError('name', 'is missing; give the job one, the same in every process');
  const { name, timeZone, startingDeadline, lease, distributedLease, ...rest } = parseOptions(taskSchema, options);
  const timezone = parseTimezone(rest.timezone, timeZone);
  const startingDeadlineMs = startingDeadline ?? DEFAULT_STARTING_DEADLINE_MS;
  const maxRandomDelayMs = rest.maxRandomDelay ?? 0;
  if (maxRandomDelayMs > startingDeadlineMs) {
    throw new ConfigError(
      'maxRandomDelay',
      `${maxRandomDelayMs} ms is more than startingDeadline (${startingDeadlineMs} ms), so runs could begin too late; raise startingDeadline`,
    );
  }
  const { resource = name, ttl = distributedLease, ...others } = lease ?? {};
  if (distributedLease !== undefined && ttl !== distributedLease) {
    throw new ConfigError(
      'distributedLease',
      `${distributedLease} ms and lease.ttl ${ttl} ms are the same option; give one`,
    );
  }
  return {
    name,
    resource,
    lease: given({ ...others, ttl }),
    startingDeadlineMs,
    maxRandomDelayMs,
    cron: { ...given({ ...rest, timezone }), name },
  };
}

/** What one run asks for; with the epoch milliseconds of its tick, if it has one. */
export function acquireOptions({ name, lease, startingDeadlineMs }: TaskSettings, tick: number | null): AcquireOptions {
  if (tick === null) return lease;
  return { ...lease, tick: { job: name, at: tick, startingDeadline: startingDeadlineMs } };
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

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The same options without those that are undefined: for others, undefined is not the same as left out. */
function given<T extends object>(options: T): Given<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Given<T>;
}
