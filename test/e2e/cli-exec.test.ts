import { readFileSync } from 'node:fs';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';
import { connectRedis, uniqueName } from '../support/redis-client.ts';
import { isAlive } from '../support/signals.ts';
import { callCli, runCli, startCli, type CliProcess, type Result } from './fixtures/cli-process.ts';

const redisUrl = inject('redisUrl');

interface Shop extends AsyncDisposable {
  readonly manager: LeaseManager;
  readonly prefix: string;
  /** Arguments of `exec`, the command after them. */
  readonly start: (options: readonly string[], ...command: string[]) => CliProcess;
  /** As `run`, in this process. */
  readonly call: (options: readonly string[], ...command: string[]) => Promise<Result>;
  readonly run: (options: readonly string[], ...command: string[]) => Promise<Result>;
}

function shop(): Shop {
  const prefix = uniqueName();
  const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all' });
  const args = (options: readonly string[], command: readonly string[]): string[] => [
    ...['exec', 'job', '-u', redisUrl, '--prefix', prefix, ...options, '--'],
    ...command,
  ];
  return {
    manager,
    prefix,
    start: (options, ...command) => startCli(args(options, command)),
    call: (options, ...command) => callCli(args(options, command), { PATH: process.env['PATH'] ?? '' }),
    run: (options, ...command) => runCli(args(options, command)),
    [Symbol.asyncDispose]: async () => void (await manager.close({ grace: 0, abandonAfter: 0 })),
  };
}

/** Ends with the test, whatever has gone wrong: a command outlives a `leasehold` that was killed. */
const SLEEP = 'while kill -0 $PPID 2>/dev/null; do sleep 0.05; done';

/** Says that it runs, then sleeps; SIGTERM is its end unless a trap says otherwise. */
const sleeper = (trap: string): string[] => ['sh', '-c', `${trap} echo "ready $$"; ${SLEEP}`];

async function pidOf(cli: CliProcess): Promise<number> {
  await cli.wrote('ready ');
  await cli.wrote('\n');
  return Number(/ready (\d+)/.exec(cli.stdout)?.[1]);
}

/** SIGSTOP or SIGKILL would tell less: the record is gone, and the owner hears of it at its next extension. */
async function deleteRecord(prefix: string): Promise<void> {
  await using redis = await connectRedis(redisUrl);
  expect(await redis.del(`${prefix}:{job}`)).toBe(1);
}

describe('leasehold exec', () => {
  test('gives the command its grant and its arguments, ends with its code, and releases', async () => {
    await using at = shop();
    const script = 'echo "$LEASEHOLD_RESOURCE $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_LEASE_ID"; printf "%s|" "$@"; exit 7';
    const { code, stdout, stderr } = await at.run([], 'sh', '-c', script, 'sh', '-n', '--', 'a b');
    const info = await at.manager.inspect('job');
    expect(code).toBe(7);
    expect(stdout).toBe(`${at.prefix}/job ${info?.fencingToken} ${info?.leaseId}\n-n|--|a b|`);
    expect(stderr).toContain(`prefix ${at.prefix}\n`);
    expect(info).toMatchObject({ state: 'free', previous: { reason: 'released' } });
  });

  test('ends with 75, or the code of -E, without running it, if the resource is busy', async () => {
    await using at = shop();
    await using lease = await at.manager.acquire('job');
    const [busy, other] = await Promise.all([at.call([], 'echo', 'ran'), at.call(['-E', '9'], 'echo', 'ran')]);
    expect(busy).toMatchObject({ code: 75, stdout: '', stderr: expect.stringContaining('not run: RESOURCE_BUSY job') });
    expect(other).toMatchObject({ code: 9, stdout: '' });
    expect(lease.isHeld()).toBe(true);
  });

  test('runs a tick once, and gives it back if the command cannot be started', async () => {
    await using at = shop();
    const tick = ['--tick', new Date(Date.now() - 1000).toISOString(), '--job', 'nightly'];
    expect(await at.call(tick, 'no-such-command')).toMatchObject({
      code: 127,
      stderr: expect.stringContaining('not found'),
    });
    expect(await at.call(tick, 'false')).toMatchObject({ code: 1 });
    expect(await at.call(tick, 'echo', 'again')).toMatchObject({ code: 75, stdout: '' });
    expect(await at.manager.runs('nightly', { resource: 'job' })).toMatchObject([{ status: 'failed', attempt: 1 }]);
  });

  test('forwards signals, holds the lease until the command has ended by itself, and ends with its code', async () => {
    await using at = shop();
    await using graceful = at.start([], ...sleeper(`trap 'echo bye; exit 3' TERM;`));
    await pidOf(graceful);
    graceful.kill('SIGTERM');
    expect(await graceful.end).toMatchObject({ code: 3, stdout: expect.stringMatching(/bye\n$/) });
    await using plain = at.start([], ...sleeper(''));
    const pid = await pidOf(plain);
    // A group of its own, so that a terminal's Ctrl-C does not come twice.
    const [, , group] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    expect(Number(group)).toBe(pid);
    plain.kill('SIGINT');
    expect((await plain.end).code).toBe(130);
    expect(await at.manager.inspect('job')).toMatchObject({ state: 'free', previous: { reason: 'released' } });
  });

  test('that waits ends with 128 + n at a signal, and runs nothing', async () => {
    await using at = shop();
    await using lease = await at.manager.acquire('job');
    await using waiter = at.start(['--wait', 'forever'], 'echo', 'ran');
    while ((await at.manager.inspect('job'))?.waiting !== 1);
    waiter.kill('SIGTERM');
    expect(await waiter.end).toMatchObject({ code: 143, stdout: '' });
    expect(await at.manager.inspect('job')).toMatchObject({ waiting: 0, leaseId: lease.leaseId });
  });

  test('stops the command, and ends with 76, if the lease is lost', async () => {
    await using at = shop();
    await using cli = at.start(['--ttl', '1s'], ...sleeper(`trap 'echo bye; exit 0' TERM;`));
    const pid = await pidOf(cli);
    await deleteRecord(at.prefix);
    expect(await cli.end).toMatchObject({
      code: 76,
      stdout: expect.stringMatching(/bye\n$/),
      stderr: expect.stringContaining('has lost job (missing); SIGTERM to the command, SIGKILL in 5.0 s'),
    });
    expect(isAlive(pid)).toBe(false);
  });

  test('kills a command that ignores SIGTERM, and all that it has started', async () => {
    await using at = shop();
    const script = `trap '' TERM; (${SLEEP}) & echo "child $!"; ${sleeper('').at(-1)}`;
    await using cli = at.start(['--ttl', '1s', '--kill-after', '200ms'], 'sh', '-c', script);
    const pid = await pidOf(cli);
    const child = Number(/child (\d+)/.exec(cli.stdout)?.[1]);
    expect([isAlive(pid), isAlive(child)]).toEqual([true, true]);
    await deleteRecord(at.prefix);
    expect(await cli.end).toMatchObject({ code: 76 });
    expect([isAlive(pid), isAlive(child)]).toEqual([false, false]);
  });

  test('asked to let go, has ended the command before its lease is over, and releases', async () => {
    await using at = shop();
    await using cli = at.start(['--ttl', '2s', '--kill-after', '1h'], ...sleeper(`trap '' TERM;`));
    const pid = await pidOf(cli);
    expect(await at.manager.revoke('job')).toMatchObject({ outcome: 'revoked' });
    await using next = await at.manager.acquire('job', { wait: '10s' });
    expect(isAlive(pid)).toBe(false);
    expect(await at.manager.inspect('job')).toMatchObject({ leaseId: next.leaseId, previous: { reason: 'released' } });
    expect(await cli.end).toMatchObject({
      code: 137,
      stderr: expect.stringContaining('was asked to let go of job (revoked)'),
    });
  });
});
