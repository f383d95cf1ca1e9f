import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager, type Logger } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';
import { call } from '../../packages/cli/test/commands/call.ts';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { startChild } from '../support/child.ts';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { callCli, runCli, startCli, type Result } from './fixtures/cli-process.ts';

const redisUrl = inject('redisUrl');
const member = new URL('./fixtures/member.ts', import.meta.url);
const target = `${redisUrl.replace('/0', '')}/0`;
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const HOSTILE = 'a\u202Egnp.exe\u2066';

interface Leases extends AsyncDisposable {
  readonly manager: LeaseManager;
  readonly prefix: string;
  readonly cli: (...args: string[]) => Promise<Result>;
}

function leases(owner = 'web-7f9c'): Leases {
  const prefix = uniqueName();
  const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all', owner });
  return {
    manager,
    prefix,
    cli: (...args) => callCli([...args, '-u', redisUrl, '--prefix', prefix]),
    [Symbol.asyncDispose]: async () => void (await manager.close({ grace: 0, abandonAfter: 0 })),
  };
}

/** A resource whose lease has run out. */
async function expire(prefix: string, resource: string): Promise<void> {
  const manager = new LeaseManager({
    store: redisStore(redisUrl, { prefix }),
    ttl: '100ms',
    owner: 'gone',
    logger: silent,
  });
  const lease = await manager.acquire(resource);
  lease.abandon();
  await once(lease.signal, 'abort');
  // By the owner's clock and with its margin: the store lets go a little later.
  while ((await manager.inspect(resource))?.state !== 'expired');
  await manager.close({ grace: 0, abandonAfter: 0 });
}

function rowsOf({ stdout }: Result): string[][] {
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'));
}

describe('leasehold, on a held, an expired, a free resource and one with a hostile name,', () => {
  test('lists them with trouble first, shows one, and tells its log and its ticks', async () => {
    await using shop = leases();
    const { manager, prefix, cli } = shop;
    await using held = await manager.acquire('customer:42');
    await using hostile = await manager.acquire(HOSTILE);
    const at = Math.floor(Date.now() / 1000) * 1000;
    await manager.run('reports', { tick: { job: 'nightly', at } }, async () => {});
    await expire(prefix, 'dead');

    const [ls, json, only, show, log, picture, runs, missing] = await Promise.all([
      runCli(['ls', '-u', redisUrl, '--prefix', prefix]),
      cli('ls', 'customer:*', '--held', '--json'),
      cli('ls', '--expired', '--owner', 'gone', '-q'),
      cli('show', 'customer:42', '--json'),
      cli('log', 'reports'),
      cli('log', 'reports', '--svg'),
      cli('runs', 'nightly', '--resource', 'reports'),
      cli('show', 'never'),
    ]);

    expect(ls).toMatchObject({ code: 0, stderr: expect.stringContaining(`${target} · prefix ${prefix}\n`) });
    const rows = rowsOf(ls);
    expect(rows[0]).toEqual(['STATE', 'RESOURCE', 'OWNER', 'TOKEN', 'LEFT', 'WAIT', 'NOTE']);
    expect(rows[1]?.slice(0, 2)).toEqual(['EXPIRED', 'dead']);
    expect(rows.at(-1)?.slice(0, 3)).toEqual(['FREE', 'reports', '-']);
    const line = rows.find(([, resource]) => resource === 'customer:42');
    expect(line).toMatchObject([
      'HELD',
      'customer:42',
      expect.stringMatching(/^web-7f9c pid \d+/),
      `${held.fencingToken}`,
      expect.stringMatching(/ s$/),
      '0',
      '-',
    ]);
    expect(rows.map(([, resource]) => resource)).toContain('a\\u{202e}gnp.exe\\u{2066}');
    expect(ls.stdout).not.toContain('\u202E');

    expect(json.stdout.trimEnd().split('\n')).toHaveLength(1);
    expect(JSON.parse(json.stdout)).toMatchObject({
      schema: 'leasehold/leases/v1',
      namespace: prefix,
      leases: [{ resource: 'customer:42', state: 'held', fencingToken: held.fencingToken, leaseId: held.leaseId }],
    });
    expect(rowsOf(only).map(([state, resource]) => [state, resource])).toEqual([
      ['STATE', 'RESOURCE'],
      ['EXPIRED', 'dead'],
    ]);
    expect(only.stderr).toBe('');
    expect(JSON.parse(show.stdout)).toMatchObject({
      schema: 'leasehold/lease/v1',
      resource: 'customer:42',
      identity: { pid: process.pid },
      events: [{ event: 'acquired' }],
    });
    expect(rowsOf(log).map(([, event]) => event)).toEqual(['EVENT', 'RELEASED', 'ACQUIRED']);
    expect(picture).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^<svg .*<title>Owners of reports<.*released.*<\/svg>\n$/s),
    });
    expect(rowsOf(runs)[1]?.slice(0, 3)).toEqual([new Date(at).toISOString(), 'DONE', '1']);
    expect(missing).toMatchObject({
      code: 3,
      stdout: '',
      stderr: expect.stringMatching(/nothing is known of never.*\nTry: leasehold diagnose never -u .* --prefix /s),
    });
    expect(hostile.isHeld()).toBe(true);
  });

  test('says to a reader of a log which events are kept, unless all are', async () => {
    await using shop = leases();
    const { manager, prefix } = shop;
    await using sparing = new LeaseManager({ store: redisStore(redisUrl, { prefix }), logger: silent });
    await manager.run('all', async () => {});
    await using lease = await sparing.acquire('few');
    await sparing.revoke('few', { leaseId: lease.leaseId });
    const log = (resource: string, terminal: { columns?: number } = { columns: 200 }): Promise<Result> =>
      call(['log', resource, '-n', '1', '-u', redisUrl, '--prefix', prefix], terminal);
    const [all, few, piped] = await Promise.all([log('all'), log('few'), log('few', {})]);
    expect(few).toMatchObject({ code: 0, stdout: expect.stringContaining('REVOKED') });
    expect(few.stderr).toContain('Only exceptional events of few are kept (history: exceptions)');
    expect([all.code, piped.code]).toEqual([0, 0]);
    expect(all.stderr + piped.stderr).not.toContain('exceptional');
  });

  test('takes the store from a config file, and tells what its jobs have run and will run', async () => {
    await using shop = leases();
    const folder = guardedFolder('cli');
    const file = join(folder, 'leasehold.yaml');
    const store = `store: { redis: '\${CLI_REDIS}', prefix: ${shop.prefix} }`;
    const nightly = `nightly: { cron: '0 3 * * *', timezone: UTC, handler: ./a.js, lease: { resource: reports } }`;
    const poll = `poll: { every: 5m, handler: ./a.js }`;
    const pay = `pay: { queue: pay, handler: ./a.js, lease: { resource: 'customer:{data.id}' } }`;
    writeFileSync(file, `version: 1\n${store}\njobs:\n  ${nightly}\n  ${poll}\n  ${pay}\n`);
    const at = Math.floor(Date.now() / 1000) * 1000;
    await shop.manager.run('reports', { tick: { job: 'nightly', at } }, async () => {});
    const runs = (...args: string[]): Promise<Result> =>
      callCli(['runs', ...args, '-c', file], { CLI_REDIS: redisUrl });

    const [all, json, unknown, pays, polls, show, counts] = await Promise.all([
      runs('--next', '2'),
      runs('nightly', '--json'),
      runs('nightli'),
      runs('pay'),
      runs('poll'),
      callCli(['show', 'nightly', '-c', file], { CLI_REDIS: redisUrl }),
      callCli(['ls', '--held', '-c', file], { CLI_REDIS: redisUrl }),
    ]);
    removeFolder(folder);
    expect(all).toMatchObject({ code: 0, stderr: `${target} · prefix ${shop.prefix} · ${file}\n` });
    const [, last, first, second, ...more] = rowsOf(all);
    for (const row of [second, first]) {
      expect(row?.slice(0, 3)).toEqual(['nightly', expect.stringContaining('T03:00:00.000Z'), 'NEXT']);
    }
    expect(Date.parse(second?.[1] ?? '') - Date.parse(first?.[1] ?? '')).toBe(86_400_000);
    expect(last?.slice(0, 4)).toEqual(['nightly', new Date(at).toISOString(), 'DONE', '1']);
    expect(more).toEqual([]);
    expect(JSON.parse(json.stdout)).toMatchObject({
      schema: 'leasehold/runs/v1',
      jobs: [{ job: 'nightly', resource: 'reports', ticks: [{ status: 'done' }], next: { length: 3 } }],
    });
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('there are nightly\n') });
    expect(unknown.stderr).toContain(`Try: leasehold runs nightly --config ${file}\n`);
    expect(pays).toMatchObject({ code: 2, stderr: expect.stringContaining('pay is a queue job, which has no ticks') });
    expect(pays.stderr).toContain(`Try: leasehold ls 'customer:*' -c ${file}\n`);
    expect(polls).toMatchObject({ code: 2, stderr: expect.stringContaining('an interval job, which has no ticks') });
    expect(show).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('the lease of the job nightly is on reports'),
    });
    expect(show.stderr).toContain(`Try: leasehold show reports -c ${file}\n`);
    // Between its runs nobody holds anything, which is not that nothing is known.
    expect(counts).toMatchObject({ code: 0, stdout: '' });
    expect(counts.stderr).toContain('0 of 1 shown; in all 0 held, 0 expired, 1 free\n');
  });

  test('says that nothing is known when the store is out of reach, and never shows the password', async () => {
    const url = 'redis://user:s3cret@127.0.0.1:1/0';
    const [refused, named] = await Promise.all([
      callCli(['ls'], { LEASEHOLD_REDIS_URL: url }),
      callCli(['ls', '-u', 'http://user:s3cret@127.0.0.1:1']),
    ]);
    expect(refused).toMatchObject({ code: 4, stdout: '' });
    expect(refused.stderr).toContain('redis://127.0.0.1:1/0 · prefix leasehold · LEASEHOLD_REDIS_URL\n');
    expect(refused.stderr).toContain(
      'Nothing is known about any lease.\nTry: leasehold doctor -u redis://127.0.0.1:1/0\n',
    );
    expect(named.code).toBe(2);
    expect(`${refused.stderr}${named.stderr}`).not.toContain('s3cret');
  });

  test('uses the password of REDISCLI_AUTH, and says so if it is refused', async () => {
    await using redis = await connectRedis(redisUrl);
    const user = uniqueName('user');
    await redis.call('ACL', 'SETUSER', user, 'on', '>p@ss/word', '~*', '&*', '+@all');
    const url = redisUrl.replace('redis://', `redis://${user}@`);
    const [good, bad] = await Promise.all(
      ['p@ss/word', 'wrong'].map((REDISCLI_AUTH) =>
        callCli(['ls', '--prefix', uniqueName()], { REDIS_URL: url, REDISCLI_AUTH }),
      ),
    );
    await redis.call('ACL', 'DELUSER', user);
    expect(good).toMatchObject({ code: 0 });
    expect(bad).toMatchObject({ code: 4, stderr: expect.stringContaining('STORE_AUTH') });
  });
});

describe('leasehold stop', () => {
  test('ends a run in another process, and returns when it has released', async () => {
    await using shop = leases();
    await using owner = startChild(member, { env: { REDIS_URL: redisUrl, PREFIX: shop.prefix, TTL_MS: '5000' } });
    await owner.next('ready');
    owner.send('do', { op: 'hold', resource: 'r', fenced: false });
    await owner.next('holds');
    await using cli = startCli(['stop', 'r', '--yes', '--reason', 'INC-4711', '-u', redisUrl, '--prefix', shop.prefix]);
    expect(await owner.next('aborted')).toMatchObject({ reason: 'revoked' });
    expect(await shop.manager.inspect('r')).toMatchObject({ state: 'held', revoked: true });
    owner.send('do', { op: 'release', resource: 'r' });
    expect(await cli.end).toMatchObject({ code: 0, stdout: expect.stringMatching(/^released/) });
    const [revoked] = await shop.manager.history('r');
    expect(revoked).toMatchObject({ event: 'revoked', detail: expect.stringMatching(/@.*: INC-4711$/) });
  });

  test('ends with 3 if the owner does not let go in time, or the lease runs out under it', async () => {
    await using shop = leases();
    await using owner = startChild(member, { env: { REDIS_URL: redisUrl, PREFIX: shop.prefix, TTL_MS: '1500' } });
    await owner.next('ready');
    for (const resource of ['a', 'b']) {
      owner.send('do', { op: 'hold', resource, fenced: false });
      await owner.next('holds');
    }
    const [early, late] = await Promise.all([
      shop.cli('stop', 'a', '--yes', '--timeout', '0', '--json'),
      shop.cli('stop', 'b', '--yes', '--timeout', '20s'),
    ]);
    expect(early.code).toBe(3);
    expect(JSON.parse(early.stdout)).toMatchObject({ schema: 'leasehold/stop/v1', outcome: 'held' });
    expect(early.stderr).toMatch(
      /may go on after that.*\nWait until \S+Z, .* Then look whether the process of .* pid \d+/s,
    );
    expect(late.stderr).toMatch(/\nNow look whether the process of .* both act\.\n$/);
    expect(late).toMatchObject({ code: 3, stdout: expect.stringMatching(/^ran out without being released/) });
    expect(await shop.cli('stop', 'b', '--yes')).toMatchObject({
      code: 3,
      stdout: '',
      stderr: expect.stringContaining('has run out already'),
    });
  });

  test('at a terminal wants the name typed, and does nothing for another', async () => {
    await using shop = leases();
    await using lease = await shop.manager.acquire('r');
    lease.signal.addEventListener('abort', () => void lease.release());
    const args = ['stop', 'r', '-u', redisUrl, '--prefix', shop.prefix, '--no-color'];
    expect(await callCli(args, {}, '')).toMatchObject({ code: 2, stderr: expect.stringContaining('nothing was done') });
    const wrong = await callCli(args, {}, 'R\n');
    expect(wrong).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('nothing was done') });
    expect(wrong.stderr).toContain(`${target} · prefix ${shop.prefix}\nr is held by web-7f9c pid ${process.pid}`);
    expect(await shop.manager.inspect('r')).toMatchObject({ state: 'held', revoked: false });
    expect(await callCli(args, {}, 'r\n')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^released/) });
  });

  test('does nothing where nobody can be asked, and nothing to what nobody holds', async () => {
    await using shop = leases();
    await using lease = await shop.manager.acquire('r');
    await shop.manager.run('free', async () => {});
    const [unasked, free, other] = await Promise.all([
      shop.cli('stop', 'r'),
      shop.cli('stop', 'free', '--yes'),
      shop.cli('stop', 'r', '--yes', '--lease-id', 'another'),
    ]);
    expect(unasked).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('--yes') });
    expect(free).toMatchObject({ code: 0, stdout: 'free is free already\n' });
    expect(other).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('another owner') });
    expect(await shop.manager.inspect('r')).toMatchObject({ state: 'held', revoked: false });
    expect(lease.isHeld()).toBe(true);
  });
});

/** Refuses to load what a command that asks no store can do without. */
const poison = `data:text/javascript,${encodeURIComponent(`
  import { register } from 'node:module';
  const hooks = "export function resolve(name, context, next) { if (/^(ioredis|bullmq|zod|yaml|@leasehold)/.test(name)) throw new Error('loaded ' + name); return next(name, context); }";
  register('data:text/javascript,' + encodeURIComponent(hooks));
`)}`;

test('help and completion load neither a client of Redis nor BullMQ', async () => {
  const execArgv = ['--import', poison];
  const [help, completion, control] = await Promise.all([
    runCli(['--help'], { execArgv }),
    runCli(['completion', 'bash'], { execArgv }),
    runCli(['ls', '-u', redisUrl], { execArgv }),
  ]);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  expect(completion).toMatchObject({ code: 0, stderr: '' });
  expect(control).toMatchObject({ code: 1, stderr: expect.stringContaining('loaded') });
});
