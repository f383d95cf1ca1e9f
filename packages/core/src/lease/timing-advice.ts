/**
 * How short a lease may be on what was measured. Pure.
 *
 * Whatever delays the next confirmation must fit between the instant at which it is due and the end of the trust window
 * (see `term.ts`): `window − refresh ≥ multiplier × (pause + round trip + clock step)`. That the duration of a lease has to
 * outlast pauses and message delays is Gray and Cheriton's (Leases, 1989, §3); that the measured worst is not the worst
 * there is, and needs a factor, is the practice of failure detectors (Hayashibara et al., The φ accrual failure detector,
 * 2004). Half an hour of measuring does not show a night's worst collection of garbage.
 */

import type { OwnerVitals } from '../owner.ts';
import { marginOf, trustedMs, type TimingOptions } from './term.ts';

export interface TimingAdviceRequest extends Partial<Omit<TimingOptions, 'callTimeoutMs'>> {
  /** Of one process, or of all that compete for the leases: the worst of each figure counts. */
  readonly vitals: OwnerVitals | readonly OwnerVitals[];
  /** As configured, milliseconds. */
  readonly ttlMs: number;
  /** How many times the measured worst must fit. At least 1. Default 2. */
  readonly multiplier?: number | undefined;
}

export interface TimingAdvice {
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

/** Throws nothing; figures that are missing count as 0. `refreshRatio` 3, `driftRate` 0.01 and the margin are the defaults of a manager. */
export function adviseTiming(request: TimingAdviceRequest): TimingAdvice {
  const { ttlMs, refreshRatio = 3, driftRate = 0.01, safetyMarginMs, multiplier = 2 } = request;
  const worst = worstOf(Array.isArray(request.vitals) ? request.vitals : [request.vitals]);
  const counted = (ms: number): number => Math.min(ms, LONGEST_COUNTED_MS);
  const delayMs = counted(worst.pauseMs) + counted(worst.roundTripMs) + counted(worst.stepMs);
  const neededMs = Math.max(1, multiplier) * delayMs;
  const spareMs = (ttl: number): number =>
    trustedMs(ttl, { driftRate, marginMs: marginOf(ttl, safetyMarginMs) }) - ttl / refreshRatio;
  const shortestTtlMs = shortest((ttl) => spareMs(ttl) >= neededMs);

  const why =
    `${Math.max(1, multiplier)} × (longest pause ${ms(worst.pauseMs)} + longest round trip ${ms(worst.roundTripMs)} + ` +
    `largest clock step ${ms(worst.stepMs)}) must fit between an extension that is due and the end of trust: ` +
    `${ms(spareMs(shortestTtlMs))} with a ttl of ${ms(shortestTtlMs)}, ${ms(spareMs(ttlMs))} with ${ms(ttlMs)}`;
  return { shortestTtlMs, why, warnings: warningsOn() };

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

function worstOf(vitals: readonly OwnerVitals[]): Worst {
  const most = (of: (each: OwnerVitals) => number | null): number =>
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
