import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';

import { sourceArgs } from '../../scripts/lib/prepare.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { TcpProxy } from '../support/proxy.ts';
import { uniqueName } from '../support/redis-client.ts';
import { runCli, startCli, type CliProcess } from './fixtures/cli-process.ts';

const redisUrl = inject('redisUrl');
const bin = fileURLToPath(new URL('../../packages/cli/src/bin.ts', import.meta.url));
const leasehold = [process.execPath, ...sourceArgs(), bin].map((part) => `'${part}'`).join(' ');

interface Shop extends AsyncDisposable {
  readonly manager: LeaseManager;
  /** The command as a line for sh. */
  readonly command: (line: string) => string;
  readonly start: (url: string, verb: string, ...args: string[]) => CliProcess;
}

function shop(): Shop {
  const prefix = uniqueName();
  const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all', owner: 'web-7f9c' });
  return {
    manager,
    command: (line) => `${leasehold} ${line} -u '${redisUrl}' --prefix '${prefix}'`,
    start: (url, verb, ...args) => startCli([verb, '-u', url, '--prefix', prefix, ...args]),
    [Symbol.asyncDispose]: async () => void (await manager.close({ grace: 0, abandonAfter: 0 })),
  };
}

interface Document {
  readonly schema: string;
  readonly event?: string;
  readonly leases?: readonly { readonly resource: string; readonly state: string }[];
}

/** All but the last line, which may not be whole yet. */
function documents({ stdout }: CliProcess): Document[] {
  const lines = stdout.split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Document);
}

describe('leasehold log --follow', () => {
  test('tells each event once, as it happens, over a store that was away; Ctrl-C ends it with 130', async () => {
    await using here = shop();
    await using proxy = await TcpProxy.start({ port: Number(new URL(redisUrl).port) });
    await here.manager.run('reports', async () => {});
    await using cli = here.start(proxy.redisUrl, 'log', 'reports', '-f', '--json');
    await cli.wrote('released');
    await here.manager.run('reports', async () => {});
    while (documents(cli).length < 4) await cli.wroteMore();
    proxy.refuse();
    proxy.cut();
    await cli.wrote('asked again until it answers');
    await here.manager.run('reports', async () => {});
    proxy.pass();
    await cli.wrote('The store answers again');
    cli.kill('SIGINT');
    expect((await cli.end).code).toBe(130);
    const round = ['acquired', 'released'];
    expect(documents(cli).map(({ schema, event }) => [schema, event])).toEqual(
      [...round, ...round, ...round].map((event) => ['leasehold/event/v1', event]),
    );
    expect(cli.stderr.match(/asked again/g)).toHaveLength(1);
  });

  test('--since leaves out what was before; a resource that nobody knows yet is waited for', async () => {
    await using here = shop();
    await here.manager.run('reports', async () => {});
    const at = new Date(Date.now() + 60_000).toISOString();
    await using nothing = here.start(redisUrl, 'log', 'reports', '--since', at);
    expect(await nothing.end).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining(`since ${at}`) });
    await using lately = here.start(redisUrl, 'log', 'reports', '--since', '1h');
    expect((await lately.end).stdout.trim().split('\n')).toHaveLength(3);
    await using wrong = here.start(redisUrl, 'log', 'reports', '--since', 'yesterday');
    expect((await wrong.end).code).toBe(2);

    await using cli = here.start(redisUrl, 'log', 'later', '-f');
    await cli.wrote('WHEN');
    await here.manager.run('later', async () => {});
    await cli.wrote('RELEASED');
    cli.kill('SIGTERM');
    const { code, stdout } = await cli.end;
    expect(code).toBe(143);
    expect(stdout.match(/WHEN/g)).toHaveLength(1);
  });
});

describe('leasehold ls --watch', () => {
  test('tells each change, not each extension', async () => {
    await using here = shop();
    await using cli = here.start(redisUrl, 'ls', '--watch', '100ms', '--json');
    await cli.wrote('"leases":[]');
    await using lease = await here.manager.acquire('reports', { ttl: '300ms' });
    await cli.wrote('"held"');
    while (((await here.manager.inspect('reports'))?.extensions ?? 0) < 3);
    await lease.release();
    await cli.wrote('"free"');
    cli.kill('SIGINT');
    expect((await cli.end).code).toBe(130);
    expect(documents(cli).map(({ schema, leases }) => [schema, leases?.map(({ state }) => state)])).toEqual([
      ['leasehold/leases/v1', []],
      ['leasehold/leases/v1', ['held']],
      ['leasehold/leases/v1', ['free']],
    ]);
  });

  test('an interval that is too short is refused', async () => {
    expect(await runCli(['ls', '--watch', '5ms', '-u', redisUrl])).toMatchObject({ code: 2 });
  });
});

test('a config in the folder that was not asked is told of, and the way to ask it', async () => {
  const dir = guardedFolder('hint');
  try {
    writeFileSync(join(dir, 'leasehold.yaml'), 'version: 1\n');
    const { code, stderr } = await runCli(['ls'], { cwd: dir, env: { LEASEHOLD_REDIS_URL: undefined } });
    expect([0, 4]).toContain(code);
    expect(stderr).toContain('leasehold.yaml is in this folder and was not asked: --config leasehold.yaml');
  } finally {
    removeFolder(dir);
  }
});

test.runIf(existsSync('/dev/full'))('an output that is full ends with one line and 1', async () => {
  await using here = shop();
  await here.manager.run('reports', async () => {});
  for (const line of ['ls', 'log reports', 'show reports']) {
    const { code, stdout, stderr } = await runCli([
      'exec',
      'outer',
      '-u',
      redisUrl,
      '--prefix',
      uniqueName(),
      '--',
      'sh',
      '-c',
      `${here.command(line)} >/dev/full`,
    ]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^leasehold: the output cannot be written: ENOSPC.*$/m);
  }
});

describe('leasehold exec', () => {
  test('tells once of a store that does not answer: of which resource, and why', async () => {
    await using here = shop();
    await using proxy = await TcpProxy.start({ port: Number(new URL(redisUrl).port) });
    await using cli = here.start(
      proxy.redisUrl,
      'exec',
      'reports',
      '--ttl',
      '1s',
      '--',
      'sh',
      '-c',
      'echo up; sleep 30',
    );
    await cli.wrote('up');
    proxy.refuse();
    proxy.cut();
    const { code, stderr } = await cli.end;
    expect(code).toBe(76);
    const told = stderr.split('\n').filter((line) => line.includes('extend had no answer'));
    expect(told).toHaveLength(1);
    expect(told[0]).toMatch(/^leasehold: reports: extend had no answer: STORE_UNAVAILABLE: .+/);
  });
});
