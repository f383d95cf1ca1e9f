import { ConfigError } from '@leasehold/core';

import type { LeasedOptions } from './marks.ts';
import type { LeasedTaskOptions } from './options.ts';
import { Schedule } from './slots.ts';

// @nestjs/schedule leaves its options on the method itself, under these keys, and looks for them there.
const NAME = 'SCHEDULER_NAME';
const CRON = 'SCHEDULE_CRON_OPTIONS';
const INTERVAL = 'SCHEDULE_INTERVAL_OPTIONS';
const TIMEOUT = 'SCHEDULE_TIMEOUT_OPTIONS';

/** What reflect-metadata adds to `Reflect`. */
interface Metadata {
  getOwnMetadataKeys(target: object): readonly unknown[];
  getOwnMetadata(key: unknown, target: object): unknown;
  defineMetadata(key: unknown, value: unknown, target: object): void;
}

/** What `@Cron` was given. */
interface CronMetadata {
  readonly cronTime?: unknown;
  readonly name?: unknown;
  readonly timeZone?: unknown;
  readonly utcOffset?: unknown;
}

/** It comes with the framework; without it there is nothing to read. */
function metadata(): Metadata | undefined {
  const reflect = Reflect as Partial<Metadata>;
  return typeof reflect.getOwnMetadataKeys === 'function' ? (reflect as Metadata) : undefined;
}

/** So that a scheduler finds on `to`, which replaces `from`, what a decorator below has left there. */
export function copyMetadata(from: object, to: object): void {
  const reflect = metadata();
  for (const key of reflect?.getOwnMetadataKeys(from) ?? []) {
    reflect?.defineMetadata(key, reflect.getOwnMetadata(key, from), to);
  }
}

/** The decorator of @nestjs/schedule that the method has as well, if any. */
export function nestDecoratorOf(method: object): '@Cron' | '@Interval' | '@Timeout' | undefined {
  if (read(method, CRON) !== undefined) return '@Cron';
  if (read(method, INTERVAL) !== undefined) return '@Interval';
  return read(method, TIMEOUT) === undefined ? undefined : '@Timeout';
}

/**
 * The options with what @nestjs/schedule was told of the method. Throws `ConfigError` for what contradicts it, and for a
 * trigger that names no instants unless there is a `minHold`.
 */
export function withNestMetadata(method: object, label: string, options: LeasedOptions): LeasedTaskOptions {
  const decorator = nestDecoratorOf(method);
  const name = options.name ?? read(method, NAME);
  if (typeof name !== 'string') {
    throw new ConfigError(
      'name',
      `is missing for ${label}; give the job one, the same in every process: @Leased({ name })${decorator === undefined ? '' : `, or the name that ${decorator} takes`}`,
    );
  }
  const named = { ...options, name };
  switch (decorator) {
    case undefined:
      return named;
    case '@Cron':
      return withCron(read(method, CRON) as CronMetadata, label, named);
    case '@Interval':
    case '@Timeout':
      if (options.schedule !== undefined) {
        throw new ConfigError('schedule', `is not what ${decorator} of ${label} goes by; give minHold instead`);
      }
      needMinHold(named, `${decorator} of ${label} names no instants`);
      return named;
  }
}

function withCron(cron: CronMetadata, label: string, options: LeasedTaskOptions): LeasedTaskOptions {
  const { cronTime, timeZone, utcOffset } = cron;
  const zone = options.timezone ?? options.timeZone;
  if (options.schedule !== undefined && options.schedule !== cronTime) {
    throw new ConfigError('schedule', `'${options.schedule}' is not that of @Cron of ${label}; leave it out`);
  }
  if (zone !== undefined && typeof timeZone === 'string' && zone !== timeZone) {
    throw new ConfigError('timezone', `'${zone}' is not that of @Cron of ${label} ('${timeZone}'); leave it out`);
  }
  const inZone = zone === undefined && typeof timeZone === 'string' ? { ...options, timezone: timeZone } : options;
  if (options.minHold !== undefined) return inZone;
  if (typeof cronTime !== 'string') needMinHold(options, `@Cron of ${label} has an instant, not an expression`);
  const schedule = cronTime as string;
  if (utcOffset !== undefined && zone === undefined) {
    throw new ConfigError(
      'timezone',
      `is missing: @Cron of ${label} has utcOffset, which names no zone; use its timeZone`,
    );
  }
  checkAlike(schedule, label, options);
  return { ...inZone, schedule };
}

/** Throws `ConfigError` for an expression that @nestjs/schedule and node-cron read differently, or node-cron not at all. */
function checkAlike(expression: string, label: string, options: LeasedTaskOptions): void {
  let fields: Schedule['fields'];
  try {
    ({ fields } = new Schedule(expression));
  } catch {
    return needMinHold(options, `'${expression}' of @Cron of ${label} is not an expression that node-cron can read`);
  }
  const { dayOfMonth, dayOfWeek } = fields;
  if (dayOfMonth.length < 31 && dayOfWeek.length < 7) {
    needMinHold(
      options,
      `'${expression}' of @Cron of ${label} names days of the month and of the week: for @nestjs/schedule either is enough, for node-cron both must fit`,
    );
  }
}

function needMinHold({ minHold }: LeasedTaskOptions, why: string): void {
  if (minHold !== undefined) return;
  throw new ConfigError(
    'minHold',
    `is missing: ${why}, so give the time for which no other process begins a run, a little less than the distance of two`,
  );
}

function read(method: object, key: string): unknown {
  return metadata()?.getOwnMetadata(key, method);
}
