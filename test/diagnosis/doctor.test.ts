// Each thing that is wrong with a store is made wrong on a real server, and found.
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager, systemClock, type LeaseManagerOptions } from '@leasehold/core';
import { doctor, type Checkup, type DoctorOptions, type Finding } from '@leasehold/core/diagnosis';
import { redisAcl, redisDiagnosisAcl, redisStore, type RedisStoreOptions } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { callCli, type Result } from '../e2e/fixtures/cli-process.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

let server: RedisServer;
let raw: Redis;
let dir: string;

beforeAll(async () => {
  server = await startRedis({ args: ['--appendonly', 'yes', '--save', ''], scope: 'file' });
  raw = await connectRedis(server.url);
  dir = guardedFolder('doctor');
});

afterAll(async () => {
  raw.disconnect();
  await server.stop();
  removeFolder(dir);
});

type Asked = DoctorOptions &
  Pick<RedisStoreOptions, 'prefix' | 'endpoints' | 'clock'> & {
    readonly url?: string;
    readonly manager?: Omit<LeaseManagerOptions, 'store'>;
  };

async function checkup({
  url = server.url,
  manager,
  prefix,
  endpoints,
  clock,
  ...options
}: Asked = {}): Promise<Checkup> {
  await using leases = new LeaseManager({ store: redisStore(url, { prefix, endpoints, clock }), ...manager });
  return await doctor(leases, options);
}

/** Of one check on one subject: `error`, or what the whole says. */
function of(found: Checkup, id: Finding['id'], subject?: string): Finding {
  const all = found.findings.filter((each) => each.id === id && (subject === undefined || each.subject === subject));
  expect(all, `${id} of ${found.findings.map((each) => each.id).join(' ')}`).toHaveLength(1);
  return all[0] as Finding;
}

/** With these settings of the server, which are as before afterwards. */
async function withSettings<T>(settings: Readonly<Record<string, string>>, body: () => Promise<T>): Promise<T> {
  const before: [string, string][] = [];
  for (const name of Object.keys(settings)) {
    const [, value = ''] = await raw.config('GET', name);
    before.push([name, value]);
  }
  try {
    for (const [name, value] of Object.entries(settings)) await raw.config('SET', name, value);
    return await body();
  } finally {
    for (const [name, value] of before.toReversed()) await raw.config('SET', name, value);
  }
}

async function usedBytes(): Promise<number> {
  return Number(/used_memory:(\d+)/.exec(await raw.info('memory'))?.[1]);
}

describe('leasehold doctor', () => {
  test('has nothing to say against a store that is fit', async () => {
    const found = await checkup({ leases: [{ name: 'reports', ttlMs: 30_000, isFenced: true }] });
    // Whether the clock of this machine is kept is none of the store's affair.
    const bad = found.findings.filter(
      ({ id, severity }) => id !== 'ntp' && (severity === 'error' || severity === 'warning'),
    );
    expect(bad).toEqual([]);
    expect(found).toMatchObject({
      schema: 'leasehold/doctor/v1',
      reached: true,
      store: expect.stringContaining('redis'),
    });
    for (const id of ['store', 'version', 'role', 'eviction', 'persistence', 'memory', 'clock'] as const) {
      expect(of(found, id)).toMatchObject({ severity: 'ok', remedy: '' });
    }
    expect(found.servers).toHaveLength(1);
  });

  test.each<[string, Readonly<Record<string, string>>, Finding['id'], Finding['severity'], RegExp]>([
    [
      'throws leases away',
      { maxmemory: '1gb', 'maxmemory-policy': 'allkeys-lru' },
      'eviction',
      'error',
      /granted twice/,
    ],
    ['would throw them away', { 'maxmemory-policy': 'allkeys-random' }, 'eviction', 'warning', /as soon as a limit/],
    ['throws ticks away', { 'maxmemory-policy': 'volatile-ttl' }, 'eviction', 'warning', /a tick may run twice/],
    ['keeps nothing', { appendonly: 'no' }, 'persistence', 'warning', /^keeps nothing: forgets leases in a restart/],
    ['has snapshots only', { appendonly: 'no', save: '3600 1' }, 'persistence', 'warning', /^has snapshots only/],
    ['writes when it pleases', { appendfsync: 'no' }, 'persistence', 'warning', /half a minute/],
    ['is full', { maxmemory: '500kb' }, 'memory', 'error', /writes are refused now/],
    ['wants replicas that are not there', { 'min-replicas-to-write': '1' }, 'replicas', 'error', /wants 1 .* has 0/],
  ])('finds a server that %s', async (_, settings, id, severity, reason) => {
    const found = await withSettings(settings, () => checkup());
    const finding = of(found, id);
    expect(finding).toMatchObject({
      severity,
      reason: expect.stringMatching(reason),
      subject: `127.0.0.1:${server.port}`,
    });
    expect(finding.remedy).not.toBe('');
    expect(of(await checkup(), 'eviction').severity).toBe('ok');
  });

  test('finds a server that is nearly full, and says of one that forgets whether that is waited out', async () => {
    const maxmemory = String(Math.round((await usedBytes()) * 1.05));
    const full = await withSettings({ maxmemory }, () => checkup());
    expect(of(full, 'memory')).toMatchObject({ severity: 'warning', reason: expect.stringMatching(/^uses 9\d %/) });
    const kept = await withSettings({ appendonly: 'no' }, () => checkup({ manager: { quarantine: true } }));
    expect(of(kept, 'persistence').reason).toContain('acquisitions wait out a young server');
  });

  test('finds a disk that cannot be written to', async () => {
    const inTheWay = join(server.dir, 'dump.rdb');
    mkdirSync(inTheWay);
    try {
      // Since the settings before this, the append-only file may still be written anew.
      await raw.bgsave('SCHEDULE');
      while (!(await raw.info('persistence')).includes('rdb_last_bgsave_status:err')) await new Promise(setImmediate);
      expect(of(await checkup(), 'disk')).toMatchObject({ severity: 'error', reason: /^the last snapshot failed/ });
    } finally {
      rmdirSync(inTheWay);
      await raw.bgsave('SCHEDULE');
    }
    while (!(await raw.info('persistence')).includes('rdb_last_bgsave_status:ok')) await new Promise(setImmediate);
    expect((await checkup()).findings.map(({ id }) => id)).not.toContain('disk');
  });

  test('finds that it is asked through a replica, and that nobody reaches its primary', async () => {
    await raw.replicaof('127.0.0.1', 1);
    try {
      const found = await checkup();
      expect(of(found, 'role', `127.0.0.1:${server.port}`)).toMatchObject({
        severity: 'error',
        reason: /^is a replica/,
      });
      expect(of(found, 'role', '127.0.0.1:1')).toMatchObject({ severity: 'warning' });
      expect(found.reached).toBe(true);
    } finally {
      await raw.replicaof('NO', 'ONE');
    }
  });

  test('finds two primaries among the endpoints that it was given', async () => {
    const { host } = new URL(inject('redisUrl'));
    const found = await checkup({ endpoints: [host] });
    expect(of(found, 'masters')).toMatchObject({ severity: 'error', reason: expect.stringContaining(host) });
  });

  test('finds a host whose clock is off, the worse if its ticks are too early', async () => {
    const offBy = (ms: number): Promise<Checkup> =>
      checkup({
        clock: {
          monotonicMs: () => systemClock.monotonicMs(),
          uptimeMs: () => systemClock.uptimeMs(),
          wallMs: () => systemClock.wallMs() + ms,
          wallUs: () => systemClock.wallUs() + ms * 1000,
          setTimer: (delayMs, fire, options) => systemClock.setTimer(delayMs, fire, options),
        },
      });
    expect(of(await offBy(5000), 'clock')).toMatchObject({ severity: 'error', reason: /ahead of .* too early$/ });
    expect(of(await offBy(1500), 'clock')).toMatchObject({ severity: 'warning', reason: /1\.5 s ahead/ });
    expect(of(await offBy(-5000), 'clock')).toMatchObject({ severity: 'warning', reason: /5 s behind/ });
    expect(of(await offBy(300), 'clock').severity).toBe('ok');
  });
});

/** With this line of an ACL, by a user of its own. */
async function asUser<T>(line: string, body: (url: string) => Promise<T>): Promise<T> {
  const [command = '', verb = '', user = '', ...rights] = line.split(' ');
  await raw.call(command, verb, user, ...rights, '>s3cret');
  try {
    return await body(server.url.replace('redis://', `redis://${user}:s3cret@`));
  } finally {
    await raw.call('ACL', 'DELUSER', user);
  }
}

describe('the rights of the user', () => {
  const [prefix, user] = [uniqueName('acl'), uniqueName('user')];
  const line = redisAcl(prefix, user);
  const without = (text: string, right: string): string =>
    text
      .split(' ')
      .filter((word) => word !== right)
      .join(' ');

  test('are enough with the smallest ACL, of owners as of people who look', async () => {
    const own = await asUser(line, (url) => checkup({ url, prefix }));
    expect(of(own, 'rights')).toMatchObject({ severity: 'ok' });
    expect(of(own, 'rights-to-look').reason).toContain('+client|list');
    expect(own.smallestAcl).toEqual({ own: redisAcl(prefix), look: redisDiagnosisAcl(prefix) });
    const look = await asUser(redisDiagnosisAcl(prefix, user), (url) => checkup({ url, prefix }));
    expect(of(look, 'rights')).toMatchObject({ severity: 'notice', reason: expect.stringContaining('may only look') });
    expect(of(look, 'rights-to-look')).toMatchObject({ severity: 'ok' });
    const elsewhere = await checkup({ url: `${server.url}/3`, prefix });
    expect(elsewhere.smallestAcl?.own).toBe(redisAcl(prefix, undefined, { database: true }));
    expect(of(await checkup({ prefix }), 'rights')).toMatchObject({ severity: 'notice', reason: /FLUSHALL/ });
  });

  test('to look are enough for every command that looks, and for none that acts', async () => {
    await using owner = new LeaseManager({ store: redisStore(server.url, { prefix }), history: 'all' });
    await using lease = await owner.acquire('reports', { tick: { job: 'nightly', at: new Date() } });
    await asUser(redisDiagnosisAcl(prefix, user), async (url) => {
      const at = ['-u', url, '--prefix', prefix];
      for (const [verb, ...args] of [
        ...[['ls'], ['show', 'reports'], ['log', 'reports'], ['runs', 'nightly', '--resource', 'reports']],
        ...[
          ['diagnose', 'reports'],
          ['diagnose', 'reports', '--by-hand'],
        ],
        ...[['evidence', 'reports', '--out', dir]],
      ]) {
        const { code, stdout, stderr } = await callCli([verb ?? '', ...args, ...at]);
        expect({ verb, code, stderr }).toMatchObject({ code: 0 });
        // What only CONFIG GET tells is not among it.
        const told = (stdout + stderr).replace(/^missing: settings .*$/m, '');
        expect(told, verb).not.toMatch(/NOPERM|not permitted/);
      }
      const stop = await callCli(['stop', 'reports', '--reason', 'x', '--yes', ...at]);
      expect(stop).toMatchObject({ code: 4, stderr: expect.stringContaining('STORE_AUTH') });
    });
    expect(lease.signal.aborted).toBe(false);
  });

  test('are told one by one where they are missing, whichever it is', async () => {
    const needed = new Set(line.split(' ').filter((word) => /^[+~&]/.test(word)));
    for (const right of needed) {
      const found = await asUser(without(line, right), (url) => checkup({ url, prefix }));
      // Without it no question can be asked at all; the server says so itself.
      const finding = right === '+eval' ? of(found, 'store') : of(found, 'rights');
      const isDispensable = ['+publish', '+xadd', '+client|setname'].includes(right);
      expect(finding, right).toMatchObject({ severity: isDispensable ? 'warning' : 'error' });
      expect(finding.reason, right).toContain(right.startsWith('+eval') ? right.slice(1) : `lacks ${right}:`);
    }
    expect(needed.size).toBeGreaterThan(25);
  });

  test('to look are told together', async () => {
    const look = redisDiagnosisAcl(prefix, user);
    const less = without(without(look, '+client|list'), '+role');
    const found = await asUser(less, (url) => checkup({ url, prefix }));
    expect(of(found, 'rights-to-look')).toMatchObject({
      severity: 'notice',
      reason: expect.stringContaining('lacks +role +client|list'),
      remedy: 'ACL SETUSER <user> +role +client|list',
    });
  });
});

describe('leases and their owners', () => {
  /** A lease that somebody holds, whose owner has written this of itself. */
  async function checkupWith(vitals: object, ttl: number, options: Asked = {}): Promise<Checkup> {
    const prefix = uniqueName('owners');
    await using leases = new LeaseManager({ store: redisStore(server.url, { prefix }), ttl });
    await using _lease = await leases.acquire('reports');
    const key = `${prefix}:{reports}`;
    const identity = JSON.parse((await raw.hget(key, 'owner_json')) ?? '{}') as object;
    const none = { worstPauseMs: 0, worstClockStepMs: 0, worstSuspendMs: 0, worstRoundTripMs: 0 };
    const rest = { worstExtensionRatio: 0, failedExtensions: 0, clockOffsetMs: null, serverRunId: '' };
    const all = { ...none, ...rest, measuredAt: new Date().toISOString(), ...vitals };
    await raw.hset(key, 'owner_json', JSON.stringify({ ...identity, vitals: all }));
    return await checkup({ prefix, leases: [], ...options });
  }

  test('a lease that its owner has already slept through is an error, one without room a warning', async () => {
    const slept = of(await checkupWith({ worstPauseMs: 20_000 }, 10_000), 'ttl');
    expect(slept).toMatchObject({
      severity: 'error',
      subject: 'lease reports',
      reason: /measured already: .*pause 20 s/,
    });
    expect(slept.remedy).toMatch(/^raise lease\.ttl to \d+(\.\d)? s/);
    expect(of(await checkupWith({ worstPauseMs: 4000 }, 10_000), 'ttl')).toMatchObject({ severity: 'warning' });
    const enough = await checkupWith({ worstPauseMs: 500 }, 10_000);
    expect(enough.findings.filter(({ id }) => id === 'ttl')).toEqual([]);
  });

  test('so is one that is only configured, by the worst of all owners; and by the multiplier that is given', async () => {
    const leases = [{ name: 'nightly', ttlMs: 5000, isFenced: false }];
    const found = await checkupWith({ worstPauseMs: 2000 }, 60_000, { leases });
    expect(of(found, 'ttl')).toMatchObject({ severity: 'warning', subject: 'nightly' });
    expect(of(found, 'fences')).toMatchObject({ severity: 'warning', reason: expect.stringContaining('nightly') });
    const bold = await checkupWith({ worstPauseMs: 2000 }, 60_000, { leases, multiplier: 1 });
    expect(of(bold, 'ttl').severity).toBe('ok');
    const none = await checkup({ leases, prefix: uniqueName() });
    expect(of(none, 'ttl')).toMatchObject({ severity: 'notice', reason: expect.stringContaining('no owner') });
    await expect(checkup({ multiplier: 0.5 })).rejects.toMatchObject({ code: 'CONFIG', option: 'multiplier' });
  });

  test('owners that were nearly too late, had no answer, or whose clock is off are named', async () => {
    const late = await checkupWith({ worstExtensionRatio: 0.81 }, 30_000);
    expect(of(late, 'extensions')).toMatchObject({
      severity: 'warning',
      reason: expect.stringMatching(/0\.81 of the ttl/),
    });
    expect(of(late, 'extensions').reason).toMatch(/ pid \d+/);
    const failed = await checkupWith({ failedExtensions: 3 }, 30_000);
    expect(of(failed, 'extensions')).toMatchObject({ severity: 'notice', reason: expect.stringMatching(/ 3$/) });
    const off = await checkupWith({ clockOffsetMs: -4000 }, 30_000);
    expect(of(off, 'owner-clocks')).toMatchObject({ severity: 'warning', reason: expect.stringMatching(/by 4 s$/) });
    expect(of(await checkupWith({ clockOffsetMs: 3 }, 30_000), 'owner-clocks').severity).toBe('ok');
  });

  test('what nobody can have measured is not believed, and breaks nothing', async () => {
    for (const worstPauseMs of ['20000', -1, 1e300, null, { a: 1 }]) {
      const found = await checkupWith({ worstPauseMs }, 10_000);
      expect(found.findings.filter(({ id }) => id === 'ttl')).toEqual([]);
      expect(of(found, 'extensions').reason).toContain('leases held: 1, by owners that say how they are: 0');
    }
  });

  test('a refresh ratio outside 3 to 5 is told', async () => {
    const at = async (refreshRatio: number): Promise<Finding> =>
      of(await checkup({ manager: { refreshRatio } }), 'refresh-ratio');
    expect(await at(2)).toMatchObject({ severity: 'warning', reason: /without an answer can lose it/ });
    expect(await at(8)).toMatchObject({ severity: 'warning' });
    expect((await at(4)).severity).toBe('ok');
  });
});

describe('the command', () => {
  function config(text: string, more = ''): string {
    const file = join(dir, `${uniqueName()}.yaml`);
    writeFileSync(file, `version: 1\nstore: { redis: '${server.url}', prefix: shop${more} }\n${text}`);
    return file;
  }
  const run = (...args: string[]): Promise<Result> => callCli(['doctor', ...args]);

  test('looks at the fences of a config and at its jobs, and ends with 3 for what is to be mended', async () => {
    const database = inject('postgresUrl');
    const file = config(
      `fences: { ledger: { postgres: '${database}', schema: ${uniqueName('none').replaceAll('-', '_')} }, data: { redis: '${inject('redisUrl')}' } }\n` +
        `defaults: { lease: { refreshRatio: 9 } }\njobs: { a: { every: 1h, handler: ./a.js, lease: { fences: [ledger] } }, b: { every: 1h, handler: ./b.js } }\n`,
    );
    const { code, stdout, stderr } = await run(file);
    expect(code).toBe(3);
    expect(stderr).toContain(`redis://127.0.0.1:${server.port}/0 · prefix shop · ${file}`);
    const rows = stdout.split('\n').map((row) => row.split('\t'));
    expect(rows[0]).toEqual(['SEVERITY', 'CHECK', 'OF', 'FOUND']);
    expect(rows[1]).toEqual(['ERROR', 'fence', 'ledger', 'is not installed: every write through it fails']);
    expect(rows).toContainEqual(['OK', 'fence', 'data', 'answers, enforcing']);
    // The shared server keeps nothing, and a fence there would forget its tokens.
    expect(rows.filter(([, , subject]) => subject?.startsWith('data (')).map(([, id]) => id)).toEqual(['persistence']);
    expect(stdout).toMatch(/WARNING\tfences\t-\t.*: b\n/);
    expect(stdout).toMatch(/WARNING\trefresh-ratio\t/);
    expect(stdout).toContain(`\n${redisAcl('shop')}\n`);
    expect(stdout).toContain('\n  leasehold fence install, or installSchema\n');
    expect(await run(file, '-c', 'another.yaml')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('two configs'),
    });
  });

  test('asks the endpoints that a config names, as diagnose does: two primaries are a split brain', async () => {
    const { host } = new URL(inject('redisUrl'));
    const file = config('jobs: { a: { every: 1h, handler: ./a.js } }\n', `, endpoints: ['${host}']`);
    expect((await run(file)).stdout).toMatch(/^ERROR\tmasters\t-\t127\.0\.0\.1:\d+ and 127\.0\.0\.1:\d+ say/m);
    const diagnosed = await callCli(['diagnose', 'reports', '-c', file, '--json']);
    expect(JSON.parse(diagnosed.stdout)).toMatchObject({ verdict: { code: 'split-brain' } });
    // Of another store they are not asked, and do not get its password.
    const other = await callCli(['diagnose', 'reports', '-c', file, '-u', server.url, '--json']);
    expect(JSON.parse(other.stdout)).not.toMatchObject({ verdict: { code: 'split-brain' } });
  });

  test('ends with 0 where nothing is worse than a notice, with one object for programs', async () => {
    const { url } = server;
    const { code, stdout } = await run('-u', url, '--json');
    const found = JSON.parse(stdout) as Checkup;
    const worst = found.findings.filter(({ severity }) => severity === 'error' || severity === 'warning');
    expect(found.schema).toBe('leasehold/doctor/v1');
    expect(worst.filter(({ id }) => id !== 'ntp')).toEqual([]);
    expect(code).toBe(worst.length === 0 ? 0 : 3);
    expect(await withSettings({ appendonly: 'no' }, () => run('-u', url))).toMatchObject({ code: 3 });
  });

  test('ends with 4 where nobody answers, and still says what it knows', async () => {
    const { code, stdout } = await run('-u', 'redis://:s3cret@127.0.0.1:1');
    expect(code).toBe(4);
    expect(stdout).toMatch(/^ERROR\tstore\t-\tcannot be used: .*127\.0\.0\.1:1/m);
    expect(stdout).toContain('\tntp\t');
    expect(stdout).not.toContain('s3cret');
  });
});
