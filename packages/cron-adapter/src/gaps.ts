import { DAY_MS, type OffsetChange } from './local-time.ts';
import type { Schedule } from './slots.ts';

/** What runs more often hardly misses one run. */
const MAX_TIMES_A_DAY = 4;

/** A local time of a schedule that a day does not have, or has twice. */
export interface OddLocalTime {
  /** `2027-03-28` */
  readonly date: string;
  /** `02:30`, with seconds only where they are not 0. */
  readonly time: string;
  /** A sentence that names both, and the zone. */
  readonly message: string;
}

export interface GapWarning {
  /** Clocks are set forward over it: node-cron leaves out this run. */
  readonly missing: OddLocalTime | null;
  /** Clocks are set back: node-cron runs at one of the two. */
  readonly repeated: OddLocalTime | null;
}

/**
 * The next local time of the schedule that does not exist, and the next that exists twice, within `years` of `fromMs`
 * (epoch milliseconds). Null if there is neither, and for schedules with more than four times a day. About 1 ms of work
 * for two years.
 */
export function gapWarning(schedule: Schedule, fromMs: number, years: number): GapWarning | null {
  const { hour, minute, second } = schedule.fields;
  if (hour.length * minute.length * second.length > MAX_TIMES_A_DAY) return null;
  const zone = schedule.zone.name;
  let missing: OddLocalTime | null = null;
  let repeated: OddLocalTime | null = null;
  const start = Math.floor(fromMs / 1000) * 1000;
  for (const change of schedule.zone.changes(start, start + Math.ceil(years * 366) * DAY_MS)) {
    const isGap = change.after > change.before;
    if ((isGap ? missing : repeated) !== null) continue;
    const at = earliestAffected(schedule, change);
    if (at === null) continue;
    const [date = '', clock = ''] = new Date(at).toISOString().split('T');
    const time = clock.slice(0, clock.startsWith('00', 6) ? 5 : 8);
    if (isGap) {
      const message = `${time} does not exist in ${zone} on ${date}, when clocks are set forward: this job does not run then`;
      missing = { date, time, message };
    } else {
      const message = `${time} exists twice in ${zone} on ${date}, when clocks are set back: this job runs at one of the two`;
      repeated = { date, time, message };
    }
    if (missing !== null && repeated !== null) break;
  }
  return missing === null && repeated === null ? null : { missing, repeated };
}

/** The first local time of the schedule among those that the change leaves out or repeats. */
function earliestAffected(schedule: Schedule, { atMs, before, after }: OffsetChange): number | null {
  const from = atMs + Math.min(before, after);
  const to = atMs + Math.max(before, after);
  const times = [...schedule.timesOfDay()].toReversed();
  for (let day = Math.floor(from / DAY_MS); day * DAY_MS < to; day++) {
    for (const time of times) {
      const local = day * DAY_MS + time;
      if (local >= from && local < to && schedule.names(local)) return local;
    }
  }
  return null;
}
