import { afterAll, afterEach } from 'vitest';

import { endLeftovers } from './leftovers.ts';

afterEach(async ({ task }) => {
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
