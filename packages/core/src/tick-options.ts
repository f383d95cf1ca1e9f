import { z } from 'zod';
import type { Duration } from './duration.ts';
import { durationSchema as duration } from './duration-schema.ts';
import { ConfigError } from './errors.ts';
import { checkJobName } from './names.ts';
import type { TickRequest } from './store/tick-request.ts';

/** What a run claims together with its lease: an instant of a schedule (`at`), or its own beginning (`minHold`). */
export interface TickOptions {
  /** The job whose tick this is. */
  readonly job: string;
  /** The instant that the schedule names; epoch milliseconds or a Date. Never "now". Either this or `minHold`. */
  readonly at?: number | Date;
  /**
   * Instead of `at`, for what no schedule triggers: no run of this job begins within so long of the beginning of the last
   * one, by the store's clock, in whole milliseconds. Above 0, at most 365 d. It is a record, so it also holds after a crash
   * and needs no lease held. What begins is a tick like any other; its instant is the store's now.
   */
  readonly minHold?: Duration;
  /** A tick that is older is refused as too late. Only with `at`. @default '5m' */
  readonly startingDeadline?: Duration;
  /** A tick farther ahead of the store's clock is refused as `clock-ahead`: come back. Only with `at`. @default '2s' */
  readonly maxAhead?: Duration;
  /**
   * How many times more a tick may be claimed whose run did not end well: its process died, or it failed, was cancelled or
   * lost. A whole number, 0 to 100. With 0 every tick runs at most once; with more, work that was done but not reported is
   * done again. With `minHold` such a further run need not wait for its end. @default 0
   */
  readonly retry?: number;
}

const MAX_HOLD_MS = 365 * 24 * 60 * 60 * 1000;
const RETRIES = 'must be a whole number, 0 to 100';

interface CheckedTick {
  readonly job: string;
  readonly at?: number | undefined;
  readonly minHold?: number | undefined;
  readonly startingDeadline?: number | undefined;
  readonly maxAhead?: number | undefined;
  readonly retry: number;
}

export const tickSchema: z.ZodType<CheckedTick> = z.strictObject({
  job: z.unknown().transform((job) => {
    checkJobName('tick.job', job);
    return job;
  }),
  at: z
    .unknown()
    .transform((at) => (at instanceof Date ? at.getTime() : at))
    .refine((at): at is number => typeof at === 'number', 'must be epoch milliseconds or a valid Date')
    .refine((at) => Number.isSafeInteger(at) && at >= 0, 'must be epoch milliseconds or a valid Date')
    .optional(),
  minHold: duration('tick.minHold', (ms) => ms > 0 && ms <= MAX_HOLD_MS, 'must be above 0 and at most 365 d'),
  startingDeadline: duration('tick.startingDeadline', (ms) => ms < 1e15, 'must not be Infinity'),
  maxAhead: duration('tick.maxAhead', (ms) => ms < 1e15, 'must not be Infinity'),
  retry: z.number(RETRIES).int(RETRIES).min(0, RETRIES).max(100, RETRIES).default(0),
});

/** Throws `ConfigError` for options that do not go together. */
export function tickRequestOf(tick: CheckedTick): TickRequest {
  const { job, at, minHold, startingDeadline, maxAhead, retry } = tick;
  if (minHold === undefined) {
    if (at === undefined) {
      throw new ConfigError('tick.at', 'is missing; give the instant of the schedule, or minHold where there is none');
    }
    return { job, at, startingDeadlineMs: startingDeadline ?? 300_000, maxAheadMs: maxAhead ?? 2000, retry };
  }
  for (const [name, value] of Object.entries({ at, startingDeadline, maxAhead })) {
    if (value !== undefined) {
      throw new ConfigError(
        `tick.${name}`,
        `is ${value}: does not go with minHold, which is for runs without a schedule`,
      );
    }
  }
  return { job, at: null, minHoldMs: minHold, retry };
}

/** For how long after its claim a tick that was forgotten could be claimed again. */
export function memoryOfTickMs(tick: TickRequest): number {
  return tick.at === null ? tick.minHoldMs : tick.startingDeadlineMs + tick.maxAheadMs;
}
