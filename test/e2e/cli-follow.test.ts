import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { describe, expect, inject, test } from 'vitest';

import { guardedFolder, removeFolder, spawnGuarded } from '../../scripts/services/guard.mjs';
import { builtCommand } from '../support/built-command.ts';
import { TcpProxy } from '../support/proxy.ts';
import { uniqueName } from '../support/redis-client.ts';
import { runCli, startCli, type CliProcess, type Result } from './fixtures/cli-process.ts';

const redisUrl = inject('redisUrl');
const leasehold = [process.execPath, builtCommand].map((part) => `'${part}'`).join(' ');

interface Shop extends AsyncDisposable {
  readonly manager: LeaseManager;
  readonly prefix: string;
  /** The command as a line for sh. */
  readonly command: (line: string) => string;
  readonly start: (url: string, verb: string, ...args: string[]) => CliProcess;
}

function shop(): Shop {
  const prefix = uniqueName();
  const manager = new LeaseManager({ store: redisStore(redisUrl, { prefix }), history: 'all', owner: 'web-7f9c' });
  return {
    manager,
    prefix,
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
    await using lately = here.start(redisUrl, 'log', 'reports', '--since', '1h');
    await using wrong = here.start(redisUrl, 'log', 'reports', '--since', 'yesterday');
    await using cli = here.start(redisUrl, 'log', 'later', '-f');
    expect(await nothing.end).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining(`since ${at}`) });
    expect((await lately.end).stdout.trim().split('\n')).toHaveLength(3);
    expect((await wrong.end).code).toBe(2);
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

describe('the config in the folder', () => {
  /** A folder with a config of the store, and what `leasehold` says in it. */
  async function inFolder(
    name: string,
    text: string,
    calls: readonly { readonly args: readonly string[]; readonly env?: Readonly<Record<string, string>> }[],
  ): Promise<readonly Result[]> {
    const cwd = guardedFolder('here');
    try {
      writeFileSync(join(cwd, name), text);
      return await Promise.all(
        calls.map(({ args, env }) => runCli(args, { cwd, env: { LEASEHOLD_REDIS_URL: undefined, ...env } })),
      );
    } finally {
      removeFolder(cwd);
    }
  }

  function config(prefix: string): string {
    const job = "{ cron: '0 3 * * *', timezone: UTC, handler: ./a.mjs }";
    return `version: 1\nstore: { redis: '${redisUrl}', prefix: ${prefix} }\njobs:\n  nightly: ${job}\n`;
  }

  test('has the store of a command to which none was named, by a flag or in the environment', async () => {
    await using here = shop();
    await here.manager.run('reports', async () => {});
    const [ls, runs, variable, flag, ofOthers] = await inFolder('leasehold.yaml', config(here.prefix), [
      { args: ['ls'] },
      { args: ['runs', '--json'] },
      { args: ['ls', '--prefix', uniqueName()], env: { LEASEHOLD_REDIS_URL: redisUrl } },
      { args: ['ls', '--prefix', uniqueName(), '-u', redisUrl] },
      { args: ['ls'], env: { REDIS_URL: 'redis://127.0.0.1:1' } },
    ]);
    expect(ls).toMatchObject({ code: 0, stdout: expect.stringContaining('FREE\treports') });
    expect(ls?.stderr).toMatch(new RegExp(`^redis://.* · prefix ${here.prefix} · leasehold\\.yaml$`, 'm'));
    expect(JSON.parse(runs?.stdout ?? '')).toMatchObject({ namespace: here.prefix, jobs: [{ job: 'nightly' }] });
    expect(variable).toMatchObject({ code: 0, stdout: '' });
    expect(variable?.stderr).toMatch(/ · LEASEHOLD_REDIS_URL, not leasehold\.yaml$/m);
    expect(flag?.stderr).not.toContain('leasehold.yaml');
    // That variable is of every program.
    expect(ofOthers).toMatchObject({ code: 0, stdout: ls?.stdout, stderr: ls?.stderr });
  });

  test('that cannot be used is told of, and the way around it; nothing is asked instead', async () => {
    const [ls] = await inFolder('leasehold.yaml', 'version: 1\n', [{ args: ['ls'] }]);
    expect(ls).toMatchObject({ code: 2, stdout: '' });
    expect(ls?.stderr).toContain('Try: leasehold ls --url redis://');
  });

  test('that is a module is not run by a question, but named', async () => {
    const text = "process.stdout.write('run\\n'); export default {};";
    const [ls] = await inFolder('leasehold.config.mjs', text, [
      { args: ['ls', '--prefix', uniqueName()], env: { LEASEHOLD_REDIS_URL: redisUrl } },
    ]);
    expect(ls).toMatchObject({ code: 0, stdout: '' });
    expect(ls?.stderr).toMatch(/ · LEASEHOLD_REDIS_URL, not leasehold\.config\.mjs$/m);
  });
});

describe('an output', () => {
  /** A line for sh, to its end; `onText` hears what it writes. */
  async function shell(line: string, onText: (text: string) => void = () => {}): Promise<string> {
    const child = spawnGuarded('/bin/sh', ['-c', line], { stdio: ['ignore', 'pipe', 'pipe'], group: true });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (bytes) => {
        text += bytes;
        onText(text);
      });
    }
    await once(child, 'close');
    return text;
  }

  test('that is full ends with one line and 1', async () => {
    await using here = shop();
    await here.manager.run('reports', async () => {});
    const verbs = ['ls', 'log reports', 'show reports', 'log reports --follow', 'ls --json'];
    const told = await Promise.all(
      verbs.map((verb) => shell(`${here.command(`${verb} -q`)} >/dev/full; echo "exit $?"`)),
    );
    const line = 'leasehold: the output cannot be written: ENOSPC: no space left on device, write';
    const json = `{"schema":"leasehold/error/v1","exit":1,"code":"ENOSPC","message":"${line.slice(11)}","details":[]}`;
    expect(told).toEqual([...Array<string>(4).fill(`${line}\nexit 1\n`), `${json}\nexit 1\n`]);
  });

  test('that nobody reads any more ends what follows, with 0 and without a word', async () => {
    await using here = shop();
    await here.manager.run('reports', async () => {});
    let later: Promise<void> | undefined;
    const line = `{ ${here.command('log reports -f -q')}; echo "exit $?" >&2; } | { head -n 1; echo gone; }`;
    const text = await shell(line, (told) => {
      if (told.includes('gone')) later ??= here.manager.run('reports', async () => {});
    });
    await later;
    expect(text).toMatch(/^WHEN\t.*\ngone\nexit 0\n$/);
  });
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
