import nodeCron from 'node-cron';
import { vi } from 'vitest';

/**
 * What a task of node-cron runs after `fromMs` and not after `toMs`, by its own reckoning: it goes from one run to the next as here.
 * Needs a faked `Date`, because node-cron counts from now only.
 */
export function instants(expression: string, timezone: string, fromMs: number, toMs: number): number[] {
  const task = nodeCron.createTask(expression, () => {}, { timezone });
  void task.destroy();
  const found: number[] = [];
  for (let at = fromMs; ;) {
    vi.setSystemTime(at);
    const [next] = task.getNextRuns(1);
    if (next === undefined || next.getTime() > toMs) return found;
    at = next.getTime();
    found.push(at);
  }
}

/** When clocks are set forward or back, in UTC. */
export interface ZoneYears {
  readonly zone: string;
  readonly forward: readonly string[];
  readonly back: readonly string[];
  readonly shiftMinutes: number;
}

/** 2025 to 2028. */
export const zones: readonly ZoneYears[] = [
  {
    zone: 'America/New_York',
    forward: ['2025-03-09T07:00Z', '2026-03-08T07:00Z', '2027-03-14T07:00Z', '2028-03-12T07:00Z'],
    back: ['2025-11-02T06:00Z', '2026-11-01T06:00Z', '2027-11-07T06:00Z', '2028-11-05T06:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'Europe/Berlin',
    forward: ['2025-03-30T01:00Z', '2026-03-29T01:00Z', '2027-03-28T01:00Z', '2028-03-26T01:00Z'],
    back: ['2025-10-26T01:00Z', '2026-10-25T01:00Z', '2027-10-31T01:00Z', '2028-10-29T01:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'Europe/London',
    forward: ['2025-03-30T01:00Z', '2026-03-29T01:00Z', '2027-03-28T01:00Z', '2028-03-26T01:00Z'],
    back: ['2025-10-26T01:00Z', '2026-10-25T01:00Z', '2027-10-31T01:00Z', '2028-10-29T01:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'Atlantic/Azores',
    forward: ['2025-03-30T01:00Z', '2026-03-29T01:00Z', '2027-03-28T01:00Z', '2028-03-26T01:00Z'],
    back: ['2025-10-26T01:00Z', '2026-10-25T01:00Z', '2027-10-31T01:00Z', '2028-10-29T01:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'America/Nuuk',
    forward: ['2025-03-30T01:00Z', '2026-03-29T01:00Z', '2027-03-28T01:00Z', '2028-03-26T01:00Z'],
    back: ['2025-10-26T01:00Z', '2026-10-25T01:00Z', '2027-10-31T01:00Z', '2028-10-29T01:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'Australia/Sydney',
    forward: ['2025-10-04T16:00Z', '2026-10-03T16:00Z', '2027-10-02T16:00Z', '2028-09-30T16:00Z'],
    back: ['2025-04-05T16:00Z', '2026-04-04T16:00Z', '2027-04-03T16:00Z', '2028-04-01T16:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'Australia/Lord_Howe',
    forward: ['2025-10-04T15:30Z', '2026-10-03T15:30Z', '2027-10-02T15:30Z', '2028-09-30T15:30Z'],
    back: ['2025-04-05T15:00Z', '2026-04-04T15:00Z', '2027-04-03T15:00Z', '2028-04-01T15:00Z'],
    shiftMinutes: 30,
  },
  {
    zone: 'Pacific/Chatham',
    forward: ['2025-09-27T14:00Z', '2026-09-26T14:00Z', '2027-09-25T14:00Z', '2028-09-23T14:00Z'],
    back: ['2025-04-05T14:00Z', '2026-04-04T14:00Z', '2027-04-03T14:00Z', '2028-04-01T14:00Z'],
    shiftMinutes: 60,
  },
  {
    zone: 'Africa/Cairo',
    forward: ['2025-04-24T22:00Z', '2026-04-23T22:00Z', '2027-04-29T22:00Z', '2028-04-27T22:00Z'],
    back: ['2025-10-30T21:00Z', '2026-10-29T21:00Z', '2027-10-28T21:00Z', '2028-10-26T21:00Z'],
    shiftMinutes: 60,
  },
  { zone: 'America/Sao_Paulo', forward: [], back: [], shiftMinutes: 0 },
  { zone: 'Asia/Kolkata', forward: [], back: [], shiftMinutes: 0 },
  { zone: 'UTC', forward: [], back: [], shiftMinutes: 0 },
];
