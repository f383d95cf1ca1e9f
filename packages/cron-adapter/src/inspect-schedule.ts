import { ConfigError } from '@leasehold/core';
import nodeCron from 'node-cron';

import { gapWarning, type GapWarning } from './gaps.ts';
import { DAY_MS } from './local-time.ts';
import { isOutsized, OUTSIZED, Schedule, slotNear } from './slots.ts';

export interface InspectScheduleOptions {
  /** The zone that the expression's times are in. @default the zone of the machine */
  readonly timezone?: string | undefined;
  /** How many ticks to give, 0 to 100. @default 5 */
  readonly count?: number | undefined;
}

/** When a schedule runs, seen from now. */
export interface ScheduleInfo {
  /** The next ticks as node-cron reckons them; fewer, or none, if there is none within ten years. */
  readonly next: readonly Date[];
  /**
   * The next local time within a year that does not exist, or exists twice, because clocks are set. Null if there is none,
   * and for schedules with more than four times a day, which hardly miss one.
   */
  readonly clockChange: GapWarning | null;
  /** Whether the clocks of the zone are set forward or back within a year. */
  readonly zoneChanges: boolean;
  /** The hours of the day in which it runs, in ascending order. */
  readonly hours: readonly number[];
}

/** What is looked through for a tick: the 29th of February comes after eight years at most. */
const HORIZON_MS = 3660 * DAY_MS;

/**
 * Reads a schedule as `leasedCron` does, and starts nothing. Throws `ConfigError` for an expression (option `schedule`) that node-cron
 * cannot read, saying which field is wrong, and for an unknown zone (option `timezone`).
 */
export function inspectSchedule(
  expression: string,
  { timezone, count = 5 }: InspectScheduleOptions = {},
): ScheduleInfo {
  if (isOutsized(expression)) throw new ConfigError('schedule', `is not a schedule: ${OUTSIZED}`);
  const read = nodeCron.validateDetailed(expression);
  if (!read.valid) {
    throw new ConfigError('schedule', `is not a schedule: ${read.errors.map(({ message }) => message).join('; ')}`);
  }
  if (!Number.isInteger(count) || count < 0 || count > 100) {
    throw new ConfigError('count', `is ${String(count)}: must be a whole number, 0 to 100`);
  }
  const schedule = scheduleOf(expression, timezone);
  const nowMs = Date.now();
  const startMs = Math.floor(nowMs / 1000) * 1000;
  return {
    // node-cron searches without an end.
    next: slotNear(schedule, nowMs, 0, HORIZON_MS) === null ? [] : nextOf(expression, timezone, count),
    clockChange: gapWarning(schedule, nowMs, 1),
    zoneChanges: !schedule.zone.changes(startMs, startMs + 366 * DAY_MS).next().done,
    hours: [...new Set(schedule.fields.hour)].sort((a, b) => a - b),
  };
}

function scheduleOf(expression: string, timezone: string | undefined): Schedule {
  try {
    return new Schedule(expression, timezone);
  } catch (error) {
    throw new ConfigError('timezone', `'${timezone}' is not a time zone; give one such as 'Europe/Berlin'`, error);
  }
}

function nextOf(expression: string, timezone: string | undefined, count: number): readonly Date[] {
  const task = nodeCron.createTask(expression, () => {}, timezone === undefined ? {} : { timezone });
  // A destroyed task has left node-cron's list, and answers all the same.
  void task.destroy();
  return task.getNextRuns(count);
}
