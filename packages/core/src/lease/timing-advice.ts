/**
 * How short a lease may be on what was measured. Pure.
 *
 * Whatever delays the next confirmation must fit between the instant at which it is due and the end of the trust window
 * (see `term.ts`): `window − refresh ≥ multiplier × (pause + beat + round trip + clock step)`, the beat being that by which
 * a pause may be measured too short. That the duration of a lease has to outlast pauses and message delays is Gray and
 * Cheriton's (Leases, 1989, §3); that the measured worst is not the worst there is, and needs a factor, is the practice of
 * failure detectors (Hayashibara et al., The φ accrual failure detector, 2004). Half an hour of measuring does not show a
 * night's worst collection of garbage.
 */

import { z } from 'zod';

import { parseOptions } from '../options.ts';
import type { OwnerVitals } from '../owner.ts';
import { timingSchema } from '../timing-options.ts';
import { beatMs } from './pulse.ts';
import { marginOf, trustedMs, type TimingOptions } from './term.ts';

export interface TimingAdviceRequest extends Partial<Omit<TimingOptions, 'callTimeoutMs'>> {
  /** Of one process, or of all that compete for the leases: the worst of each figure counts. */
  readonly vitals: OwnerVitals | readonly OwnerVitals[];
  /** As configured, milliseconds. */
  readonly ttlMs: number;
  /** How many times the measured worst must fit, 1 to 100. Default 2. */
  readonly multiplier?: number | undefined;
}

export interface TimingAdvice {
  /** As configured, milliseconds. */
  readonly ttlMs: number;
  /** The shortest ttl that is safe by these figures, milliseconds, rounded up to a tenth of a second; at least 1 s. */
  readonly shortestTtlMs: number;
  /** How it comes about: one sentence with the figures. */
  readonly why: string;
  /** What is wrong with the configured timing, each a sentence that says what to do; empty if nothing is. */
  readonly warnings: readonly string[];
}

/** What was measured in minutes says nothing of pauses that come once a day. */
const LEAST_MS = 1000;
const ROUND_MS = 100;
/**
 * Whoever stands still for longer should lose the lease: a ttl that outlasts it makes everybody wait for that long after
 * each crash.
 */
const LONGEST_COUNTED_MS = 60_000;
/** Half of what a tick may lie ahead of the store's clock by default. */
const LARGE_OFFSET_MS = 1000;
const DAY_MS = 24 * 60 * 60 * 1000;

const figure = z.number().min(0);

/** Those that are counted. What a store says of itself is in the others, and must not stand in the way. */
const vitalsSchema = z.object({
  worstPauseMs: figure,
  worstRoundTripMs: figure,
  worstClockStepMs: figure,
  worstSuspendMs: figure,
  clockOffsetMs: z.number().nullable(),
});
type Counted = z.output<typeof vitalsSchema>;

const requestSchema = z.strictObject({
  vitals: z.union([vitalsSchema, z.array(vitalsSchema)], 'must be the vitals of an owner, or a list of those'),
  ttlMs: z.number('must be a number').min(100, 'must be at least 100').max(DAY_MS, 'must be at most 24 h'),
  refreshRatio: timingSchema.shape.refreshRatio,
  driftRate: timingSchema.shape.driftRate,
  safetyMarginMs: z
    .number('must be a number')
    .min(10, 'must be at least 10')
    .max(DAY_MS, 'must be at most 24 h')
    .optional(),
  multiplier: z
    .number('must be a number')
    .min(1, 'must be at least 1, or not even the measured worst fits')
    .max(100, 'must be at most 100')
    .default(2),
});

/**
 * Without vitals all figures count as 0. `refreshRatio` 3, `driftRate` 0.01 and the margin are the defaults of a manager.
 * Throws `ConfigError` for what a manager would not take, either, and for a multiplier that is none.
 */
export function adviseTiming(request: TimingAdviceRequest): TimingAdvice {
  const { vitals, ttlMs, refreshRatio, driftRate, safetyMarginMs, multiplier } = parseOptions(requestSchema, request);
  const worst = worstOf(Array.isArray(vitals) ? vitals : [vitals]);
  const shortMs = beatMs(ttlMs);
  const counted = (ms: number): number => Math.min(ms, LONGEST_COUNTED_MS);
  const delayMs = counted(worst.pauseMs + shortMs) + counted(worst.roundTripMs) + counted(worst.stepMs);
  const neededMs = multiplier * delayMs;
  const spareMs = (ttl: number): number =>
    trustedMs(ttl, { driftRate, marginMs: marginOf(ttl, safetyMarginMs) }) - ttl / refreshRatio;
  const shortestTtlMs = shortest((ttl) => spareMs(ttl) >= neededMs);

  const why =
    `${round(multiplier)} × (longest pause ${ms(worst.pauseMs)} + ${ms(shortMs)} by which it may be measured short + longest round trip ${ms(worst.roundTripMs)} + ` +
    `largest clock step ${ms(worst.stepMs)}) must fit between an extension that is due and the end of trust: ` +
    `${ms(spareMs(shortestTtlMs))} with a ttl of ${ms(shortestTtlMs)}, ${ms(spareMs(ttlMs))} with ${ms(ttlMs)}`;
  return { ttlMs, shortestTtlMs, why, warnings: warningsOn() };

  function warningsOn(): string[] {
    const warnings: string[] = [];
    if (ttlMs < shortestTtlMs) {
      warnings.push(
        `ttl is ${ms(ttlMs)}, shorter than the shortest safe one, ${ms(shortestTtlMs)}: raise it, or find what delays this process`,
      );
    }
    if (refreshRatio < 3 || refreshRatio > 5) {
      warnings.push(
        `ttl is ${round(refreshRatio)} times the refresh interval: set refreshRatio to 3 to 5, so that one or two extensions may fail and the store is not asked more than it helps`,
      );
    }
    if (worst.offsetMs >= LARGE_OFFSET_MS) {
      warnings.push(
        `the clocks of this host and of the store are ${ms(worst.offsetMs)} apart: leases do not depend on it, schedules do; have both kept by NTP`,
      );
    }
    if (Math.max(worst.pauseMs, worst.stepMs, worst.roundTripMs) > LONGEST_COUNTED_MS) {
      warnings.push(
        `the worst counted for a minute only: whoever stands still for longer should lose the lease, and a fence keeps what it writes then from doing harm`,
      );
    }
    if (worst.suspendMs > 0) {
      warnings.push(
        `the machine was suspended for ${ms(worst.suspendMs)}, which is not counted: a lease need not outlast that`,
      );
    }
    return warnings;
  }
}

interface Worst {
  readonly pauseMs: number;
  readonly roundTripMs: number;
  readonly stepMs: number;
  readonly suspendMs: number;
  readonly offsetMs: number;
}

function worstOf(vitals: readonly Counted[]): Worst {
  const most = (of: (each: Counted) => number | null): number =>
    vitals.reduce((largest, each) => Math.max(largest, Math.abs(of(each) ?? 0)), 0);
  return {
    pauseMs: most(({ worstPauseMs }) => worstPauseMs),
    roundTripMs: most(({ worstRoundTripMs }) => worstRoundTripMs),
    stepMs: most(({ worstClockStepMs }) => worstClockStepMs),
    suspendMs: most(({ worstSuspendMs }) => worstSuspendMs),
    offsetMs: most(({ clockOffsetMs }) => clockOffsetMs),
  };
}

/** `fits` is false up to some ttl and true from there on. */
function shortest(fits: (ttlMs: number) => boolean): number {
  let steps = 1;
  while (!fits(LEAST_MS * steps * 2) && steps < 2 ** 20) steps *= 2;
  let [low, high] = [LEAST_MS / ROUND_MS, (LEAST_MS * steps * 2) / ROUND_MS];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle * ROUND_MS)) high = middle;
    else low = middle + 1;
  }
  return low * ROUND_MS;
}

function ms(value: number): string {
  return value < 1000 ? `${Math.round(value)} ms` : `${round(value / 1000)} s`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
