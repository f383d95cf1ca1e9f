import { afterAll, afterEach, beforeEach } from 'vitest';

import { endLeftovers } from './leftovers.ts';

// npm tells the version of the package it runs, and owners show it. Tests see the same with and without npm.
delete process.env['npm_package_version'];

/** Tests of the file that are in progress: several, if they are concurrent. */
let running = 0;

beforeEach(() => {
  running++;
});

afterEach(async ({ task }) => {
  running--;
  // What is open may be theirs who still run; the last one looks.
  if (running > 0) return;
  const left = await endLeftovers('test');
  // A test that failed half-way could not clean up: its own error says more than ours.
  if (left.length > 0 && task.result?.state !== 'fail') {
    throw new Error(`the test left running: ${left.join(', ')} (write \`await using\`, or end it)`);
  }
});

afterAll(async () => {
  const left = [...(await endLeftovers('test')), ...(await endLeftovers('file'))];
  if (left.length > 0) throw new Error(`the file left running: ${left.join(', ')} (end it in afterAll)`);
});
