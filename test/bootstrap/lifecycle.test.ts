import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

import { isAlive } from '../support/signals.ts';

const runner = fileURLToPath(new URL('./fixtures/runner.mjs', import.meta.url));

interface Said {
  readonly redis: number;
  readonly folders: readonly string[];
  readonly program: number;
  readonly grandchild: number;
}

/** Starts the runner and waits until it has said what it started. */
async function start(mode: string) {
  const child: ChildProcess = spawn(process.execPath, [runner, mode], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const said: Record<string, unknown>[] = [];
  let heard = (): void => {};
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  lines.on('line', (line) => {
    said.push(JSON.parse(line) as Record<string, unknown>);
    heard();
  });
  const expected = mode === 'throw' ? 1 : 2;
  await new Promise<void>((resolve) => {
    heard = () => {
      if (said.length >= expected) resolve();
    };
  });
  const started = Object.assign({}, ...said) as Said;
  return { child, exit, said, started, lines };
}

async function expectNothingLeft({ redis, program, grandchild, folders }: Said) {
  const pids = [redis, program, grandchild].filter((pid) => pid !== undefined);
  await expect.poll(() => pids.filter(isAlive), { timeout: 8_000 }).toEqual([]);
  await expect.poll(() => folders.filter((folder) => existsSync(folder)), { timeout: 8_000 }).toEqual([]);
}

test('the end of the program is the end of everything, with its exit code', async () => {
  const { exit, started } = await start('end');
  expect(await exit).toEqual([7, null]);
  expect(isAlive(started.redis)).toBe(false);
  await expectNothingLeft(started);
});

test('an error in the runner ends everything', async () => {
  const { exit, started } = await start('throw');
  expect(await exit).toEqual([1, null]);
  await expectNothingLeft(started);
});

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`${signal}: the program gets it once and ends in its own way, then everything is gone`, async () => {
    const { child, exit, said, started, lines } = await start('patient');
    const ended = once(lines, 'close');
    child.kill(signal);
    expect(await exit).toEqual([code, null]);
    await ended;
    expect(said.at(-1)).toEqual({ signal, signals: 1 });
    await expectNothingLeft(started);
  });
}

test('SIGKILL of the runner: nothing outlives it, also a program that ignores signals and its own children', async () => {
  const { child, exit, started } = await start('stubborn');
  child.kill('SIGKILL');
  expect(await exit).toEqual([null, 'SIGKILL']);
  await expectNothingLeft(started);
});

test('SIGKILL of the runner while its redis-server is stopped', async () => {
  const { child, exit, started } = await start('patient');
  process.kill(started.redis, 'SIGSTOP');
  child.kill('SIGKILL');
  await exit;
  await expectNothingLeft(started);
});
