import { setTimeout as sleep } from 'node:timers/promises';
import { parseDuration, type Duration } from '@leasehold/core';
import type { openManager, Target } from '../connection.ts';
import { Cleaner } from './cleaner.ts';
import type { DrillFence, DrillTiming } from './messages.ts';
import type { Stage } from './scene.ts';
import { DRILL_PREFIX } from './scratch.ts';
import { silent } from './silent.ts';

export interface StageOptions {
  readonly target: Target;
  readonly fence: DrillFence;
  readonly ttl: Duration;
  readonly timing: DrillTiming;
  readonly signal: AbortSignal;
  readonly open: typeof openManager;
  readonly onFault: Stage['onFault'];
}

/** What a killed process has sent may still be on its way; milliseconds. */
const LAST_PACKETS_MS = 100;

/**
 * Prepares what all proofs share and gives it to `body`; whatever happens then, the scratch keys are removed. `left`: told of those that
 * could not be. Rejects with `ConfigError` for timing that cannot work, and with the reason of an aborted signal.
 */
export async function withStage<T>(
  { target, fence, ttl, timing, signal, open, onFault }: StageOptions,
  body: (stage: Stage) => Promise<T>,
  left: (resources: readonly string[]) => void,
): Promise<T> {
  const ttlMs = parseDuration('--ttl', ttl);
  const leases = await open(
    { ...target, prefix: DRILL_PREFIX, endpoints: [] },
    { ...timing, ttl: ttlMs, logger: silent },
  );
  await using cleaner = new Cleaner(target.redis, fence);
  try {
    const refreshMs = ttlMs / (timing.refreshRatio ?? 3);
    return await body({ redis: target.redis, fence, ttlMs, refreshMs, timing, leases, cleaner, signal, onFault });
  } finally {
    if (cleaner.hasLeft) await sleep(LAST_PACKETS_MS);
    const names = await cleaner.removeAll();
    if (names.length > 0) left(names);
    await leases.close({ grace: 0, abandonAfter: 0 });
  }
}
