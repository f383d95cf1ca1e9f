import { describe, expect, test } from 'vitest';

import { peerNamed } from './catalog.ts';
import { play } from './play.ts';
import { killed } from './proofs/index.ts';

/** Of what `npm run peers` does, so much that it cannot rot unseen. */
describe.concurrent('a write that is on its way when its owner is killed', () => {
  test.each([
    ['leasehold', 'holds', 0],
    ['redis-semaphore', 'fails', 1],
  ])('%s: %s, with %i late writes accepted', async (key, verdict, lateWrites) => {
    const finding = await play(key, await peerNamed(key), killed, 1_500);
    expect(finding).toMatchObject({ verdict, measured: { lateWrites } });
  });
});
