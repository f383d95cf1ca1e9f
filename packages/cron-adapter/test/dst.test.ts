import nodeCron from 'node-cron';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { instants, zones } from './node-cron-instants.ts';

// What node-cron itself does when clocks change. Nothing of this package is tested here, but it is built on all of it: a
// version of node-cron that behaves otherwise must be noticed.

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterEach(() => void vi.useRealTimers());

const MINUTE_MS = 60_000;

/** Minutes from the change to the runs that are at most so many away. */
function aroundChange(expression: string, zone: string, change: string, minutes: number): number[] {
  const at = Date.parse(change);
  const runs = instants(expression, zone, at - minutes * MINUTE_MS - 1000, at + minutes * MINUTE_MS);
  return runs.map((run) => (run - at) / MINUTE_MS);
}

const QUARTERS = [-75, -60, -45, -30, -15, 0, 15, 30, 45, 60, 75];
const WITHOUT_THE_FIRST = [-75, 0, 15, 30, 45, 60, 75];
const WITHOUT_THE_SECOND = [-75, -60, -45, -30, -15, 60, 75];

interface Expected {
  readonly daily: string;
  /** Within 26 hours. */
  readonly runs: readonly number[];
  /** Within 75 minutes. */
  readonly quarters: readonly number[];
  /** Within two hours. */
  readonly hourly: readonly number[];
}

const HOURLY = [-120, -60, 0, 60, 120];
const afterGap: Readonly<Record<string, Expected>> = {
  'America/New_York': { daily: '30 2 * * *', runs: [-1410, 1410], quarters: QUARTERS, hourly: HOURLY },
  'Europe/Berlin': { daily: '30 2 * * *', runs: [-1410, 1410], quarters: QUARTERS, hourly: HOURLY },
  'Europe/London': { daily: '30 1 * * *', runs: [-1410, 1410], quarters: QUARTERS, hourly: HOURLY },
  'Atlantic/Azores': { daily: '30 0 * * *', runs: [-1410, 1410], quarters: QUARTERS, hourly: HOURLY },
  // The hour before midnight.
  'America/Nuuk': { daily: '30 23 * * *', runs: [-1410, 1410], quarters: QUARTERS, hourly: HOURLY },
  'Australia/Sydney': { daily: '30 2 * * *', runs: [-1410, 1410], quarters: QUARTERS, hourly: HOURLY },
  // From 02:00 to 02:30: there is no full hour at the change.
  'Australia/Lord_Howe': { daily: '15 2 * * *', runs: [-1425, 1425], quarters: QUARTERS, hourly: [-120, -60, 30, 90] },
  // From 02:45 to 03:45.
  'Pacific/Chatham': { daily: '0 3 * * *', runs: [-1425, 1395], quarters: QUARTERS, hourly: [-105, -45, 15, 75] },
  // From midnight to 01:00.
  'Africa/Cairo': { daily: '0 0 * * *', runs: [-1440, 1380], quarters: QUARTERS, hourly: HOURLY },
};

const inRepeatedHour: Readonly<Record<string, Expected>> = {
  'America/New_York': {
    daily: '30 1 * * *',
    runs: [-1470, -30, 1470],
    quarters: WITHOUT_THE_SECOND,
    hourly: [-120, -60, 60, 120],
  },
  'Europe/Berlin': {
    daily: '30 2 * * *',
    runs: [-1470, 30, 1470],
    quarters: WITHOUT_THE_FIRST,
    hourly: [-120, 0, 60, 120],
  },
  'Europe/London': {
    daily: '30 1 * * *',
    runs: [-1470, 30, 1470],
    quarters: WITHOUT_THE_FIRST,
    hourly: [-120, 0, 60, 120],
  },
  'Atlantic/Azores': {
    daily: '30 0 * * *',
    runs: [-1470, -30, 1470],
    quarters: WITHOUT_THE_SECOND,
    hourly: [-120, -60, 60, 120],
  },
  // The hour before midnight.
  'America/Nuuk': {
    daily: '30 23 * * *',
    runs: [-1470, -30, 1470],
    quarters: WITHOUT_THE_SECOND,
    hourly: [-120, -60, 60, 120],
  },
  'Australia/Sydney': {
    daily: '30 2 * * *',
    runs: [-1470, 30, 1470],
    quarters: WITHOUT_THE_FIRST,
    hourly: [-120, 0, 60, 120],
  },
  // Half an hour, from 01:30 on.
  'Australia/Lord_Howe': {
    daily: '45 1 * * *',
    runs: [-1455, 15, 1455],
    quarters: [-75, -60, -45, 0, 15, 30, 45, 60, 75],
    hourly: [-120, -60, 30, 90],
  },
  'Pacific/Chatham': {
    daily: '0 3 * * *',
    runs: [-1485, 15, 1455],
    quarters: WITHOUT_THE_FIRST,
    hourly: [-105, 15, 75],
  },
  // The hour before midnight.
  'Africa/Cairo': {
    daily: '30 23 * * *',
    runs: [-1470, 30, 1470],
    quarters: WITHOUT_THE_FIRST,
    hourly: [-120, 0, 60, 120],
  },
};

const changing = zones.filter(({ forward }) => forward.length > 0);

describe.each(changing)('in $zone', ({ zone, forward, back }) => {
  test.each(forward)('a local time that the change of %s leaves out is not run', (change) => {
    const { daily, runs, quarters, hourly } = afterGap[zone] as Expected;
    expect(aroundChange(daily, zone, change, 26 * 60)).toEqual(runs);
    expect(aroundChange('*/15 * * * *', zone, change, 75)).toEqual(quarters);
    expect(aroundChange('0 * * * *', zone, change, 120)).toEqual(hourly);
  });

  test.each(back)('a local time that comes twice at the change of %s is run once', (change) => {
    const { daily, runs, quarters, hourly } = inRepeatedHour[zone] as Expected;
    expect(aroundChange(daily, zone, change, 26 * 60)).toEqual(runs);
    expect(aroundChange('*/15 * * * *', zone, change, 75)).toEqual(quarters);
    expect(aroundChange('0 * * * *', zone, change, 120)).toEqual(hourly);
  });
});

test.each([
  // The second value: a day on which clocks were changed there in former years, or are elsewhere.
  ['America/Sao_Paulo', '2025-11-02T03:00Z', '03:00'],
  ['America/Sao_Paulo', '2026-02-15T02:00Z', '03:00'],
  ['Asia/Kolkata', '2027-03-28T01:30Z', '18:30'],
  ['UTC', '2028-03-26T02:00Z', '00:00'],
])('in %s nothing is left out and nothing comes twice (%s)', (zone, day, midnight) => {
  expect(aroundChange('*/15 * * * *', zone, day, 75)).toEqual(QUARTERS);
  const runs = instants('0 0 * * *', zone, Date.parse('2025-01-01T00:00Z') - 1000, Date.parse('2028-12-31T23:59Z'));
  expect(runs).toHaveLength(1461);
  expect(new Set(runs.map((run) => new Date(run).toISOString().slice(11, 16)))).toEqual(new Set([midnight]));
});

describe('whether a process sees the runs of the repeated hour depends on when it was started', () => {
  const from = (start: string, until: string, expression: string, zone: string): string[] =>
    instants(expression, zone, Date.parse(start), Date.parse(until)).map((run) =>
      new Date(run).toISOString().slice(11, 16),
    );

  test('Berlin: started in the first 02:40, it leaves out the second 02:00 to 02:40', () => {
    expect(from('2026-10-25T00:40Z', '2026-10-25T02:00Z', '*/15 * * * *', 'Europe/Berlin')).toEqual(['01:45', '02:00']);
    expect(from('2026-10-25T00:40Z', '2026-10-25T02:00Z', '30 2 * * *', 'Europe/Berlin')).toEqual([]);
    expect(from('2026-10-24T23:59Z', '2026-10-25T02:00Z', '30 2 * * *', 'Europe/Berlin')).toEqual(['01:30']);
  });

  test('New York: started in the second hour or before the first, it agrees with all others', () => {
    expect(from('2026-11-01T06:10Z', '2026-11-01T07:00Z', '*/15 * * * *', 'America/New_York')).toEqual(['07:00']);
    expect(from('2026-11-01T05:40Z', '2026-11-01T07:00Z', '*/15 * * * *', 'America/New_York')).toEqual([
      '05:45',
      '07:00',
    ]);
  });
});

test('after a change of half an hour a run is passed over, though its local time exists', () => {
  const change = '2026-10-03T15:30Z';
  // 02:30 is the first minute after the gap; node-cron takes the 02:15 inside the gap for 02:45, and goes on from there.
  expect(aroundChange('15,30,45 2 * * *', 'Australia/Lord_Howe', change, 60)).toEqual([15]);
});

test('match() is true for both instants of a repeated local time', () => {
  const task = nodeCron.createTask('30 2 * * *', () => {}, { timezone: 'Europe/Berlin' });
  void task.destroy();
  expect(task.match(new Date('2026-10-25T00:30Z'))).toBe(true);
  expect(task.match(new Date('2026-10-25T01:30Z'))).toBe(true);
});

test('a destroyed task has left the list of tasks, and still tells what it matches', () => {
  const task = nodeCron.createTask('30 2 * * *', () => {}, { timezone: 'UTC' });
  void task.destroy();
  expect(nodeCron.getTasks().has(task.id)).toBe(false);
  expect(task.match(new Date('2026-10-25T02:30Z'))).toBe(true);
});

test('the 31st comes in seven months, the 29th of February every four years', () => {
  const days = (expression: string, from: string, to: string): string[] =>
    instants(expression, 'Europe/Berlin', Date.parse(from), Date.parse(to)).map((run) => new Date(run).toISOString());
  expect(days('0 3 31 * *', '2026-01-01T00:00Z', '2026-12-31T23:59Z')).toEqual([
    '2026-01-31T02:00:00.000Z',
    '2026-03-31T01:00:00.000Z',
    '2026-05-31T01:00:00.000Z',
    '2026-07-31T01:00:00.000Z',
    '2026-08-31T01:00:00.000Z',
    '2026-10-31T02:00:00.000Z',
    '2026-12-31T02:00:00.000Z',
  ]);
  expect(days('0 3 29 2 *', '2024-01-01T00:00Z', '2032-12-31T23:59Z')).toEqual([
    '2024-02-29T02:00:00.000Z',
    '2028-02-29T02:00:00.000Z',
    '2032-02-29T02:00:00.000Z',
  ]);
});
