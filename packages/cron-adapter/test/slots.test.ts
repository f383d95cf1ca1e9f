import nodeCron from 'node-cron';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { gapWarning } from '../src/gaps.ts';
import { latestMissed, Schedule, slotNear } from '../src/slots.ts';
import { instants, zones, type ZoneYears } from './node-cron-instants.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

function missed(expression: string, zone: string, after: string, now: string): string | null {
  const slot = latestMissed(new Schedule(expression, zone), { afterMs: Date.parse(after), nowMs: Date.parse(now) });
  return slot === null ? null : new Date(slot).toISOString().replace(':00.000Z', 'Z').replace('.000Z', 'Z');
}

describe('the newest missed slot', () => {
  test.each([
    [
      'is the last of several',
      '0 3 * * *',
      'Europe/Berlin',
      '2026-06-01T01:00Z',
      '2026-06-04T12:00Z',
      '2026-06-04T01:00Z',
    ],
    ['may be now', '0 3 * * *', 'UTC', '2026-06-01T03:00Z', '2026-06-02T03:00Z', '2026-06-02T03:00Z'],
    ['is not the last tick', '0 3 * * *', 'UTC', '2026-06-02T03:00Z', '2026-06-03T02:59:59.999Z', null],
    ['has its second', '7,40 * * * * *', 'UTC', '2026-06-01T00:00Z', '2026-06-02T03:00:39.9Z', '2026-06-02T03:00:07Z'],
    [
      'is the day before when today is early',
      '30 4 * * *',
      'Asia/Kolkata',
      '2026-06-01T00:00Z',
      '2026-06-03T22:59Z',
      '2026-06-02T23:00Z',
    ],
    ['is of last year', '0 0 1 1 *', 'Europe/Berlin', '2020-01-01T00:00Z', '2026-12-30T00:00Z', '2025-12-31T23:00Z'],
    [
      'is a month without a 31st ago',
      '0 3 31 * *',
      'Europe/Berlin',
      '2026-01-01T00:00Z',
      '2026-07-01T00:00Z',
      '2026-05-31T01:00Z',
    ],
    ['is a leap day', '0 3 29 2 *', 'Europe/Berlin', '2020-01-01T00:00Z', '2024-02-28T00:00Z', '2020-02-29T02:00Z'],
    [
      'is a leap day eight years ago',
      '0 3 29 2 *',
      'UTC',
      '1896-01-01T00:00Z',
      '1904-02-28T00:00Z',
      '1896-02-29T03:00Z',
    ],
    ['is the last day of a month', '0 3 L * *', 'UTC', '2026-01-01T00:00Z', '2026-03-15T00:00Z', '2026-02-28T03:00Z'],
    ['is the last Friday', '0 3 * * 5L', 'UTC', '2026-01-01T00:00Z', '2026-06-15T00:00Z', '2026-05-29T03:00Z'],
    [
      'is the weekday nearest the 15th',
      '0 3 15W * *',
      'UTC',
      '2026-01-01T00:00Z',
      '2026-08-20T00:00Z',
      '2026-08-14T03:00Z',
    ],
    ['is the second Monday', '0 3 * * 1#2', 'UTC', '2026-01-01T00:00Z', '2026-06-30T00:00Z', '2026-06-08T03:00Z'],
    [
      'meets the day of the month and of the week',
      '0 3 13 * 5',
      'UTC',
      '2026-01-01T00:00Z',
      '2026-10-30T00:00Z',
      '2026-03-13T03:00Z',
    ],
    ['has a name for its schedule', '@weekly', 'UTC', '2026-01-01T00:00Z', '2026-06-10T00:00Z', '2026-06-07T00:00Z'],
  ])('%s: %s in %s', (_what, expression, zone, after, now, slot) => {
    expect(missed(expression, zone, after, now)).toBe(slot);
  });

  test('is found without a last tick, but not more than ten years back', () => {
    const schedule = new Schedule('0 0 1 1 *', 'UTC');
    const nowMs = Date.parse('2026-06-01T00:00Z');
    expect(latestMissed(schedule, { afterMs: -Infinity, nowMs })).toBe(Date.parse('2026-01-01T00:00Z'));
    // The 29th of February on a Sunday: 2004, 2032.
    expect(latestMissed(new Schedule('0 0 29 2 0', 'UTC'), { afterMs: -Infinity, nowMs })).toBeNull();
  });

  test('costs a bounded number of questions, also when the expression has no slot at all', () => {
    // The last day of a month is never its first Friday.
    const schedule = new Schedule('0 0 L * 5#1', 'Europe/Berlin');
    const names = vi.spyOn(schedule, 'names');
    expect(latestMissed(schedule, { afterMs: 0, nowMs: Date.parse('2026-06-01T00:00Z') })).toBeNull();
    expect(names.mock.calls.length).toBe(1000);
  });

  test('costs one question for an expression of plain numbers, however far it is', () => {
    const schedule = new Schedule('13 13 13 29 2 *', 'Europe/Berlin');
    const names = vi.spyOn(schedule, 'names');
    expect(latestMissed(schedule, { afterMs: 0, nowMs: Date.parse('2028-02-28T00:00Z') })).not.toBeNull();
    expect(names.mock.calls.length).toBe(1);
  });

  test('is in the zone of the system without a zone', () => {
    const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
    const window = { afterMs: 0, nowMs: Date.parse('2026-06-01T00:00Z') };
    const schedule = new Schedule('30 4 * * *');
    expect(schedule.zone.name).toBe(zone);
    expect(latestMissed(schedule, window)).toBe(latestMissed(new Schedule('30 4 * * *', zone), window));
  });
});

describe('a local time that comes twice', () => {
  // Berlin has 02:30 at 00:30Z and 01:30Z, New York 01:30 at 05:30Z and 06:30Z.
  test.each([
    ['Europe/Berlin', '30 2 * * *', '2026-10-25T00:30Z', '2026-10-25T01:30Z', '2026-10-24T00:30Z'],
    ['America/New_York', '30 1 * * *', '2026-11-01T05:30Z', '2026-11-01T06:30Z', '2026-10-31T05:30Z'],
    ['Australia/Lord_Howe', '45 1 * * *', '2026-04-04T14:45Z', '2026-04-04T15:15Z', '2026-04-03T14:45Z'],
    ['America/Nuuk', '30 23 * * *', '2026-10-25T00:30Z', '2026-10-25T01:30Z', '2026-10-24T00:30Z'],
    ['Africa/Cairo', '30 23 * * *', '2026-10-29T20:30Z', '2026-10-29T21:30Z', '2026-10-28T20:30Z'],
  ])('is one slot in %s, missed when its second instant has come', (zone, expression, first, second, dayBefore) => {
    const minuteBefore = (instant: string): string => new Date(Date.parse(instant) - MINUTE_MS).toISOString();
    const before = minuteBefore(dayBefore);
    expect(missed(expression, zone, before, first)).toBe(dayBefore);
    expect(missed(expression, zone, dayBefore, first)).toBeNull();
    expect(missed(expression, zone, dayBefore, minuteBefore(second))).toBeNull();
    expect(missed(expression, zone, dayBefore, second)).toBe(second);
    expect(missed(expression, zone, minuteBefore(first), second)).toBe(second);
    // It was run at the first or at the second.
    expect(missed(expression, zone, first, second)).toBeNull();
    expect(missed(expression, zone, second, second)).toBeNull();
  });

  test('is caught up within a short deadline, which counts from its second instant', () => {
    const schedule = new Schedule('30 2 * * *', 'Europe/Berlin');
    const second = Date.parse('2026-10-25T01:30Z');
    const yesterday = Date.parse('2026-10-24T00:30Z');
    const first = Date.parse('2026-10-25T00:30Z');
    const within = (afterMs: number, lateMs: number): number | null =>
      latestMissed(schedule, { afterMs, nowMs: second + lateMs, earliestMs: second + lateMs - 300_000 });
    expect(within(yesterday, 300_000)).toBe(second);
    expect(within(yesterday, 300_001)).toBeNull();
    expect(within(first, 300_000)).toBeNull();
  });

  test('is not caught up in addition when a job runs every quarter of an hour', () => {
    // node-cron ran the first 01:00 to 01:45, and runs next at 02:00, which is 07:00Z.
    expect(missed('*/15 * * * *', 'America/New_York', '2026-11-01T05:45Z', '2026-11-01T06:59Z')).toBeNull();
    expect(missed('*/15 * * * *', 'America/New_York', '2026-11-01T05:45Z', '2026-11-01T07:00Z')).toBe(
      '2026-11-01T07:00Z',
    );
    // The process was away from the first 01:10 on.
    expect(missed('*/15 * * * *', 'America/New_York', '2026-11-01T05:00Z', '2026-11-01T06:20Z')).toBe(
      '2026-11-01T06:15Z',
    );
    // node-cron ran until 01:45, and runs next at the second 02:00, which is 01:00Z.
    expect(missed('*/15 * * * *', 'Europe/Berlin', '2026-10-24T23:45Z', '2026-10-25T00:59Z')).toBeNull();
    expect(missed('*/15 * * * *', 'Europe/Berlin', '2026-10-24T23:45Z', '2026-10-25T01:00Z')).toBe('2026-10-25T01:00Z');
    // Left out, because it would have been run in New York.
    expect(missed('*/15 * * * *', 'Europe/Berlin', '2026-10-25T01:00Z', '2026-10-25T01:20Z')).toBeNull();
  });
});

test('a local time that does not exist is no slot', () => {
  expect(missed('30 2 * * *', 'Europe/Berlin', '2026-03-28T01:30Z', '2026-03-29T12:00Z')).toBeNull();
  expect(missed('0 0 * * *', 'Africa/Cairo', '2026-04-22T22:00Z', '2026-04-24T12:00Z')).toBeNull();
  // As for 02:30, node-cron passes over it (see the test of clock changes); it exists, so it can be caught up.
  expect(missed('15,30,45 2 * * *', 'Australia/Lord_Howe', '2026-10-03T00:00Z', '2026-10-03T15:40Z')).toBe(
    '2026-10-03T15:30Z',
  );
});

describe('against node-cron', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
  afterEach(() => void vi.useRealTimers());

  test.each(zones)(
    'in $zone the newest missed slot is the newest that it runs, for random schedules and instants',
    (years) => {
      const random = mulberry32(20_261_130);
      let found = 0;
      let nearChange = 0;
      for (let round = 0; round < 80; round++) {
        const { expression, longestMs } = randomExpression(random);
        const { afterMs, nowMs } = randomWindow(random, years, longestMs);
        const slot = latestMissed(new Schedule(expression, years.zone), { afterMs, nowMs });
        const where = `${expression} in (${new Date(afterMs).toISOString()}, ${new Date(nowMs).toISOString()}]`;
        // From before an hour that comes twice, because in it node-cron's runs depend on where it began.
        const runs = instants(expression, years.zone, afterMs - 2 * HOUR_MS, nowMs);
        let expected: number | null = null;
        for (const run of runs) {
          const { first, second } = bothInstants(run, years);
          if (first > afterMs && second <= nowMs) expected = second;
        }
        expect(slot, where).toBe(expected);
        if (slot !== null) found++;
        if (runs.some((run) => bothInstants(run, years).first !== bothInstants(run, years).second)) nearChange++;
      }
      // The loop has seen what it is for.
      expect(found).toBeGreaterThan(25);
      if (years.back.length > 0) expect(nearChange).toBeGreaterThan(5);
    },
  );
});

/** The instants with the local time of a run of node-cron, by the table of the zone. */
function bothInstants(run: number, { back, shiftMinutes }: ZoneYears): { first: number; second: number } {
  const shift = shiftMinutes * MINUTE_MS;
  for (const change of back) {
    const at = Date.parse(change);
    if (run >= at - shift && run < at) return { first: run, second: run + shift };
    if (run >= at && run < at + shift) return { first: run - shift, second: run };
  }
  return { first: run, second: run };
}

type Random = () => number;

interface Window {
  readonly afterMs: number;
  readonly nowMs: number;
}

function mulberry32(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[Math.floor(random() * values.length)] as T;
}

interface RandomExpression {
  readonly expression: string;
  /** So that a window has some hundred runs at most. */
  readonly longestMs: number;
}

function randomExpression(random: Random): RandomExpression {
  const second = pick(random, ['', '', '', '0', '59']);
  const minute = pick(random, ['*', '*/15', '*/7', '0', '30', '5,35', '17', '59']);
  const hour = pick(random, ['*', '*/2', '0', '2', '23', '22-3', '0-3', '21-3']);
  const month = pick(random, ['*', '*', '*', '*', '3,10', '4-11']);
  // Both at once may never meet, and then node-cron throws.
  const days = [
    '1-7 * *',
    '25-31 M *',
    'L M *',
    '15W M *',
    '31 M *',
    '* M 0',
    '* M 6,0',
    '* M 1-5',
    '* M 0L',
    '* M 0#1',
    '1-7 M 0',
  ];
  const date = random() < 0.6 ? '* * *' : pick(random, days).replace('M', month);
  const isDense = minute.startsWith('*');
  const isDenseAllDay = isDense && hour.startsWith('*');
  return {
    expression: `${second} ${minute} ${hour} ${date}`.trim(),
    longestMs: isDenseAllDay ? 4 * HOUR_MS : isDense ? 2 * DAY_MS : 15 * DAY_MS,
  };
}

/** Most of them end near a change of the clocks. */
function randomWindow(random: Random, { forward, back }: ZoneYears, longestMs: number): Window {
  const changes = [...forward, ...back, ...back, ...back];
  const nowMs =
    changes.length > 0 && random() < 0.7
      ? Date.parse(pick(random, changes)) + Math.floor((random() * 3 - 0.5) * HOUR_MS)
      : Date.parse('2025-01-05T00:00Z') + Math.floor(random() * 1400 * DAY_MS);
  const lengthMs = Math.min(longestMs, pick(random, [4 * HOUR_MS, 2 * DAY_MS, 15 * DAY_MS]));
  // A tick is a whole second.
  return { afterMs: Math.floor((nowMs - random() * lengthMs) / 1000) * 1000, nowMs };
}

describe('the slot near an instant', () => {
  const near = (expression: string, now: string, toleranceMs: number, aheadMs: number, zone = 'UTC'): string | null => {
    const slot = slotNear(new Schedule(expression, zone), Date.parse(now), toleranceMs, aheadMs);
    return slot === null ? null : new Date(slot).toISOString();
  };

  test.each([
    ['a late call', '0 3 * * *', '2026-06-01T03:00:00.004Z', 5000, 1000, '2026-06-01T03:00:00.000Z'],
    ['the exact instant', '0 3 * * *', '2026-06-01T03:00:00.000Z', 0, 0, '2026-06-01T03:00:00.000Z'],
    ['the end of the tolerance', '0 3 * * *', '2026-06-01T03:00:05.000Z', 5000, 0, '2026-06-01T03:00:00.000Z'],
    ['just beyond it', '0 3 * * *', '2026-06-01T03:00:05.001Z', 5000, 0, null],
    ['an early call', '0 3 * * *', '2026-06-01T02:59:59.200Z', 5000, 1000, '2026-06-01T03:00:00.000Z'],
    ['too early a call', '0 3 * * *', '2026-06-01T02:59:58.999Z', 5000, 1000, null],
    ['the end of what is ahead', '0 3 * * *', '2026-06-01T02:59:59.000Z', 0, 1000, '2026-06-01T03:00:00.000Z'],
    ['nearer ahead than past', '* * * * * *', '2026-06-01T03:00:00.600Z', 5000, 1000, '2026-06-01T03:00:01.000Z'],
    ['nearer past than ahead', '* * * * * *', '2026-06-01T03:00:00.400Z', 5000, 1000, '2026-06-01T03:00:00.000Z'],
    ['equally near', '* * * * * *', '2026-06-01T03:00:00.500Z', 5000, 1000, '2026-06-01T03:00:00.000Z'],
    ['the first of many ahead', '10-50 * * * * *', '2026-06-01T03:00:05Z', 2000, 60_000, '2026-06-01T03:00:10.000Z'],
    ['the first of two ahead', '40,50 * * * * *', '2026-06-01T03:00:00.5Z', 0, 60_000, '2026-06-01T03:00:40.000Z'],
    ['the first ahead of days', '*/5 * * * *', '2026-06-01T03:01:00Z', 0, 7 * DAY_MS, '2026-06-01T03:05:00.000Z'],
    ['over midnight', '0 0 * * *', '2026-05-31T23:59:59.900Z', 5000, 1000, '2026-06-01T00:00:00.000Z'],
  ])('%s: %s at %s', (_what, expression, now, toleranceMs, aheadMs, slot) => {
    expect(near(expression, now, toleranceMs, aheadMs)).toBe(slot);
  });

  test('both instants of a local time that comes twice', () => {
    expect(near('30 2 * * *', '2026-10-25T00:30:00.1Z', 5000, 1000, 'Europe/Berlin')).toBe('2026-10-25T00:30:00.000Z');
    expect(near('30 2 * * *', '2026-10-25T01:30:00.1Z', 5000, 1000, 'Europe/Berlin')).toBe('2026-10-25T01:30:00.000Z');
  });
});

describe('the warning of clock changes', () => {
  const warning = (expression: string, zone: string, from = '2026-11-30T00:00Z', years = 2): unknown =>
    gapWarning(new Schedule(expression, zone), Date.parse(from), years);

  test('names the next day that lacks a local time of the schedule, and the next that has it twice', () => {
    expect(warning('30 2 * * *', 'Europe/Berlin')).toEqual({
      missing: {
        date: '2027-03-28',
        time: '02:30',
        message:
          '02:30 does not exist in Europe/Berlin on 2027-03-28, when clocks are set forward: this job does not run then',
      },
      repeated: {
        date: '2027-10-31',
        time: '02:30',
        message:
          '02:30 exists twice in Europe/Berlin on 2027-10-31, when clocks are set back: this job runs at one of the two',
      },
    });
  });

  const at = (date: string, time: string): unknown => expect.objectContaining({ date, time });
  test.each([
    ['30 2 * * *', 'America/New_York', at('2027-03-14', '02:30'), null],
    ['30 1 * * *', 'America/New_York', null, at('2027-11-07', '01:30')],
    ['0 0 * * *', 'Africa/Cairo', at('2027-04-30', '00:00'), null],
    ['30 23 * * *', 'America/Nuuk', at('2027-03-27', '23:30'), at('2027-10-30', '23:30')],
    ['59 23 * * *', 'Africa/Cairo', null, at('2027-10-28', '23:59')],
    ['15 2 * * *', 'Australia/Lord_Howe', at('2027-10-03', '02:15'), null],
    ['0 3 * * *', 'Pacific/Chatham', at('2027-09-26', '03:00'), at('2027-04-04', '03:00')],
    ['15 0 2 * * *', 'Europe/Berlin', at('2027-03-28', '02:00:15'), at('2027-10-31', '02:00:15')],
    ['30 2,14 * * *', 'Europe/Berlin', at('2027-03-28', '02:30'), at('2027-10-31', '02:30')],
    ['0,30 2,3 * * *', 'Europe/Berlin', at('2027-03-28', '02:00'), at('2027-10-31', '02:00')],
    // Only the 28th of March, so not in 2028; only on a Sunday, as both changes.
    ['30 2 28 3 *', 'Europe/Berlin', at('2027-03-28', '02:30'), null],
    ['30 2 * * 0', 'Europe/Berlin', at('2027-03-28', '02:30'), at('2027-10-31', '02:30')],
    ['30 2 26 3 *', 'Europe/Berlin', at('2028-03-26', '02:30'), null],
  ])('%s in %s', (expression, zone, missing, repeated) => {
    expect(warning(expression, zone)).toEqual({ missing, repeated });
  });

  test.each([
    ['of a time that no change touches', '0 4 * * *', 'Europe/Berlin'],
    ['of weekdays', '30 2 * * 1-5', 'Europe/Berlin'],
    ['of a zone that changes nothing', '30 2 * * *', 'Asia/Kolkata'],
    ['of UTC', '30 2 * * *', 'UTC'],
    ['of a schedule that runs often', '*/15 * * * *', 'Europe/Berlin'],
    ['of five times a day', '30 1-5 * * *', 'Europe/Berlin'],
  ])('is not given %s', (_what, expression, zone) => {
    expect(warning(expression, zone)).toBeNull();
  });

  test('looks no further than it is told', () => {
    expect(warning('30 2 * * *', 'Europe/Berlin', '2026-11-30T00:00Z', 0.25)).toBeNull();
    // Eight days before the change, four days far.
    expect(warning('30 2 * * *', 'Europe/Berlin', '2027-03-20T00:00Z', 0.01)).toBeNull();
    expect(warning('30 2 26 3 *', 'Europe/Berlin', '2026-11-30T00:00Z', 1)).toBeNull();
  });
});

describe('a schedule', () => {
  test('leaves nothing in the list of tasks', () => {
    const before = nodeCron.getTasks().size;
    expect(new Schedule('0 3 * * *', 'UTC').names(Date.parse('2026-06-01T03:00Z'))).toBe(true);
    expect(nodeCron.getTasks().size).toBe(before);
  });

  test('refuses what node-cron cannot read, and unknown zones', () => {
    expect(() => new Schedule('61 3 * * *', 'UTC')).toThrow(/minute/);
    expect(() => new Schedule('0 3 * * *', 'Europe/Atlantis')).toThrow(RangeError);
  });
});
