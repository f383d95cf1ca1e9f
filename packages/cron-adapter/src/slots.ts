import nodeCron, { type ParsedFields, type ScheduledTask } from 'node-cron';

import { DAY_MS, Zone, type OffsetChange } from './local-time.ts';

/** How far back a slot is looked for: the 29th of February comes after eight years at most. */
const MAX_DAYS = 3660;
/** Days of which node-cron is asked, at 25 µs each, in one search: what has no slot in so many has none that counts. */
const MAX_ASKED = 1000;
// What the offsets of all zones lie between, so that a local day is surely within the instants that are looked at.
const MAX_OFFSET_MS = 14 * 3_600_000;
const MIN_OFFSET_MS = -12 * 3_600_000;

/** The rule that `isOutsized` expressions break: no schedule needs as much. */
export const OUTSIZED = 'a schedule has at most 1000 characters, and no number above 9999';

/** To be asked before node-cron is, which lists every number of a range before it judges them: it blocks for as long. */
export function isOutsized(expression: string): boolean {
  return expression.length > 1000 || /\d{5}/.test(expression);
}

/** When a job runs: a cron expression as node-cron reads it, in the local time of a zone. Knows no clock, starts nothing. */
export class Schedule {
  readonly zone: Zone;
  readonly fields: ParsedFields;
  readonly #matcher: ScheduledTask;
  readonly #hours: readonly number[];
  readonly #minutes: readonly number[];
  readonly #seconds: readonly number[];
  readonly #someTime: number;

  /**
   * Without `timezone`: the system's. Throws what node-cron throws for an expression that it cannot read, and `RangeError`
   * for an unknown zone and for an outsized expression.
   */
  constructor(expression: string, timezone?: string) {
    if (isOutsized(expression)) throw new RangeError(OUTSIZED);
    this.zone = new Zone(timezone);
    this.fields = nodeCron.parse(expression);
    // In UTC local time and instant are one, so this answers for local times of any zone, those of a gap included.
    this.#matcher = nodeCron.createTask(expression, () => {}, { timezone: 'UTC' });
    // A destroyed task has left node-cron's list, and answers all the same.
    void this.#matcher.destroy();
    this.#hours = descending(this.fields.hour);
    this.#minutes = descending(this.fields.minute);
    this.#seconds = descending(this.fields.second);
    this.#someTime = this.latestTime(DAY_MS) ?? 0;
  }

  /** Whether the expression names this local time, be it one that the zone has or not. */
  names(localMs: number): boolean {
    return this.#matcher.match(new Date(localMs));
  }

  /** The times of day that the expression names, latest first, in milliseconds since the local midnight. */
  *timesOfDay(): Generator<number> {
    for (const hour of this.#hours) {
      for (const minute of this.#minutes) {
        for (const second of this.#seconds) yield ((hour * 60 + minute) * 60 + second) * 1000;
      }
    }
  }

  /** The latest of them that is not after `limitMs`, or null. */
  latestTime(limitMs: number): number | null {
    const limit = Math.floor(limitMs / 1000);
    for (const hour of this.#hours) {
      if (hour * 3600 > limit) continue;
      for (const minute of this.#minutes) {
        const start = (hour * 60 + minute) * 60;
        if (start > limit) continue;
        const second = this.#seconds.find((second) => start + second <= limit);
        if (second !== undefined) return (start + second) * 1000;
      }
    }
    return null;
  }

  /** Whether the fields that are plain numbers allow the day: costs nothing, and only what passes is asked of node-cron. */
  mayNameDay(day: number): boolean {
    const date = new Date(day * DAY_MS);
    const { month, dayOfMonth, dayOfWeek } = this.fields;
    return (
      month.includes(date.getUTCMonth() + 1) &&
      mayInclude(dayOfMonth, date.getUTCDate()) &&
      mayInclude(dayOfWeek, date.getUTCDay())
    );
  }

  /** Whether the expression names times on this local day (the number of days since 1970). */
  namesDay(day: number): boolean {
    return this.names(day * DAY_MS + this.#someTime);
  }
}

/** Which slots count as missed. Epoch milliseconds. */
export interface MissedWindow {
  /** The job's last tick. Do not give a later instant to leave out old slots: see `earliestMs`. */
  readonly afterMs: number;
  /** Slots until now, this instant included. */
  readonly nowMs: number;
  /** Older slots are too late to run. @default ten years before `nowMs`, which is also the limit */
  readonly earliestMs?: number;
}

/**
 * The newest slot that a job missed; null if there is none. Of the days before `nowMs` it asks node-cron about a thousand that only
 * node-cron can judge (`L`, `W`, `#`); what lies further back is null too. 30 ms of work then, 0.1 ms usually.
 *
 * A local time that comes twice, because clocks are set back, is one slot: node-cron runs one of the two. The slot counts once
 * its second instant has come, has that for its name, and was run if the last tick is not before its first instant. So
 * nothing is given here that node-cron runs besides; within the repeated hour a missed run may be left out.
 */
export function latestMissed(schedule: Schedule, { afterMs, nowMs, earliestMs }: MissedWindow): number | null {
  const limitMs = Math.max(earliestMs ?? -Infinity, nowMs - MAX_DAYS * DAY_MS) - 1;
  const slot = newest(schedule, Math.max(afterMs, limitMs), nowMs, 'second');
  // Whatever is older than a repeated slot that has run is not after `afterMs`, or is of the same hour and has run too.
  return slot === null || slot.firstMs <= afterMs ? null : slot.atMs;
}

/**
 * The instant that a scheduler meant which calls at `nowMs`: the slot nearest to it, not more than `toleranceMs` before
 * nor `aheadMs` after it, or null. Of two equally near the past one. A local time that comes twice has two instants here: which of them
 * the other scheduler takes is its affair.
 */
export function slotNear(schedule: Schedule, nowMs: number, toleranceMs: number, aheadMs: number): number | null {
  const past = newest(schedule, nowMs - toleranceMs - 1, nowMs, 'both')?.atMs ?? null;
  const reachMs = past === null ? aheadMs : Math.min(aheadMs, nowMs - past - 1);
  return oldest(schedule, nowMs, nowMs + reachMs) ?? past;
}

interface Slot {
  readonly atMs: number;
  /** An hour or so earlier when the local time comes twice, and this is the second. */
  readonly firstMs: number;
}

/** The oldest after `afterMs` and not after `untilMs`: halving, because from the newest on there may be thousands. */
function oldest(schedule: Schedule, afterMs: number, untilMs: number): number | null {
  let low = afterMs;
  let best = newest(schedule, low, untilMs, 'both')?.atMs ?? null;
  while (best !== null && best - low > 1000) {
    const middle = low + Math.floor((best - low) / 2);
    const found = newest(schedule, low, middle, 'both');
    if (found === null) low = middle;
    else best = found.atMs;
  }
  return best;
}

/** The newest after `afterMs` and not after `untilMs`, with the second or with both instants of a repeated local time. */
function newest(schedule: Schedule, afterMs: number, untilMs: number, repeated: 'second' | 'both'): Slot | null {
  if (untilMs <= afterMs) return null;
  const { zone } = schedule;
  // When clocks are set back at midnight it is the day before once more, but never has the new day begun.
  const firstDay = Math.floor((afterMs + zone.offsetAt(afterMs)) / DAY_MS);
  let asked = 0;
  for (let day = Math.floor((untilMs + zone.offsetAt(untilMs)) / DAY_MS); day >= firstDay; day--) {
    if (!schedule.mayNameDay(day)) continue;
    if (asked++ === MAX_ASKED) return null;
    if (!schedule.namesDay(day)) continue;
    for (const span of spansOf(zone, day, repeated)) {
      const time = schedule.latestTime(Math.min(untilMs, span.endMs - 1) + span.offset - day * DAY_MS);
      if (time === null) continue;
      const atMs = day * DAY_MS + time - span.offset;
      if (atMs <= afterMs || atMs < span.startMs) continue;
      return { atMs, firstMs: atMs < span.startMs + span.repeatsMs ? atMs - span.repeatsMs : atMs };
    }
  }
  return null;
}

/** Instants of one offset, from the start up to but not including the end. */
interface Span {
  readonly startMs: number;
  readonly endMs: number;
  readonly offset: number;
  /** So long from its start on, local times come for the second time. */
  readonly repeatsMs: number;
}

/** The spans in which the local times of a day lie, newest first. */
function spansOf(zone: Zone, day: number, repeated: 'second' | 'both'): readonly Span[] {
  const change = zone.changeWithin(day * DAY_MS - MAX_OFFSET_MS, (day + 1) * DAY_MS - MIN_OFFSET_MS);
  if (change === null) {
    return [{ startMs: -Infinity, endMs: Infinity, offset: zone.offsetAt(day * DAY_MS), repeatsMs: 0 }];
  }
  const { atMs, before, after } = change;
  const repeatsMs = repeatedMs(change);
  return [
    { startMs: atMs, endMs: Infinity, offset: after, repeatsMs },
    { startMs: -Infinity, endMs: repeated === 'both' ? atMs : atMs - repeatsMs, offset: before, repeatsMs: 0 },
  ];
}

function repeatedMs({ before, after }: OffsetChange): number {
  return Math.max(0, before - after);
}

function descending(values: readonly number[]): readonly number[] {
  return [...new Set(values)].sort((a, b) => b - a);
}

/** Texts such as `L`, `15W`, `1#2` may mean any day. */
function mayInclude(field: readonly (number | string)[], value: number): boolean {
  return field.includes(value) || field.some((entry) => typeof entry === 'string');
}
