import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { describe, expect, test } from 'vitest';

import {
  holderLine,
  obstacle,
  parseHolder,
  thisProcess,
  type LockHolder,
} from '../../../src/conditional/file/holder.ts';

const id = '0123456789abcdef0123456789abcdef';
const own = thisProcess(id);
const now = Date.now();
const beforeBoot = now - uptime() * 1000 - 60_000;
const isLinux = process.platform === 'linux';

function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(') ') + 2).split(' ');
}

function holderOf(pid: number): LockHolder {
  return { ...own, pid, startTicks: Number(statOf(pid)[19]) };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

describe.runIf(isLinux)('a holder is gone', () => {
  test('if there is no process of that pid', () => {
    const { pid } = spawnSync('true');
    expect(obstacle({ ...own, pid }, now)).toBeNull();
  });

  test('if the process of that pid is another one', () => {
    expect(obstacle({ ...own, startTicks: (own.startTicks ?? 0) - 1 }, now)).toBeNull();
  });

  test('if it is dead, and nobody has asked how it ended', async () => {
    // What the shell becomes knows nothing of the child that the shell has made.
    const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] });
    try {
      const [line] = (await once(parent.stdout, 'data')) as [Buffer];
      const pid = Number(line.toString());
      await until(() => readFileSync(`/proc/${parent.pid}/comm`, 'utf8') === 'sleep\n');
      process.kill(pid, 'SIGKILL');
      await until(() => statOf(pid)[0] === 'Z');
      expect(obstacle(holderOf(pid), now)).toBeNull();
    } finally {
      parent.kill('SIGKILL');
      await once(parent, 'exit');
    }
  });

  test('if this machine was started anew since', () => {
    const machine = { machineId: own.machineId, bootId: 'another boot' };
    expect(own.machineId).toBeDefined();
    expect(obstacle({ ...own, ...machine }, beforeBoot)).toBeNull();
  });
});

describe('a holder is not proved gone', () => {
  test.runIf(isLinux)('if it runs', () => {
    expect(obstacle(own, now)).toBe('which is running; if it hangs, kill it');
  });

  test.runIf(isLinux)('if it is stopped', async () => {
    const child = spawn('sleep', ['60']);
    try {
      const pid = child.pid as number;
      child.kill('SIGSTOP');
      await until(() => statOf(pid)[0] === 'T');
      expect(obstacle(holderOf(pid), now)).toBe('which is stopped; continue it, or kill it');
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  });

  test.each([
    ['on another machine', { machineId: 'another' }],
    ['on another machine, also after a boot', { machineId: 'another', bootId: 'another' }],
    ['on a system without a boot id', { bootId: undefined }],
    ['on a machine without an id', { bootId: 'another', machineId: undefined }],
    ['on this machine by its id, but in another boot', { bootId: 'another' }],
    ['in another pid namespace', { pidNamespace: 'pid:[1]' }],
    ['in another pid namespace', { pidNamespace: undefined }],
  ])('%s', (_, other) => {
    // A dead pid, and one of another start: neither means anything out there.
    const holder = { ...own, ...other, startTicks: 1 };
    const why = obstacle(holder, holder.bootId === 'another' && holder.machineId === 'another' ? beforeBoot : now);
    expect(why).toMatch(/^on|^in/);
    expect(why).toContain('cannot be told from here; if it does not, remove the lock file');
  });

  test.runIf(isLinux)('if no start time is known', () => {
    expect(obstacle({ ...own, startTicks: undefined }, now)).toContain('a pid that is in use, by it or by another');
  });
});

describe('the content of a lock file', () => {
  test('is read back', () => {
    expect(parseHolder(JSON.stringify(own))).toEqual(own);
    expect(holderLine(own)).toBe(`${own.name} pid ${process.pid} on ${own.host} (since ${own.since})`);
  });

  test.each([
    '',
    '{',
    'null',
    '[]',
    '4711',
    '{}',
    JSON.stringify({ ...own, id: '../../x' }),
    JSON.stringify({ ...own, id: 7 }),
    JSON.stringify({ ...own, pid: 0 }),
    JSON.stringify({ ...own, pid: -1 }),
    JSON.stringify({ ...own, pid: '1' }),
    JSON.stringify(own).slice(0, -1),
  ])('is nobody: %s', (text) => {
    expect(parseHolder(text)).toBeNull();
  });
});
