import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, test } from 'vitest';

import { sameHost, sameHostAs } from '../../packages/core/src/diagnosis/probes/same-host.ts';
import type { OwnerFinding } from '../../packages/core/src/diagnosis/probe.ts';
import { ownerIdentity, type OwnerIdentity } from '../../packages/core/src/owner.ts';
import { guardedFolder, removeFolder, spawnGuarded } from '../../scripts/services/guard.mjs';
import { startChild } from '../support/child.ts';
import { FreezableGroup, freezers } from '../support/freezer.ts';
import { closed, opened } from '../support/leftovers.ts';
import { testNeeding } from '../support/needing.ts';
import { stateOf } from '../support/signals.ts';

const here = ownerIdentity();

/** Some process of ours, and who it would have said it is. */
class Owner implements AsyncDisposable {
  readonly identity: OwnerIdentity;
  readonly #exit: Promise<unknown>;
  readonly #child;
  readonly #leftover = { what: 'a process', end: () => this[Symbol.asyncDispose]() };

  constructor(command = 'sleep', args: readonly string[] = ['600']) {
    this.#child = spawnGuarded(command, args, { stdio: ['pipe', 'pipe', 'inherit'], group: true });
    this.#exit = once(this.#child, 'exit');
    this.identity = identityOf(this.#child.pid ?? 0);
    opened(this.#leftover);
  }

  /** What it prints, line by line. */
  get lines(): AsyncIterator<string> {
    if (this.#child.stdout === null) throw new Error('it prints nowhere');
    return createInterface(this.#child.stdout)[Symbol.asyncIterator]();
  }

  say(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  async kill9(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    await this.kill9();
  }
}

function identityOf(pid: number, proc = '/proc'): OwnerIdentity {
  const stat = readFileSync(`${proc}/${pid}/stat`, 'utf8');
  const startTicks = Number(stat.slice(stat.lastIndexOf(') ') + 2).split(' ')[19]);
  return { ...here, instance: 'another', pid, startTicks, startedAt: new Date().toISOString() };
}

function look(owner: OwnerIdentity, as = here, proc = '/proc'): Promise<OwnerFinding | undefined> {
  return sameHostAs(as, proc).probe(owner, { signal: AbortSignal.timeout(10_000) });
}

function fakeProc(files: Readonly<Record<string, string>>): Disposable & { readonly path: string } {
  const path = guardedFolder('proc');
  for (const [name, text] of Object.entries({ 'self/status': `NSpid:\t${process.pid}\n`, ...files })) {
    mkdirSync(join(path, name, '..'), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return { path, [Symbol.dispose]: () => removeFolder(path) };
}

describe.runIf(process.platform === 'linux')('on the same host, in the same pid namespace', () => {
  test('an owner of Node is alive by what it says of itself, stopped by SIGSTOP, and gone when it was killed', async () => {
    await using child = startChild(new URL('./fixtures/owner.ts', import.meta.url));
    const { identity } = await child.next<{ identity: OwnerIdentity }>('ready');
    const probe = sameHost();
    const signal = AbortSignal.timeout(20_000);
    expect(await probe.probe(identity, { signal })).toMatchObject({
      state: 'alive',
      probe: 'same-host',
      detail: expect.stringMatching(new RegExp(`^process ${child.pid} exists, state [RSD], and started when`)),
      byHand: [
        `ps -o pid,lstart,etime,stat,cmd -p ${child.pid}`,
        expect.stringMatching(
          new RegExp(
            `^journalctl _PID=${child.pid} --since '\\d{4}-\\d\\d-\\d\\d [\\d:]{8} UTC' --no-pager | tail -n 200$`,
          ),
        ),
      ],
    });
    await child.stop();
    expect(await probe.probe(identity, { signal })).toMatchObject({
      state: 'stopped',
      detail: `process ${child.pid} is stopped by a signal (state T)`,
    });
    child.cont();
    expect(await probe.probe(identity, { signal })).toMatchObject({ state: 'alive' });
    await child.kill9();
    expect(await probe.probe(identity, { signal })).toMatchObject({
      state: 'gone',
      detail: `no process ${child.pid} on this host, same boot`,
      caveat: expect.stringContaining('only a fence refuses their writes'),
    });
  });

  test('the command that ends it ends that process, stopped or not, and none that has its number since', async () => {
    await using owner = new Owner('sleep', ['600']);
    const { pid } = owner.identity;
    const line = async (): Promise<string> => (await look(owner.identity))?.endByHand ?? '';
    expect(await line()).toMatch(new RegExp(`^\\[ .* \\] && kill -TERM ${pid}$`));
    process.kill(pid, 'SIGSTOP');
    while (stateOf(pid) !== 'T') await new Promise((resolve) => setTimeout(resolve, 1));
    const kill = await line();
    expect(kill).toMatch(new RegExp(`^\\[ .* = ${owner.identity.startTicks} \\] && kill -KILL ${pid}$`));
    const later = kill.replace(`= ${owner.identity.startTicks} `, `= ${(owner.identity.startTicks ?? 0) - 1} `);
    expect(spawnSync('sh', ['-c', later]).status).toBe(1);
    expect(await line()).toBe(kill);
    expect(spawnSync('sh', ['-c', kill]).status).toBe(0);
    while ((await look(owner.identity))?.state !== 'gone') await new Promise((resolve) => setTimeout(resolve, 1));
    expect(await line()).toBe('');
  });

  test('a process that has ended and was not reaped is gone', async () => {
    await using parent = new Owner('sh', ['-c', 'sleep 600 & echo $!; exec sleep 600']);
    const pid = Number((await parent.lines.next()).value);
    const identity = identityOf(pid);
    expect(await look(identity)).toMatchObject({ state: 'alive' });
    // A shell would reap it; what takes its place does not.
    while (readFileSync(`/proc/${parent.identity.pid}/comm`, 'utf8') !== 'sleep\n')
      await new Promise((resolve) => setTimeout(resolve, 1));
    process.kill(pid, 'SIGKILL');
    while (stateOf(pid) !== 'Z') await new Promise((resolve) => setTimeout(resolve, 1));
    expect(await look(identity)).toMatchObject({
      state: 'gone',
      detail: `process ${pid} has ended and waits to be reaped by its parent`,
    });
  });

  test('a process whose first thread has ended is alive as long as another one runs', async () => {
    using proc = fakeProc({
      '77/stat': stat('Z', 5),
      '77/task/77/stat': stat('Z', 5),
      '77/task/78/stat': stat('D', 6),
    });
    const owner = { ...here, pid: 77, startTicks: 5 };
    expect(await look(owner, here, proc.path)).toMatchObject({ state: 'alive' });
    writeFileSync(join(proc.path, '77/task/78/stat'), stat('Z', 6));
    expect(await look(owner, here, proc.path)).toMatchObject({ state: 'gone' });
  });

  test('a traced process is stopped', async () => {
    using proc = fakeProc({ '77/stat': stat('t', 5) });
    expect(await look({ ...here, pid: 77, startTicks: 5 }, here, proc.path)).toMatchObject({ state: 'stopped' });
  });

  test('a later process of the same number is another one', async () => {
    await using other = new Owner();
    const { pid, startTicks = 0 } = other.identity;
    expect(await look({ ...other.identity, startTicks: startTicks - 1 })).toMatchObject({
      state: 'gone',
      detail: expect.stringMatching(
        new RegExp(`^pid ${pid} is another process now, started \\d{4}-\\d\\d-\\d\\dT[\\d:]{8}Z$`),
      ),
    });
  });

  test('one that seems to have started before the owner is not: it counts its time from elsewhere', async () => {
    await using other = new Owner();
    const { startTicks = 0 } = other.identity;
    expect(await look({ ...other.identity, startTicks: startTicks + 1 })).toMatchObject({ state: 'unverifiable' });
  });

  test('without the ticks of its start a process of its number is not taken for it, nor for another', async () => {
    await using other = new Owner();
    expect(await look({ ...other.identity, startTicks: undefined })).toMatchObject({ state: 'unverifiable' });
    await other.kill9();
    expect(await look({ ...other.identity, startTicks: undefined })).toMatchObject({ state: 'gone' });
  });

  test.each([
    ['of another name', { host: 'web-7f9c' }, /this is/],
    ['of no usable name', { host: '\u001B[2J' }, /without a usable name/],
    ['of another machine id', { machineId: '0123456789abcdef0123456789abcdef' }, /machine id/],
    ['without machine id', { machineId: undefined }, /machine id/],
  ])(
    'a process that is not found is not gone if the host is one %s, but is alive if it is found',
    async (_, part, why) => {
      await using other = new Owner();
      const owner = { ...other.identity, ...part };
      const known = { ...here, machineId: here.machineId ?? 'f123456789abcdef0123456789abcdef' };
      expect(await look(owner, known)).toMatchObject({ state: 'alive' });
      await other.kill9();
      expect(await look(owner, known)).toMatchObject({ state: 'unverifiable', detail: expect.stringMatching(why) });
    },
  );

  test('two processes of a container whose image has no machine id can see each other end', async () => {
    await using other = new Owner();
    const as = { ...here, machineId: undefined };
    await other.kill9();
    expect(await look({ ...other.identity, machineId: undefined }, as)).toMatchObject({ state: 'gone' });
  });

  test('what /proc hides is unverifiable, never gone', async () => {
    await using other = new Owner();
    using proc = fakeProc({});
    expect(await look(other.identity, here, proc.path)).toMatchObject({
      state: 'unverifiable',
      detail: expect.stringContaining('hidepid'),
    });
  });

  test('a /proc of another namespace than ours is not believed', async () => {
    using proc = fakeProc({ 'self/status': `NSpid:\t4711\t${process.pid}\n` });
    expect(await look({ ...here, pid: 77 }, here, proc.path)).toMatchObject({
      state: 'unverifiable',
      detail: '/proc on this host does not show the pid namespace of this process',
    });
  });

  testNeeding(
    'freezer',
    'a process in a frozen cgroup is stopped, in each kind of cgroups that there is here',
    async () => {
      for (const freezer of freezers()) {
        await using owner = new Owner();
        await using group = new FreezableGroup(freezer);
        group.add(owner.identity.pid);
        expect(await look(owner.identity)).toMatchObject({ state: 'alive', caveat: '' });
        await group.freeze();
        expect(await look(owner.identity)).toMatchObject({
          state: 'stopped',
          detail: `process ${owner.identity.pid} is in a frozen cgroup`,
        });
        await group.thaw();
        expect(await look(owner.identity)).toMatchObject({ state: 'alive' });
      }
    },
  );

  testNeeding(
    'namespaces',
    'whoever may not look at a process cannot call it gone, only one that the kernel does not know',
    async () => {
      for (const hidepid of ['1', '2']) {
        await using stranger = startChild(new URL('./fixtures/stranger.ts', import.meta.url), {
          args: [hidepid],
          within: ['unshare', '--mount'],
        });
        await stranger.next('ready');
        await using owner = new Owner();
        stranger.send('probe', { owner: owner.identity });
        expect(await stranger.next('found')).toMatchObject({ finding: { state: 'unverifiable' } });
        await owner.kill9();
        stranger.send('probe', { owner: owner.identity });
        expect(await stranger.next('found')).toMatchObject({ finding: { state: 'gone' } });
      }
    },
  );
});

describe.runIf(process.platform === 'linux')('in another pid namespace', () => {
  testNeeding(
    'namespaces',
    'root on the host sees owners in it, and that a number was given to another process',
    async () => {
      const script = `
      sleep 600 & first=$!; echo $first $(cut -d' ' -f22 /proc/$first/stat) $(readlink /proc/self/ns/pid)
      read go; kill -STOP $first; until grep -q ') T ' /proc/$first/stat; do :; done; echo stopped
      read go; kill -KILL $first; wait $first 2>/dev/null; echo killed
      read go; while :; do echo $((first - 1)) > /proc/sys/kernel/ns_last_pid; sleep 600 & again=$!
        [ $again = $first ] && break; kill -KILL $again; done; echo $again
      read go`;
      await using inside = new Owner('unshare', [
        '--pid',
        '--fork',
        '--mount-proc',
        '--kill-child',
        'sh',
        '-c',
        script,
      ]);
      const { lines } = inside;
      const next = async (): Promise<string> => (await lines.next()).value;
      const [pid, startTicks, pidNamespace] = (await next()).split(' ');
      const owner = {
        ...here,
        host: 'web-7f9c',
        machineId: undefined,
        pid: Number(pid),
        startTicks: Number(startTicks),
        pidNamespace,
      };
      expect(await look(owner)).toMatchObject({
        state: 'alive',
        detail: expect.stringMatching(
          new RegExp(`^process ${pid} exists, state [RSD], .* \\(here \\d+: its pid namespace`),
        ),
      });
      // From a namespace that is not the first of the system, others cannot be seen.
      const beside = { ...here, pidNamespace: 'pid:[4026539999]' };
      inside.say('go');
      expect(await next()).toBe('stopped');
      const { state, detail, endByHand } = (await look(owner)) ?? {};
      expect(state).toBe('stopped');
      // By the number that it has here.
      expect(endByHand).toContain(`kill -KILL ${/here (\d+)/.exec(detail ?? '')?.[1]}`);
      inside.say('go');
      expect(await next()).toBe('killed');
      expect(await look(owner)).toMatchObject({
        state: 'gone',
        detail: `no process ${pid} in its pid namespace, same boot`,
      });
      expect(await look(owner, beside)).toMatchObject({ state: 'unverifiable' });
      inside.say('go');
      expect(await next()).toBe(pid);
      expect(await look(owner)).toMatchObject({
        state: 'gone',
        detail: expect.stringContaining(`pid ${pid} is another process now`),
      });
      await inside.kill9();
      expect(await look(owner)).toMatchObject({ state: 'gone' });
    },
  );

  testNeeding('namespaces', 'a stranger on the host cannot tell', async () => {
    await using stranger = startChild(new URL('./fixtures/stranger.ts', import.meta.url), {
      args: ['2'],
      within: ['unshare', '--mount'],
    });
    await stranger.next('ready');
    stranger.send('probe', { owner: { ...here, pid: 1, pidNamespace: 'pid:[4026539999]' } });
    expect(await stranger.next('found')).toMatchObject({
      finding: { state: 'unverifiable', detail: expect.stringContaining('cannot be seen from here') },
    });
  });
});

describe('in another boot', () => {
  const machine = {
    ...here,
    host: 'db-1',
    machineId: '0123456789abcdef0123456789abcdef',
    bootId: '2a29c9e3-0f47-4b74-b2f0-a017e0d8659d',
    pidNamespace: 'pid:[4026531836]',
    container: undefined,
    pod: undefined,
  };
  const owner = {
    ...machine,
    bootId: '11111111-2222-4333-8444-555555555555',
    startedAt: '2026-01-15T02:41:07.000Z',
    pid: 4121,
  };
  const booted = (at: string): ReturnType<typeof fakeProc> =>
    fakeProc({ stat: `cpu 1\nbtime ${Date.parse(at) / 1000}\n` });

  test('an owner of this machine is gone if the machine has booted since', async () => {
    using proc = booted('2026-01-15T09:00:00Z');
    expect(await look(owner, machine, proc.path)).toMatchObject({
      state: 'gone',
      detail:
        'this host has booted since, at 2026-01-15T09:00:00Z; the owner started at 2026-01-15T02:41:07Z, in an earlier boot',
    });
  });

  const inContainer = { container: 'abababababab', pidNamespace: 'pid:[4026532178]' };
  test.each<[string, Partial<OwnerIdentity>, Partial<OwnerIdentity>]>([
    ['the machine ids differ', { machineId: 'f123456789abcdef0123456789abcdef' }, {}],
    ['the owner has no machine id', { machineId: undefined }, {}],
    ['we have no machine id', {}, { machineId: undefined }],
    ['nobody has a machine id', { machineId: undefined }, { machineId: undefined }],
    ['the machine id is not set', { machineId: 'uninitialized' }, { machineId: 'uninitialized' }],
    ['both have the machine id of an image', inContainer, inContainer],
    ['the owner was in a container', { container: 'abababababab' }, {}],
    ['we are in a pod', {}, { pod: 'shell' }],
    ['the owner was in a pid namespace of its own', { pidNamespace: 'pid:[4026532178]' }, {}],
    ['the host names differ: copied disks', { host: 'db-2' }, {}],
    ['the owner started when this machine was up: a copy', { startedAt: '2026-01-15T09:00:00.000Z' }, {}],
    ['it is not known when the owner started', { startedAt: 'yesterday' }, {}],
  ])('an owner is unverifiable if %s', async (_, its, ours) => {
    using proc = booted('2026-01-15T09:00:00Z');
    expect(await look({ ...owner, ...its }, { ...machine, ...ours }, proc.path)).toMatchObject({
      state: 'unverifiable',
    });
  });

  test.each<[string, Partial<OwnerIdentity>, Partial<OwnerIdentity>]>([
    ['this system has no boot id', {}, { bootId: undefined }],
    ['the record has none', { bootId: undefined }, {}],
    ['the record has no pid namespace', { pidNamespace: undefined }, {}],
    ['the record has no pid that can be one', { pid: -1 }, {}],
  ])('nothing is looked for if %s', async (_, its, ours) => {
    const same = { ...machine, ...its };
    expect(await look(same, { ...machine, ...ours }, '/nowhere')).toMatchObject({ state: 'unverifiable' });
  });
});

function stat(state: string, startTicks: number): string {
  return `77 (a) b (c)) ${state} ${'0 '.repeat(18)}${startTicks} 0 0\n`;
}
