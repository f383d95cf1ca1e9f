import { ConfigError, LeaseManager, MemoryFence, MemoryLeaseStore } from '@leasehold/core';
import type { TaskContext, TaskFn } from 'node-cron';
import { describe, expect, expectTypeOf, test } from 'vitest';

import { leasedCron, type CronRun, type CronTask, type LeasedCronOptions, type ScheduleOptions } from '../src/index.ts';
import { parseScheduleOptions } from '../src/options.ts';

const refused: readonly (readonly [option: string, options: object, rule: RegExp])[] = [
  ['name', {}, /missing/],
  ['name', { name: 'two words' }, /not a job name/],
  ['distributed', { name: 'a', distributed: true }, /always is/],
  ['runCoordinator', { name: 'a', runCoordinator: { shouldRun: () => true } }, /elects by itself/],
  ['executeTimeout', { name: 'a', executeTimeout: 1000 }, /lease\.maxHold/],
  ['startTimeout', { name: 'a', startTimeout: 1000 }, /function/],
  ['noOverlap', { name: 'a', noOverlap: false }, /overlap: 'allow'/],
  ['noOverlap', { name: 'a', noOverlap: true, overlap: 'allow' }, /contradict/],
  ['catchUp', { name: 'a', catchUp: 'all' }, /'none' or 'latest'/],
  ['catchUp', { name: 'a', catchUp: 'latest', overlap: 'allow' }, /no record tells/],
  ['retry', { name: 'a', retry: 1, overlap: 'allow' }, /needs overlap: 'skip'/],
  ['retry', { name: 'a', retry: -1 }, /negative/],
  ['retry', { name: 'a', retry: 1.5 }, /whole/],
  ['overlap', { name: 'a', overlap: 'replace' }, /'skip' or 'allow'/],
  ['manual', { name: 'a', manual: 'maybe' }, /'lease', 'reject' or 'bypass'/],
  ['lease.resource', { name: 'a', overlap: 'allow', lease: { resource: 'b' } }, /several owners/],
  [
    'lease.leese',
    { name: 'a', lease: { leese: 1 } },
    /not an option here; there are resource, ttl, fences, activate, maxHold/,
  ],
  ['lease.resource', { name: 'a', lease: { resource: '' } }, /empty/],
  ['ttl', { name: 'a', ttl: '5s' }, /give lease: \{ ttl: … \}/],
  ['lease.ttl', { name: 'a', lease: { ttl: '30sec' } }, /not a duration/],
  ['lease.fences', { name: 'a', lease: { fences: 'ledger' } }, /array of fences/],
  ['lease.activate', { name: 'a', lease: { activate: 'after' } }, /before/],
  ['distributedLease', { name: 'a', distributedLease: 1000, lease: { ttl: '2s' } }, /same option/],
  ['distributedLease', { name: 'a', distributedLease: 0 }, /at least 100 ms/],
  ['lease', { name: 'a', lease: null }, /an object such as/],
  ['logger', { name: 'a', logger: {} }, /debug, info, warn, error/],
  ['timeZone', { name: 'a', timezone: 'Europe/Berlin', timeZone: 'UTC' }, /same option/],
  ['timezone', { name: 'a', timeZone: 'Europe/Atlantis' }, /not a time zone/],
  ['startingDeadline', { name: 'a', startingDeadline: Infinity }, /180 days/],
  ['startingDeadline', { name: 'a', startingDeadline: '181d' }, /180 days/],
  ['startingDeadline', { name: 'a', startingDeadline: '100ms' }, /at least 1 s/],
  ['maxRandomDelay', { name: 'a', maxRandomDelay: 2000, startingDeadline: '1s' }, /raise startingDeadline/],
];

test.each(refused)('%s of %o is refused', (option, options, rule) => {
  const call = (): unknown => parseScheduleOptions(options as ScheduleOptions);
  expect(call).toThrow(ConfigError);
  expect(call).toThrow(rule);
  try {
    call();
  } catch (error) {
    expect((error as ConfigError).option).toBe(option);
  }
});

test('what is left out has its default', () => {
  expect(parseScheduleOptions({ name: 'nightly' })).toEqual({
    job: {
      name: 'nightly',
      resource: 'nightly',
      lease: {},
      timezone: undefined,
      startingDeadlineMs: 300_000,
      overlap: 'skip',
      retry: 0,
      manual: 'lease',
    },
    catchUp: 'none',
    maxRandomDelayMs: 0,
    cron: { name: 'nightly' },
  });
});

test('options have both spellings, and reach their destination', () => {
  const fence = new MemoryFence();
  const settings = parseScheduleOptions({
    name: 'nightly',
    timeZone: 'Europe/Berlin',
    distributedLease: 5000,
    maxRandomDelay: 100,
    noOverlap: true,
    startingDeadline: '10m',
    catchUp: 'latest',
    retry: 2,
    manual: 'reject',
    lease: { resource: 'reports', maxHold: '1h', fences: [fence], activate: 'on-write' },
  });
  expect(settings).toEqual({
    job: {
      name: 'nightly',
      resource: 'reports',
      lease: { ttl: 5000, maxHold: 3_600_000, fences: [fence], activate: 'on-write' },
      timezone: 'Europe/Berlin',
      startingDeadlineMs: 600_000,
      overlap: 'skip',
      retry: 2,
      manual: 'reject',
    },
    catchUp: 'latest',
    maxRandomDelayMs: 100,
    cron: { name: 'nightly', timezone: 'Europe/Berlin', maxRandomDelay: 100 },
  });
});

describe('leasedCron', () => {
  const manager = new LeaseManager({ store: new MemoryLeaseStore() });

  test('needs a manager or a connection, not both', () => {
    expect(() => leasedCron({} as LeasedCronOptions)).toThrow('connection: is missing');
    expect(() => leasedCron({ manager: 1 } as unknown as LeasedCronOptions)).toThrow('must be a LeaseManager');
    expect(() => leasedCron({ manager, prefix: 'shop' } as unknown as LeasedCronOptions)).toThrow(
      'prefix: is not an option here',
    );
  });

  test("has node-cron's surface, also taken off it", () => {
    const { validate, parse, validateDetailed, getTasks, getTask, createTask, setLogger } = leasedCron({ manager });
    expect(validate('* * * * *')).toBe(true);
    expect(validate('99 * * * *')).toBe(false);
    expect(parse('5 * * * *').minute).toEqual([5]);
    expect(validateDetailed('99 * * * *').valid).toBe(false);
    expect(setLogger).toBeTypeOf('function');
    const task = createTask('* * * * *', () => {}, { name: 'surface' });
    expect(getTask(task.id)).toBe(task);
    expect(getTasks().has(task.id)).toBe(true);
    expect(task.getStatus()).toBe('stopped');
    void task.destroy();
    expect(getTasks().has(task.id)).toBe(false);
  });

  test('refuses a file, a second job of a name, and a wrong expression', () => {
    const cron = leasedCron({ manager });
    expect(() => cron.schedule('* * * * *', './task.js' as unknown as CronTask, { name: 'file' })).toThrow(
      'must be a function',
    );
    const task = cron.createTask('* * * * *', () => {}, { name: 'one' });
    expect(() => cron.createTask('* * * * *', () => {}, { name: 'one' })).toThrow('each has its own');
    void task.destroy();
    void cron.createTask('* * * * *', () => {}, { name: 'one' }).destroy();
    expect(() => cron.createTask('99 * * * *', () => {}, { name: 'two' })).toThrow('invalid expression');
    // What the manager cannot work with shows here, not at the first tick.
    expect(() => cron.createTask('* * * * *', () => {}, { name: 'two', lease: { ttl: 20 } })).toThrow(
      /ttl: is 20 ms, below 100 ms/,
    );
    // The name was not used up by the failures.
    void cron.createTask('* * * * *', () => {}, { name: 'two' }).destroy();
  });
});

test('a task of node-cron is a leased task', () => {
  const existing = (context: TaskContext): string => context.dateLocalIso;
  expectTypeOf(existing).toExtend<CronTask>();
  expectTypeOf<TaskFn>().toExtend<CronTask>();
  expectTypeOf<CronRun>().toExtend<TaskContext>();
  expectTypeOf<(run: CronRun) => Promise<number>>().toExtend<CronTask>();
});

test('what cannot be combined does not compile', () => {
  expectTypeOf<{ manager: LeaseManager; prefix: string }>().not.toExtend<LeasedCronOptions>();
  expectTypeOf<{ ttl: '1s' }>().not.toExtend<LeasedCronOptions>();
  expectTypeOf<keyof ScheduleOptions>()
    .exclude<'distributed' | 'runCoordinator'>()
    .toEqualTypeOf<keyof ScheduleOptions>();
  expectTypeOf<{ timezone: string }>().not.toExtend<ScheduleOptions>();
});
