import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

import { callCli, type Result } from '../e2e/fixtures/cli-process.ts';
import { startChild } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import { isRight, type Staged } from './incident.ts';
import { keysOf, Scene } from './scene.ts';
import { incidents } from './table.ts';
import { blocksOf, pageWith, transcript, type Shown } from './transcript.ts';

/** An operator in a hurry. Longer, if the page is written anew (`-u`): people have longer leases. */
const TTL_MS = Number(process.env['LEASEHOLD_INCIDENT_TTL_MS'] ?? 1200);

/** What docs/runbook.md shows, as it was seen here. */
const shown: Shown[] = [];

/** An incident, and somebody who has what an operator has: the flags and the machine. */
interface Drill extends AsyncDisposable {
  readonly resource: string;
  readonly config: string;
  /** `leasehold <verb> <resource> <flags> …` */
  cli(verb: string, ...args: string[]): Promise<Result>;
  /** Runs `leasehold …` for docs/runbook.md. */
  show(name: string, args: readonly string[], only?: Parameters<typeof transcript>[2]): Promise<void>;
  /** `diagnose`, of which the page shows verdict and advice. */
  showAdvice(name: string, ...args: string[]): Promise<void>;
  diagnose(...args: string[]): Promise<Diagnosed>;
  /** Until diagnose gives this verdict; of a lease that ran out, beyond the margin. */
  until(verdict: string): Promise<Diagnosed>;
  /** Until somebody else has it. */
  isOver(lease: Diagnosed['lease']): Promise<void>;
  trigger(): Promise<Result>;
  /** As with redis-cli. */
  redis(url: string, ...command: readonly [string, ...string[]]): Promise<unknown>;
  /** Whether the judge says that it is right. */
  isRight(): Promise<boolean>;
  /** What the judge found wrong. */
  wrongs(): Promise<readonly string[]>;
}

interface Diagnosed {
  readonly verdict: {
    readonly code: string;
    readonly waitFor: { readonly ms: number } | null;
    readonly allowed: { readonly forceRelease: { readonly missing: readonly string[] } };
  };
  readonly owner: { readonly state: string };
  readonly lease: { readonly leaseId: string; readonly identity: { readonly pid: number } };
  readonly servers: readonly { readonly endpoint: string }[];
}

async function drill(number: number, ttlMs = TTL_MS): Promise<Drill> {
  const scene = new Scene(ttlMs);
  const incident = incidents.get(number);
  if (incident === undefined) throw new Error(`no incident ${number}`);
  let staged: Staged;
  try {
    staged = await incident.stage(scene);
  } catch (error) {
    await scene[Symbol.asyncDispose]();
    throw error;
  }
  const { resource, flags, judge } = staged;
  const cli: Drill['cli'] = (verb, ...args) => callCli([verb, resource, ...flags, ...args]);
  const diagnose: Drill['diagnose'] = async (...args) =>
    JSON.parse((await cli('diagnose', ...args, '--json')).stdout) as Diagnosed;
  const show: Drill['show'] = async (name, args, only) => {
    shown.push({ name, text: await transcript(args, flags, only) });
  };
  return {
    resource,
    show,
    showAdvice: (name, ...args) =>
      show(name, ['diagnose', resource, ...args], { sections: ['What to do', 'Refused: force-release'] }),
    config: flags.at(-1) ?? '',
    cli,
    diagnose,
    async until(verdict) {
      for (;;) {
        const found = await diagnose();
        const isNear = found.verdict.allowed.forceRelease.missing.some((each) => each.includes('a margin of'));
        if (found.verdict.code === verdict && !isNear) return found;
        await sleep(100);
      }
    },
    async isOver({ leaseId }) {
      while ((await diagnose()).lease.leaseId === leaseId) await sleep(100);
    },
    trigger: () => callCli(['trigger', resource, flags.at(-1) ?? '']),
    async redis(url, ...[command, ...args]) {
      await using client = await connectRedis(url);
      return await client.call(command, ...args);
    },
    isRight: async () => isRight(await judge()),
    wrongs: async () => (await judge()).filter(({ isKept }) => !isKept).map(({ rule }) => rule),
    [Symbol.asyncDispose]: () => scene[Symbol.asyncDispose](),
  };
}

async function storeOf(here: Drill): Promise<string> {
  return `redis://${(await here.diagnose()).servers[0]?.endpoint}`;
}

async function deleteRecord(here: Drill): Promise<void> {
  const [key = ''] = keysOf(here.resource);
  await here.redis(await storeOf(here), 'DEL', key);
}

describe.concurrent('staged as it is told, and judged:', { timeout: 60_000 + 10 * TTL_MS }, () => {
  test('1, a long run that lives: left alone is right, its record deleted or its run stopped is wrong', async () => {
    await using here = await drill(1);
    expect((await here.diagnose()).verdict.code).toBe('held');
    await here.show('held', ['diagnose', here.resource], {
      sections: ['What to do', 'Refused: force-release'],
      until: (said) => said.includes('alive, and extended'),
    });
    expect(await here.wrongs()).toEqual([]);
    await here.cli('stop', '--reason', 'x', '--yes', '--timeout', '1ms');
    expect(await here.wrongs()).toContain('the run was not asked to end');
    await deleteRecord(here);
    expect((await here.wrongs()).join()).toContain('touched by hand (DEL shop:{reports}');
  });

  test('2, an owner that was killed: to wait is right, its record deleted is wrong', async () => {
    await using here = await drill(2, Math.max(TTL_MS, 10_000)); // it is orphaned for a third of that, then the next owner enters
    const { owner, lease } = await here.diagnose();
    expect(owner.state).toBe('gone');
    await Promise.all([
      here.show('ls', ['ls'], { until: (said) => said.includes('not extended for') }),
      here.show('killed', ['diagnose', here.resource], {
        sections: ['What to do', 'Refused: force-release'],
        until: (said) => said.includes('orphaned-running'),
      }),
    ]);
    expect(await here.wrongs()).toEqual([]);
    await here.isOver(lease);
    await here.showAdvice('taken-over');
    await here.show('log', ['log', here.resource]);
    expect(await here.wrongs()).toEqual([]);
    await deleteRecord(here);
    expect(await here.isRight()).toBe(false);
  });

  test('3, an owner that stands still, with a fence: the next run as always is right; not to begin it is wrong', async () => {
    await using here = await drill(3);
    expect((await here.until('expired-alive')).owner.state).toBe('stopped');
    expect(await here.wrongs()).toEqual(['the next run has begun, by acquiring it as always']);
    await here.showAdvice('stopped-fenced');
    const { lease } = await here.diagnose();
    const its = ['--lease-id', lease.leaseId, '--reason', 'INC-4711', '--yes'];
    await here.show('refused', ['force-release', here.resource, ...its]);
    expect((await here.trigger()).code).toBe(0);
    expect(await here.wrongs()).toEqual([]);
  });

  test('4, an owner that stands still, without a fence: its end comes first; the next run beside it is wrong', async () => {
    await using here = await drill(4);
    await using hasty = await drill(4);
    const [{ lease }] = await Promise.all([here.until('expired-alive'), hasty.until('expired-alive')]);
    await here.showAdvice('stopped-unfenced');
    process.kill(lease.identity.pid, 'SIGKILL');
    await here.until('expired');
    while ((await here.wrongs()).length > 1) await sleep(20); // until its end is known here, too
    expect((await here.trigger()).code).toBe(0);
    expect(await here.wrongs()).toEqual([]);
    expect((await hasty.trigger()).code).toBe(0);
    expect(await hasty.wrongs()).toEqual(['the process that stood still was ended before that']);
  });

  test('5, an owner that nobody can see: sealed and released on evidence is right; nothing done, or its record deleted, is wrong', async () => {
    await using here = await drill(5);
    expect((await here.diagnose()).owner.state).toBe('unverifiable');
    expect(await here.isRight()).toBe(false);
    const { lease } = await here.diagnose();
    const its = ['--lease-id', lease.leaseId, '--reason', 'INC-4711', '--yes', '--watch', '100ms'];
    await here.show('unseen', ['diagnose', here.resource, '--observe'], { sections: ['Evidence', 'What to do'] });
    await here.show('by-hand', ['diagnose', here.resource, '--by-hand'], {
      lines: /^(redis-cli|ps|journalctl|chronyc)/,
    });
    await here.show('forced', ['force-release', here.resource, ...its]);
    await here.show('forced-log', ['log', here.resource]);
    expect(await here.wrongs()).toEqual([]);
    await deleteRecord(here);
    expect(await here.isRight()).toBe(false);
  });

  test("6, another program's lock: left alone is right, deleted is wrong", async () => {
    await using here = await drill(6);
    expect((await here.diagnose()).verdict.code).toBe('foreign');
    await here.show('foreign', ['diagnose', here.resource], { sections: ['Evidence', 'What to do'] });
    expect((await here.trigger()).code).not.toBe(0);
    expect(await here.wrongs()).toEqual([]);
    await deleteRecord(here);
    expect(await here.isRight()).toBe(false);
  });

  test('7, a store that came back empty: to wait is right; a record by hand, or one more restart, is wrong', async () => {
    const ttlMs = 60_000; // for so long it is waited, which is longer than this takes
    await using here = await drill(7, ttlMs);
    const { verdict } = await here.diagnose();
    expect(verdict).toMatchObject({ code: 'data-lost', allowed: { acquire: false } });
    expect(verdict.waitFor?.ms).toBeLessThanOrEqual(ttlMs);
    await here.showAdvice('data-lost');
    expect(await here.wrongs()).toEqual([]);
    const [key = ''] = keysOf(here.resource);
    await here.redis(await storeOf(here), 'HSET', key, 'owner', 'web-1');
    expect(await here.isRight()).toBe(false);
  });

  test('8, a store that evicts: noeviction is right; nothing done, or all thrown away, is wrong', async () => {
    await using here = await drill(8);
    expect((await here.diagnose()).verdict.code).toBe('evicted');
    await here.showAdvice('evicted');
    await here.show('doctor', ['doctor'], {
      lines: /^(SEVERITY|\w+ +(eviction|persistence) )/,
      until: (said) => !/does not tell|no answer|cannot be used/.test(said),
    });
    expect(await here.wrongs()).toEqual(['nothing is evicted any more (maxmemory-policy allkeys-lru)']);
    await here.redis(await storeOf(here), 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    expect(await here.wrongs()).toEqual([]);
    await here.redis(await storeOf(here), 'FLUSHALL');
    expect(await here.isRight()).toBe(false);
  });

  test('9, two masters: nothing released is right; a record deleted or a server demoted is wrong', async () => {
    await using here = await drill(9);
    const { verdict, servers } = await here.diagnose();
    expect([verdict.code, servers.length]).toEqual(['split-brain', 2]);
    await here.showAdvice('two-masters');
    expect(await here.wrongs()).toEqual([]);
    const [first = '', second = ''] = servers.map(({ endpoint }) => endpoint);
    await here.redis(`redis://${second}`, 'REPLICAOF', ...(first.split(':') as [string, string]));
    expect(await here.wrongs()).toContain('the roles of both servers are as they were');
  });

  test('10, a run that ignores its stop: asked, outlived and ended is right; ended without being asked is wrong', async () => {
    await using here = await drill(10);
    const { lease } = await here.diagnose();
    await here.show('stop', ['stop', here.resource, '--reason', 'INC-4711', '--yes', '--timeout', '100ms']);
    await here.showAdvice('asked');
    await here.isOver(lease);
    expect(await here.wrongs()).toEqual(['the process that went on all the same has ended']);
    process.kill(lease.identity.pid, 'SIGKILL');
    while (!(await here.isRight())) await sleep(20);

    await using hasty = await drill(10);
    process.kill((await hasty.diagnose()).lease.identity.pid, 'SIGKILL');
    expect(await hasty.wrongs()).toContain('the run was asked to end, before anything harder');
  });

  test('by the command, which tells no answer before the end, judges at Ctrl-C, and leaves nothing behind', async () => {
    await using stage = startChild(new URL('stage.ts', import.meta.url), { args: ['6', '--judge'], scope: 'file' });
    while (!stage.output.includes('Ctrl-C')) await sleep(20);
    expect(stage.output).toMatch(/FOREIGN_KEY.*-c \/.*leasehold\.yaml\n/s);
    expect(stage.output).not.toContain('RIGHT');
    const [config = ''] = /\/\S+leasehold\.yaml/.exec(stage.output) ?? [];
    const { stdout } = await callCli(['diagnose', 'orders', '-c', config]);
    expect(stdout).toContain('a lock of redlock or redlock-universal');
    const [url = ''] = /redis:\/\/[\d.:]+/.exec(readFileSync(config, 'utf8')) ?? [];
    stage.kill('SIGINT');
    expect(await stage.exit).toEqual({ code: 0, signal: null });
    expect(stage.output).toContain('\nRIGHT: Leave it alone');
    expect(existsSync(config)).toBe(false);
    await expect(connectRedis(url)).rejects.toThrow();
  });
});

describe('docs/runbook.md', () => {
  const file = fileURLToPath(new URL('../../docs/runbook.md', import.meta.url));
  const page = readFileSync(file, 'utf8');

  test('shows what was seen here (written anew with -u)', async () => {
    expect(shown.filter(({ name }) => !blocksOf(page).includes(name))).toEqual([]);
    await expect(pageWith(page, shown)).toMatchFileSnapshot(file);
  });
});
