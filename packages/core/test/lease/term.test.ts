import type { ConfigError } from '@leasehold/core';
import { ManualClock } from '@leasehold/core/testing';
import { describe, expect, test } from 'vitest';
import { elapsedMs, OwnerClock, reasonOfClosure, timingOf, trustedMs } from '../../src/lease/term.ts';

const DEFAULTS = { refreshRatio: 3, driftRate: 0.01, safetyMarginMs: undefined, callTimeoutMs: undefined };

describe('timing', () => {
  test.each([
    { ttlMs: 100, windowMs: 79, refreshMs: 33.3, callTimeoutMs: 15.2 },
    { ttlMs: 1000, windowMs: 940, refreshMs: 333.3, callTimeoutMs: 202.2 },
    { ttlMs: 30_000, windowMs: 29_200, refreshMs: 10_000, callTimeoutMs: 2000 },
    { ttlMs: 86_400_000, windowMs: 85_535_500, refreshMs: 28_800_000, callTimeoutMs: 2000 },
  ])('of $ttlMs ms', ({ ttlMs, windowMs, refreshMs, callTimeoutMs }) => {
    const timing = timingOf(ttlMs, DEFAULTS);
    expect(timing.windowMs).toBeCloseTo(windowMs, 1);
    expect(timing.refreshMs).toBeCloseTo(refreshMs, 1);
    expect(timing.callTimeoutMs).toBeCloseTo(callTimeoutMs, 1);
    expect(timing.refreshMs + 2 * timing.callTimeoutMs).toBeLessThanOrEqual(timing.windowMs);
  });

  test('the default call timeout fits for every ttl, ratio and drift that is allowed', () => {
    for (const ttlMs of [100, 101, 350, 999, 10_000, 86_400_000]) {
      for (const refreshRatio of [2, 2.5, 3, 5, 100]) {
        const timing = timingOf(ttlMs, { ...DEFAULTS, refreshRatio });
        expect(timing.callTimeoutMs).toBeGreaterThan(0);
        expect(timing.refreshMs + 2 * timing.callTimeoutMs).toBeLessThanOrEqual(timing.windowMs);
      }
    }
  });

  test('refuses timing that cannot work, naming the option that makes it so', () => {
    const option = (...args: Parameters<typeof timingOf>): string => {
      try {
        timingOf(...args);
      } catch (error) {
        return (error as ConfigError).option;
      }
      return 'accepted';
    };
    expect(option(99, DEFAULTS)).toBe('ttl');
    expect(option(86_400_001, DEFAULTS)).toBe('ttl');
    expect(option(1000, { ...DEFAULTS, callTimeoutMs: 400 })).toBe('callTimeout');
    expect(option(1000, { ...DEFAULTS, safetyMarginMs: 700 })).toBe('safetyMargin');
    expect(option(1000, { ...DEFAULTS, refreshRatio: 2, driftRate: 0.5 })).toBe('driftRate');
    expect(option(1000, { ...DEFAULTS, callTimeoutMs: 300 })).toBe('accepted');
  });

  test('the slip of seconds for milliseconds is answered with what was meant', () => {
    expect(() => timingOf(30, DEFAULTS)).toThrow(/CONFIG: ttl: is 30 ms, below 100 ms; did you mean '30s'\?/);
  });

  test('only what the reply said remains is trusted, less drift and margin', () => {
    expect(trustedMs(1000, { driftRate: 0.01, marginMs: 50 })).toBe(940);
    expect(trustedMs(40, { driftRate: 0.01, marginMs: 50 })).toBeLessThan(0);
  });
});

describe('the owner clock', () => {
  test('the largest of the three clocks counts', () => {
    const clock = new ManualClock();
    const owner = new OwnerClock(clock);
    const stamp = owner.stamp();
    clock.block(700);
    expect(elapsedMs(owner.since(stamp))).toBeCloseTo(700, 0);
    clock.stepWall(-3_600_000);
    expect(elapsedMs(owner.since(stamp))).toBeCloseTo(700, 0);
    clock.stepWall(3_600_000 + 5000);
    expect(elapsedMs(owner.since(stamp))).toBeCloseTo(5700, 0);
  });

  test('a suspended machine is seen although its monotonic clock stood still and its wall clock was set back', () => {
    const clock = new ManualClock();
    const owner = new OwnerClock(clock);
    const stamp = owner.stamp();
    clock.suspend(60_000);
    clock.stepWall(-60_000 - 30);
    expect(owner.since(stamp).monotonicMs).toBe(0);
    expect(elapsedMs(owner.since(stamp))).toBe(60_000);
  });

  test('works without uptime', () => {
    const clock = new ManualClock();
    Object.defineProperty(clock, 'uptimeMs', { value: () => undefined });
    const owner = new OwnerClock(clock);
    const stamp = owner.stamp();
    clock.block(1500);
    expect(elapsedMs(owner.since(stamp))).toBe(1500);
  });

  test('uptime that becomes known later counts from then on', () => {
    const clock = new ManualClock();
    const uptimeMs = clock.uptimeMs.bind(clock);
    let known = false;
    Object.defineProperty(clock, 'uptimeMs', { value: () => (known ? uptimeMs() : undefined) });
    const owner = new OwnerClock(clock);
    const early = owner.stamp();
    known = true;
    clock.block(1500);
    expect(elapsedMs(owner.since(early))).toBe(1500);
    const late = owner.stamp();
    clock.suspend(5000);
    expect(elapsedMs(owner.since(late))).toBe(5000);
  });

  test('reads uptime at most once a second while the other clocks agree', () => {
    const clock = new ManualClock();
    let readings = 0;
    const uptimeMs = clock.uptimeMs.bind(clock);
    Object.defineProperty(clock, 'uptimeMs', { value: () => (readings++, uptimeMs()) });
    const owner = new OwnerClock(clock);
    const stamp = owner.stamp();
    for (let check = 0; check < 500; check++) {
      clock.block(10);
      owner.since(stamp);
    }
    expect(readings).toBeLessThanOrEqual(6);
    expect(readings).toBeGreaterThanOrEqual(5);
  });

  test('says which clock closed the window', () => {
    expect(reasonOfClosure({ monotonicMs: 10, wallMs: 5000, uptimeMs: 10 }, 940, false)).toBe('clock-step');
    expect(reasonOfClosure({ monotonicMs: 950, wallMs: 5000, uptimeMs: 950 }, 940, false)).toBe('expired');
    expect(reasonOfClosure({ monotonicMs: 950, wallMs: 950, uptimeMs: 950 }, 940, true)).toBe('store-unreachable');
    // A millisecond between two clocks is no step.
    expect(reasonOfClosure({ monotonicMs: 939.4, wallMs: 941, uptimeMs: 939.4 }, 940, true)).toBe('store-unreachable');
    expect(reasonOfClosure({ monotonicMs: 0, wallMs: 950, uptimeMs: 950 }, 940, false)).toBe('expired');
  });
});
