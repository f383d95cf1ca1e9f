import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

import {
  CONFIG_FILES,
  defineConfig,
  findConfig,
  loadConfig,
  parseConfig,
  type LeaseholdConfig,
} from '../../src/index.ts';
import { hostOf } from '../../src/connection.ts';
import { folderOf, problemsOf, withJob } from './support.ts';

const page = await readFile(new URL('../../../../docs/config.md', import.meta.url), 'utf8');
const example = /```yaml\n([\s\S]*?)```/.exec(page)?.[1] as string;
const env = { DATABASE_URL: 'postgres://db/shop' };

const lease = { ttlMs: 30_000, maxHoldMs: Infinity, fences: [], activate: 'before' };
const settings = {
  store: {
    redis: 'redis://127.0.0.1:6379',
    prefix: 'shop',
    endpoints: [],
    connectTimeoutMs: 5000,
    history: 'exceptions',
    quarantine: false,
  },
  fences: new Map([
    [
      'ledger',
      {
        kind: 'postgres',
        url: 'postgres://db/shop',
        schema: 'leasehold',
        timeoutMs: undefined,
        idleTimeoutMs: undefined,
        lockTimeoutMs: undefined,
        isolation: 'read committed',
      },
    ],
  ]),
  server: { listen: { host: undefined, port: 9464 } },
  timing: {},
  shutdown: { graceMs: 10_000, exitOnAbandon: false },
  jobs: [
    {
      kind: 'cron',
      name: 'nightly-report',
      handler: { module: './jobs/report.js', exported: 'default' },
      isolate: 'none',
      expression: '0 3 * * *',
      timezone: 'UTC',
      startingDeadlineMs: 300_000,
      overlap: 'skip',
      catchUp: 'latest',
      retry: 0,
      maxRandomDelayMs: 0,
      maxExecutions: undefined,
      missedExecutionToleranceMs: undefined,
      suppressMissedWarning: false,
      manual: 'lease',
      lease: { ...lease, maxHoldMs: 7_200_000, fences: ['ledger'], resource: 'reports' },
    },
    {
      kind: 'queue',
      name: 'payments',
      handler: { module: './jobs/pay.js', exported: 'charge' },
      isolate: 'none',
      queue: 'payments',
      prefix: 'bull',
      connection: 'redis://127.0.0.1:6379',
      concurrency: 10,
      limiter: undefined,
      lockDurationMs: undefined,
      stalledIntervalMs: undefined,
      maxStalledCount: undefined,
      removeOnComplete: undefined,
      removeOnFail: undefined,
      lease: {
        ...lease,
        fences: ['ledger'],
        resource: expect.objectContaining({ text: 'customer:{data.customerId}', fields: ['data.customerId'] }),
        scope: 'job',
        whenBusy: 'delay',
        whenLost: 'requeue',
        abandonAfterMs: Infinity,
      },
    },
    {
      kind: 'interval',
      name: 'heartbeat',
      handler: { module: './jobs/heartbeat.js', exported: 'default' },
      isolate: 'none',
      everyMs: 300_000,
      minHoldMs: 295_000,
      manual: 'lease',
      lease: { ...lease, resource: 'heartbeat' },
    },
  ],
};

test('the example of the documentation comes to its settings, with every default, from YAML, JSON and modules', async () => {
  const json = JSON.stringify(parse(example), null, '\t');
  await using folder = await folderOf({
    'a.yaml': example,
    'a.yml': `\uFEFF${example.replaceAll('\n', '\r\n')}`,
    'a.json': json,
    'a.mjs': `export default ${json};`,
    'a.ts': `const config: object = ${json};\nexport default config;`,
  });
  for (const name of ['a.yaml', 'a.yml', 'a.json', 'a.mjs', 'a.ts']) {
    const loaded = await loadConfig(folder.file(name), { env });
    expect(loaded.settings, name).toEqual(settings);
    expect(loaded.folder, name).toBe(folder.path);
  }
  expect(parseConfig(defineConfig(parse(example) as LeaseholdConfig), { env }).settings).toEqual(settings);
});

test('defaults are for jobs that do not say otherwise', () => {
  const defaults = {
    timezone: 'Europe/Berlin',
    retry: 2,
    startingDeadline: '1h',
    lease: { ttl: '10s', maxHold: '1h' },
  };
  const job = { cron: '0 3 * * *', handler: './a.js' };
  const [left] = parseConfig(withJob(job, { defaults })).settings.jobs;
  expect(left).toMatchObject({ timezone: 'Europe/Berlin', retry: 2, startingDeadlineMs: 3_600_000 });
  expect(left?.lease).toMatchObject({ ttlMs: 10_000, maxHoldMs: 3_600_000 });
  const own = { ...job, timeZone: 'UTC', retry: 0, lease: { ttl: '20s' } };
  const [given] = parseConfig(withJob(own, { defaults })).settings.jobs;
  expect(given).toMatchObject({ timezone: 'UTC', retry: 0, lease: { ttlMs: 20_000, maxHoldMs: 3_600_000 } });
});

test('further servers have the port of a Redis if none is given, and reach the store by their names', () => {
  const { settings } = parseConfig({
    version: 1,
    store: { redis: 'redis://redis-1', endpoints: ['redis-2', '[::1]:6380', { host: 'redis-3', port: 7000 }] },
    jobs: { a: { every: '5m', handler: './a.js' } },
  });
  expect(settings.store.endpoints.map(hostOf)).toEqual(['redis-2:6379', '[::1]:6380', 'redis-3:7000']);
});

test('jobs that name the same resource are meant to take turns', () => {
  const job = { every: '5m', handler: './a.js', lease: { resource: 'ledger' } };
  const { settings } = parseConfig({
    version: 1,
    store: { redis: 'redis://127.0.0.1:6379' },
    jobs: { a: job, b: job } as LeaseholdConfig['jobs'],
  });
  expect(settings.jobs.map(({ lease }) => lease.resource)).toEqual(['ledger', 'ledger']);
});

test('between the beginnings of runs passes a little less than the interval, so that timers may differ', () => {
  const minHoldOf = (every: string): unknown =>
    parseConfig(withJob({ every, handler: './a.js' })).settings.jobs.map(
      (job) => job.kind === 'interval' && job.minHoldMs,
    );
  expect([minHoldOf('1s'), minHoldOf('30s'), minHoldOf('1h')]).toEqual([[900], [27_000], [3_595_000]]);
});

test('what one job has wrong hides nothing of another', async () => {
  const problems = await problemsOf(() =>
    parseConfig({
      version: 2,
      store: { redis: 'redis://127.0.0.1' },
      defaults: { retry: -1 },
      jobs: { a: { every: 'x' }, b: { cron: '0 3 * * *', handler: './b.js', lease: { fences: ['c'] } } },
    } as never),
  );
  expect(problems.map(({ path }) => path)).toEqual([
    'version',
    'defaults.retry',
    'jobs.a.every',
    'jobs.a.handler',
    'jobs.b.lease.fences[0]',
  ]);
});

test('a config is found by its name, and not chosen among several', async () => {
  await using none = await folderOf({ 'other.yaml': '' });
  await using one = await folderOf({ 'leasehold.config.mjs': '' });
  await using two = await folderOf({ 'leasehold.yaml': '', 'leasehold.json': '' });
  expect(await findConfig(one.path)).toBe(one.file('leasehold.config.mjs'));
  const [missing] = await problemsOf(() => findConfig(none.path));
  expect(missing).toMatchObject({ file: undefined, message: expect.stringContaining(`${none.path} has no config (`) });
  for (const name of CONFIG_FILES) expect(missing?.message).toContain(name);
  const [several] = await problemsOf(() => findConfig(two.path));
  expect(several?.message).toBe(`${two.path} has leasehold.yaml and leasehold.json`);
});

test('keys that are no names in JavaScript are refused in a config that code has made, too', async () => {
  const config = JSON.parse('{ "version": 1, "__proto__": { "store": {} }, "jobs": { "constructor": {} } }') as never;
  const problems = await problemsOf(() => parseConfig(config));
  expect(problems.filter(({ message }) => message.includes('not allowed')).map(({ path }) => path)).toEqual([
    '__proto__',
    'jobs.constructor',
  ]);
  expect(problems.map(({ path }) => path)).toContain('store');
});

test('what is no config at all is told of, and a value that fails when it is read', async () => {
  for (const config of [undefined, null, 'text', 5, []]) {
    const [problem] = await problemsOf(() => parseConfig(config as never));
    expect(problem?.remedy).toContain('begin with version: 1');
  }
  const failing = {
    get version(): 1 {
      throw new Error('not now');
    },
  };
  const [problem] = await problemsOf(() => parseConfig(failing as never));
  expect(problem?.message).toContain('not now');
});
