import { ConfigError, LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { inspectSchedule, leasedCron, leasedTask } from '../src/index.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2027-03-27T12:00:00Z') });
});

afterEach(() => {
  vi.useRealTimers();
});

test('the next ticks are those that node-cron runs, also over a change of clocks', () => {
  const { next, zoneChanges, hours } = inspectSchedule('30 2 * * *', { timezone: 'Europe/Berlin', count: 2 });
  expect(next.map((at) => at.toISOString())).toEqual(['2027-03-29T00:30:00.000Z', '2027-03-30T00:30:00.000Z']);
  expect({ zoneChanges, hours }).toEqual({ zoneChanges: true, hours: [2] });
});

test('a local time that clocks leave out, and one that comes twice, are told of', () => {
  const { clockChange } = inspectSchedule('30 2 * * *', { timezone: 'Europe/Berlin' });
  expect(clockChange?.missing?.message).toContain('02:30 does not exist in Europe/Berlin on 2027-03-28');
  expect(clockChange?.repeated?.date).toBe('2027-10-31');
  expect(inspectSchedule('30 2 * * *', { timezone: 'UTC' })).toMatchObject({ clockChange: null, zoneChanges: false });
});

test('a day that comes every four years is found, and nothing is searched for ever', () => {
  expect(inspectSchedule('0 0 29 2 *', { timezone: 'UTC', count: 1 }).next).toEqual([new Date('2028-02-29T00:00:00Z')]);
});

test('what cannot be read is refused, with the field that is wrong', () => {
  expect(() => inspectSchedule('61 * * * *')).toThrow('61 is a invalid expression for minute');
  expect(() => inspectSchedule('* * * * *', { timezone: 'Europe/Berlyn' })).toThrow(/timezone: 'Europe\/Berlyn'/);
  expect(() => inspectSchedule('* * * * *', { count: 101 })).toThrow(ConfigError);
});

test('an expression that node-cron would list millions of numbers for is refused before it does', async () => {
  await using manager = new LeaseManager({ store: new MemoryLeaseStore() });
  await using leased = leasedCron({ manager });
  const rule = 'at most 1000 characters, and no number above 9999';
  const began = performance.now();
  for (const outsized of [
    '0-9999999 * * * *',
    '0-99999999/2 0-9999999 * * * *',
    `${'0-9999,'.repeat(5000)}1 * * * *`,
  ]) {
    expect(() => inspectSchedule(outsized)).toThrow(rule);
    expect(() => leased.createTask(outsized, () => {}, { name: 'a' })).toThrow(rule);
    expect(() => leasedTask(() => {}, { manager, name: 'a', schedule: outsized })).toThrow('schedule');
  }
  expect(performance.now() - began).toBeLessThan(1000);
  expect(inspectSchedule('0 0 1 1 *', { count: 0 }).hours).toEqual([0]);
});
