import { systemClock } from '@leasehold/core';

import { pause } from './pause.ts';

/** Whether it has settled after so long at the latest. */
export async function isWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const over = new AbortController();
  const settled = work.then(
    () => true,
    () => true,
  );
  const first = await Promise.race([
    settled,
    pause(systemClock, ms, { signal: over.signal, ref: true }).then(() => false),
  ]);
  over.abort();
  return first;
}
