import { z } from 'zod';

import { durationSchema as duration } from './duration-schema.ts';
import type { TimingOptions } from './lease/term.ts';

export const DEFAULT_TTL_MS = 30_000;

type OptionalDuration = z.ZodOptional<z.ZodType<number>>;

/** The options of a manager that say when leases are extended, and how long calls may take. */
export const timingSchema: z.ZodObject<
  {
    ttl: OptionalDuration;
    refreshRatio: z.ZodDefault<z.ZodNumber>;
    safetyMargin: OptionalDuration;
    driftRate: z.ZodDefault<z.ZodNumber>;
    callTimeout: OptionalDuration;
    activateTimeout: OptionalDuration;
  },
  z.core.$strict
> = z.strictObject({
  ttl: duration('ttl'),
  refreshRatio: z
    .number('must be a number')
    .min(2, 'must be at least 2, or one missed extend loses the lease')
    .max(100, 'must be at most 100')
    .default(3),
  safetyMargin: duration(
    'safetyMargin',
    (ms) => ms >= 10 && ms < Infinity,
    'must be at least 10 ms, the grain of the coarsest clock',
  ),
  driftRate: z.number('must be a number').min(0, 'must not be negative').max(0.2, 'must be at most 0.2').default(0.01),
  callTimeout: duration('callTimeout', (ms) => ms >= 5, 'must be at least 5 ms'),
  activateTimeout: duration(
    'activateTimeout',
    (ms) => ms >= 5 && ms < Infinity,
    'must be at least 5 ms and not Infinity',
  ),
});

export function timingOptionsOf(given: z.output<typeof timingSchema>): TimingOptions {
  return {
    refreshRatio: given.refreshRatio,
    driftRate: given.driftRate,
    safetyMarginMs: given.safetyMargin,
    callTimeoutMs: given.callTimeout,
  };
}

export function adviceOn(ttlMs: number, refreshRatio: number): string[] {
  const advice: string[] = [];
  if (ttlMs < 1000)
    advice.push(`ttl is ${ttlMs} ms; below 1 s a pause of the garbage collector or a slow network loses leases`);
  if (ttlMs > 600_000)
    advice.push(
      `ttl is ${ttlMs} ms; above 10 min a crashed owner, or one that is revoked, keeps others waiting for so long`,
    );
  if (refreshRatio < 3 || refreshRatio > 5) advice.push(`refreshRatio is ${refreshRatio}; advised is 3 to 5`);
  return advice;
}
