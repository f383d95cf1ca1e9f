import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { startChild } from '../support/child.ts';

const TESTATOR = new URL('./fixtures/testator.ts', import.meta.url);

/** Where the last will writes to. */
function place(): string {
  const dir = mkdtempSync(join(tmpdir(), 'leasehold-will-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return join(dir, 'will');
}

test('what a process wanted done after its end is done after SIGKILL', async () => {
  const path = place();
  await using child = startChild(TESTATOR, { args: [path] });
  await child.next('ready');
  expect(existsSync(path)).toBe(false);
  await child.kill9();
  while (!existsSync(path)) await sleep(5);
});

test('what it wanted no longer is not done', async () => {
  const path = place();
  await using child = startChild(TESTATOR, { args: [path] });
  await child.next('ready');
  child.send('revoke');
  await child.next('revoked');
  await child.kill9();
  await sleep(100); // nothing tells that nothing comes
  expect(existsSync(path)).toBe(false);
});
