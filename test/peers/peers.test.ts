import { describe, expect, test } from 'vitest';

import { peerNamed } from './catalog.ts';
import { lateWrites, overlapMs } from './judge.ts';
import type { Entry } from './ledger.ts';
import { play } from './play.ts';
import { killed } from './proofs/index.ts';

/** Of what `npm run peers` does, so much that it cannot rot unseen. */
describe.concurrent('a write that is on its way when its owner is killed', { timeout: 60_000 }, () => {
  test.each([
    ['leasehold', 'holds', 0],
    ['redis-semaphore', 'fails', 1],
  ])('%s: %s, with %i late writes accepted', async (key, verdict, lateWrites) => {
    const finding = await play(key, await peerNamed(key), killed, 2_000);
    expect(finding).toMatchObject({ verdict, measured: { lateWrites } });
  });
});

test('late is what was accepted from an owner after the first write of the next, and nothing else', () => {
  const ledger = [
    ['a', 100],
    ['a', 110],
    ['b', 110],
    ['c', 120],
    ['a', 130],
    ['b', 140],
    ['a', 150],
  ].map(([owner, atMs], step): Entry => ({ owner: `${owner}`, atMs: Number(atMs), step, token: null, wallMs: null }));
  const [a, b, c, d] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }, { name: 'd' }] as const;
  expect(lateWrites(ledger, a, b).map(({ step }) => step)).toEqual([4, 6]);
  expect(overlapMs(ledger, a, b)).toBe(40);
  expect(lateWrites(ledger, b, a).map(({ step }) => step)).toEqual([2, 5]);
  expect(lateWrites(ledger, c, b)).toHaveLength(1);
  expect(lateWrites(ledger, a, d)).toEqual([]);
  expect(overlapMs(ledger, d, a)).toBe(0);
});
