import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { checkConfig, formatProblems, loadConfig, parseConfig } from '../../src/index.ts';
import { folderOf, withJob } from './support.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2027-03-20T12:00:00Z') });
});

afterEach(() => {
  vi.useRealTimers();
});

function warningsOf(job: object, others: object = {}): string[] {
  const handled = { handler: './a.js', ...job };
  return formatProblems(checkConfig(parseConfig(withJob(handled, others))).warnings)
    .split('\n')
    .filter((line) => line !== '');
}

test('a usual config has no warnings, and its next ticks are told', () => {
  const config = parseConfig(withJob({ cron: '0 3 * * *', handler: './a.js', catchUp: 'latest', retry: 1 }));
  expect(checkConfig(config, { count: 2 })).toEqual({
    warnings: [],
    schedules: [
      {
        job: 'job',
        expression: '0 3 * * *',
        timezone: 'UTC',
        next: [new Date('2027-03-21T03:00:00Z'), new Date('2027-03-22T03:00:00Z')],
      },
    ],
  });
  expect(checkConfig(config, { count: 0 }).schedules[0]?.next).toEqual([]);
  expect(warningsOf({ every: '5m' })).toEqual([]);
});

test('times that a change of clocks leaves out or repeats', () => {
  expect(warningsOf({ cron: '30 2 * * *', timezone: 'Europe/Berlin' })).toEqual([
    'jobs.job.cron: 02:30 does not exist in Europe/Berlin on 2027-03-28, when clocks are set forward: this job does not run then; choose another time, or timezone: UTC',
    'jobs.job.cron: 02:30 exists twice in Europe/Berlin on 2027-10-31, when clocks are set back: this job runs at one of the two; choose another time, or timezone: UTC',
  ]);
});

test('times near a change of clocks, in zones that have one', () => {
  const near =
    'jobs.job.cron: runs between 01:00 and 03:59 in Europe/Berlin, when clocks are set forward or back; a day with a change has another length; UTC has none';
  expect(warningsOf({ cron: '0 3 * * *', timezone: 'Europe/Berlin' })).toEqual([near]);
  for (const timezone of ['UTC', 'Asia/Kolkata']) expect(warningsOf({ cron: '0 3 * * *', timezone })).toEqual([]);
  expect(warningsOf({ cron: '0 5 * * *', timezone: 'Europe/Berlin' })).toEqual([]);
  expect(warningsOf({ cron: '*/15 * * * *', timezone: 'Europe/Berlin' })).toEqual([]);
});

test('a lease that outlasts what is between two runs', () => {
  expect(warningsOf({ cron: '*/10 * * * * *' })).toEqual([
    'jobs.job.lease.ttl: has a lease of 30000 ms, longer than the 10000 ms between two runs: a killed process makes several of them fail to run; lower lease.ttl to 10000 ms or less',
  ]);
  expect(warningsOf({ every: '5s' })).toHaveLength(1);
  expect(warningsOf({ every: '5s', lease: { ttl: '5s' } })).toEqual([]);
});

test('a retry or a late run that the deadline does not leave time for', () => {
  expect(warningsOf({ cron: '0 12 * * *', retry: 1, startingDeadline: '30s' })).toEqual([
    'jobs.job.retry: can hardly be: a killed run holds its lease for 30000 ms (ttl), and a tick begins at most 30000 ms late (startingDeadline); lower lease.ttl or raise startingDeadline',
  ]);
  expect(warningsOf({ cron: '0 12 * * *', catchUp: 'latest', startingDeadline: '30s' })).toEqual([
    'jobs.job.catchUp: makes up only for what is less than 30000 ms late (startingDeadline); raise startingDeadline to as long as an outage may last',
  ]);
});

test('one lease for all jobs of a queue, and a fence that nobody uses', () => {
  expect(warningsOf({ queue: 'a', lease: { resource: 'a' } })).toEqual([
    "jobs.job.lease.resource: is the same for all jobs of the queue, so they run one at a time in all processes; name a field of the job, such as '{data.customerId}', or write scope: worker",
  ]);
  expect(warningsOf({ queue: 'a', lease: { resource: 'a', scope: 'worker' } })).toEqual([]);
  expect(warningsOf({ every: '5m' }, { fences: { ledger: { postgres: 'postgres://db' } } })).toEqual([
    'fences.ledger: is used by no job; write lease: { fences: [ledger] } in the jobs that write through it',
  ]);
});

test('fields of a resource whose values may run into each other', () => {
  const near =
    'jobs.job.lease.resource: has two fields without a : between them, so different values may make one name (x-y and z, x and y-z); write a : between fields; those in values are encoded';
  for (const resource of ['{data.a}-{data.b}', '{name}{id}', 'a:{data.a}:{data.b}/{id}']) {
    expect(warningsOf({ queue: 'a', lease: { resource } })).toEqual([near]);
  }
  for (const resource of ['{data.a}:{data.b}', '{data.a}-:-{data.b}', 'a-b/{data.a}', '{data.a}-b']) {
    expect(warningsOf({ queue: 'a', lease: { resource } })).toEqual([]);
  }
});

test('two handlers for one queue', () => {
  const job = { queue: 'a', handler: './a.js', lease: { resource: '{id}' } };
  const config = {
    version: 1,
    store: { redis: 'redis://h' },
    jobs: { a: job, b: job, c: { ...job, prefix: 'c' } },
  } as const;
  expect(formatProblems(checkConfig(parseConfig(config)).warnings)).toBe(
    'jobs.b.queue: takes from the same queue as jobs.a: each of its jobs goes to one of the two handlers, by chance; use one handler, or two queues\n',
  );
});

test('a warning has the line of what it is about', async () => {
  const text = "version: 1\nstore: { redis: 'redis://h' }\njobs:\n  a:\n    every: 5s\n    handler: ./a.js\n";
  await using folder = await folderOf({ 'a.yaml': text });
  const { warnings } = checkConfig(await loadConfig(folder.file('a.yaml')));
  expect(warnings.map(({ line, column, path }) => [line, column, path])).toEqual([[4, 3, 'jobs.a.lease.ttl']]);
});

test('the 29th of February, which comes every four years, is no reason to warn', () => {
  expect(warningsOf({ cron: '0 12 29 2 *' })).toEqual([]);
});
