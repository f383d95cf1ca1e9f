import { expect, test } from 'vitest';

import { startChild } from './child.ts';
import { endLeftovers } from './leftovers.ts';
import { isAlive } from './signals.ts';

test('what a test has not ended is ended for it, and named', async () => {
  const child = startChild(new URL('./fixtures/idle.ts', import.meta.url));
  await child.next('ready');
  expect(await endLeftovers('test')).toEqual([expect.stringContaining('fixtures/idle.ts')]);
  expect(isAlive(child.pid)).toBe(false);
  expect(await endLeftovers('test')).toEqual([]);
});

test('a child that has ended by itself is no leftover', async () => {
  const child = startChild(new URL('./fixtures/idle.ts', import.meta.url), { args: ['--end'] });
  await child.exit;
  expect(await endLeftovers('test')).toEqual([]);
});
