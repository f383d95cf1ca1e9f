import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

import { startChild } from './child.ts';
import { isAlive, stateOf } from './signals.ts';

const talker = new URL('./fixtures/talker.ts', import.meta.url);
const idle = new URL('./fixtures/idle.ts', import.meta.url);

test.each([
  ['is compiled', false],
  ['runs from TypeScript', true],
])('a child that %s has the workspace packages of the sources and talks both ways', async (_, fromSource) => {
  await using child = startChild(talker, { fromSource });
  const ready = await child.next<{ pid: number; core: string }>('ready');
  expect(ready).toMatchObject({ pid: child.pid, core: 'function' });
  child.send('order', { text: 'hello' });
  expect(await child.next('echo')).toMatchObject({ text: 'hello' });
  child.send('order', { text: 'end' });
  expect(await child.exit).toEqual({ code: 0, signal: null });
});

test('messages wait until they are asked for, in their order', async () => {
  await using child = startChild(talker);
  await child.next('ready');
  for (const text of ['a', 'b', 'end']) child.send('order', { text });
  await child.exit;
  expect(child.unread.map((message) => message.text)).toEqual(['a', 'b']);
  expect(await child.next('echo')).toMatchObject({ text: 'a' });
  expect(await child.next('echo')).toMatchObject({ text: 'b' });
});

test('waiting for a message that can not come fails with the output of the child', async () => {
  await using child = startChild(idle, { args: ['--fail'] });
  await child.next('ready');
  await expect(child.next('never')).rejects.toThrow(/did not say 'never'[\s\S]*as told/);
});

test('an error of a compiled child names the line of its source', async () => {
  const line =
    readFileSync(idle, 'utf8')
      .split('\n')
      .findIndex((each) => each.includes('new Error')) + 1;
  await using child = startChild(idle, { args: ['--fail'] });
  await child.exit;
  expect(child.output).toContain(`test/support/fixtures/idle.ts:${line}:`);
});

test('a file that was not compiled is named, not started from its sources unasked', () => {
  expect(() => startChild(new URL('./child.test.ts', import.meta.url))).toThrow(
    /child\.test\.ts was not compiled: add it to/,
  );
});

test('a stopped child is silent and goes on where it stood', async () => {
  await using child = startChild(talker);
  await child.next('ready');
  await child.stop();
  expect(stateOf(child.pid)).toMatch(/^t/i);
  child.send('order', { text: 'late' });
  await expect(child.next('echo', { timeoutMs: 200 })).rejects.toThrow('silent for 200 ms');
  child.cont();
  expect(await child.next('echo')).toMatchObject({ text: 'late' });
});

test('kill9 also ends a stopped child', async () => {
  await using child = startChild(idle);
  await child.next('ready');
  await child.stop();
  await child.kill9();
  expect(await child.exit).toEqual({ code: null, signal: 'SIGKILL' });
  expect(isAlive(child.pid)).toBe(false);
});
