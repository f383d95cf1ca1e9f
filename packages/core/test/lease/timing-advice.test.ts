import { ConfigError, LeaseManager, MemoryLeaseStore, type OwnerVitals } from '@leasehold/core';
import { ManualClock } from '@leasehold/core/testing';
import { describe, expect, test } from 'vitest';

import { timingOf } from '../../src/lease/term.ts';
import { adviseTiming, type TimingAdviceRequest } from '../../src/lease/timing-advice.ts';

function measured(figures: Partial<OwnerVitals> = {}): OwnerVitals {
  return {
    ...{ worstPauseMs: 0, worstClockStepMs: 0, worstSuspendMs: 0, worstRoundTripMs: 0 },
    ...{ worstExtensionRatio: 0.33, failedExtensions: 0, clockOffsetMs: 0, serverRunId: 'a' },
    measuredAt: '2026-01-15T03:00:00.000Z',
    ...figures,
  };
}

describe('the shortest safe ttl', () => {
  // (2 × (delay + 250) + margin) ÷ (1 − 0.01 − 1/3), margin clamp(ttl / 20, 20, 500), rounded up to 100 ms, at least 1 s.
  test.each([
    { what: 'nothing worth speaking of', figures: {}, shortestTtlMs: 1000 },
    { what: 'a pause of 100 ms', figures: { worstPauseMs: 100 }, shortestTtlMs: 1200 },
    { what: 'a pause of 1 s', figures: { worstPauseMs: 1000 }, shortestTtlMs: 4200 },
    { what: 'a pause of 10 s', figures: { worstPauseMs: 10_000 }, shortestTtlMs: 32_000 },
    {
      what: 'pause, round trip and step',
      figures: { worstPauseMs: 500, worstRoundTripMs: 300, worstClockStepMs: 200 },
      shortestTtlMs: 4200,
    },
    { what: 'a minute and more', figures: { worstPauseMs: 60_000 }, shortestTtlMs: 183_600 },
    { what: 'as much as an hour', figures: { worstPauseMs: 3_600_000 }, shortestTtlMs: 183_600 },
    { what: 'a night of sleep', figures: { worstSuspendMs: 28_800_000 }, shortestTtlMs: 1000 },
  ])('with $what', ({ figures, shortestTtlMs }) => {
    const advice = adviseTiming({ vitals: measured(figures), ttlMs: 200_000 });
    expect(advice.shortestTtlMs).toBe(shortestTtlMs);
  });

  test.each([
    { options: { multiplier: 1 }, shortestTtlMs: 2100 },
    { options: { multiplier: 3 }, shortestTtlMs: 6200 },
    { options: { refreshRatio: 5 }, shortestTtlMs: 3400 },
    { options: { refreshRatio: 2 }, shortestTtlMs: 5700 },
    { options: { safetyMarginMs: 2000 }, shortestTtlMs: 6900 },
    { options: { driftRate: 0.2 }, shortestTtlMs: 6000 },
  ])('of a pause of 1 s with $options', ({ options, shortestTtlMs }) => {
    const advice = adviseTiming({ vitals: measured({ worstPauseMs: 1000 }), ttlMs: 30_000, ...options });
    expect(advice.shortestTtlMs).toBe(shortestTtlMs);
  });

  test('is the first by the arithmetic of the engine that leaves room for it', () => {
    for (const refreshRatio of [2, 3, 5, 20]) {
      for (const driftRate of [0, 0.01, 0.2]) {
        for (const worstPauseMs of [400, 3000, 20_000]) {
          const vitals = measured({ worstPauseMs });
          const { shortestTtlMs } = adviseTiming({ vitals, ttlMs: 30_000, refreshRatio, driftRate });
          const spare = (ttlMs: number): number => {
            const timing = timingOf(ttlMs, {
              ...{ refreshRatio, driftRate, safetyMarginMs: undefined, callTimeoutMs: undefined },
            });
            return timing.windowMs - timing.refreshMs;
          };
          const longestMs = worstPauseMs + 250;
          expect(spare(shortestTtlMs)).toBeGreaterThanOrEqual(2 * longestMs);
          expect(spare(shortestTtlMs - 100)).toBeLessThan(2 * longestMs);
        }
      }
    }
  });

  test('counts the worst of each figure, whichever process measured it', () => {
    const vitals = [measured({ worstPauseMs: 700 }), measured({ worstRoundTripMs: 300, clockOffsetMs: -4000 })];
    const advice = adviseTiming({ vitals, ttlMs: 30_000 });
    expect(advice.shortestTtlMs).toBe(4200);
    expect(advice.warnings).toEqual([expect.stringContaining('4 s apart')]);
    expect(adviseTiming({ vitals: [], ttlMs: 30_000 })).toMatchObject({ shortestTtlMs: 1000, warnings: [] });
  });
});

describe('warnings', () => {
  test.each([
    { figures: {}, options: {}, warns: [] },
    { figures: { worstPauseMs: 10_000 }, options: {}, warns: [/^ttl is 30 s, shorter than .* 32 s: raise it/] },
    {
      figures: {},
      options: { refreshRatio: 2.5 },
      warns: [/2.5 times the refresh interval: set refreshRatio to 3 to 5/],
    },
    { figures: {}, options: { refreshRatio: 8 }, warns: [/8 times/] },
    { figures: { clockOffsetMs: 999 }, options: {}, warns: [] },
    { figures: { clockOffsetMs: null }, options: {}, warns: [] },
    { figures: { clockOffsetMs: -1500 }, options: {}, warns: [/1.5 s apart/] },
    { figures: { worstSuspendMs: 5000 }, options: {}, warns: [/suspended for 5 s/] },
    { figures: { worstPauseMs: 90_000 }, options: {}, warns: [/shorter/, /counted for a minute only/] },
  ])('$figures $options', ({ figures, options, warns }) => {
    const { warnings } = adviseTiming({ vitals: measured(figures), ttlMs: 30_000, ...options });
    expect(warnings).toEqual(warns.map((warn) => expect.stringMatching(warn)));
  });

  test('the figures are told', () => {
    const { why } = adviseTiming({ vitals: measured({ worstPauseMs: 1000, worstRoundTripMs: 12.3 }), ttlMs: 30_000 });
    expect(why).toContain(
      '2 × (longest pause 1 s + 250 ms by which it may be measured short + longest round trip 12 ms + largest clock step 0 ms)',
    );
    expect(why).toContain('19.2 s with 30 s');
  });
});

test('a manager advises on its own timing, by what it has measured', async () => {
  const clock = new ManualClock();
  const store = new MemoryLeaseStore({ clock });
  const manager = new LeaseManager({ store, clock, ttl: '3s' });
  expect(manager.adviseTiming()).toMatchObject({ shortestTtlMs: 1000, warnings: [] });
  await manager.acquire('r');
  await clock.advanceAsync(75);
  clock.block(1575);
  await clock.advanceAsync(100);
  expect(manager.adviseTiming()).toMatchObject({
    ttlMs: 3000,
    shortestTtlMs: 5200,
    warnings: [expect.stringContaining('ttl is 3 s')],
  });
  expect(manager.adviseTiming({ multiplier: 1 })).toMatchObject({ shortestTtlMs: 2600, warnings: [] });
});

test.each([
  [{ multiplier: 0.5 }, /multiplier: is 0.5: must be at least 1/],
  [{ multiplier: Number.NaN }, /multiplier: is NaN/],
  [{ multiplier: Infinity }, /multiplier: is Infinity/],
  [{ refreshRatio: 1 }, /refreshRatio: is 1: must be at least 2/],
  [{ driftRate: 0.5 }, /driftRate: is 0.5/],
  [{ safetyMarginMs: 1 }, /safetyMarginMs: is 1/],
  [{ ttlMs: 50 }, /ttlMs: is 50/],
  [{ vitals: { worstPauseMs: 5 } }, /vitals: is .*must be the vitals of an owner/],
  [{ factor: 3 }, /factor: is not an option here/],
])('what cannot be computed with is refused: %o', (wrong, message) => {
  const request = { vitals: measured(), ttlMs: 30_000, ...wrong } as TimingAdviceRequest;
  expect(() => adviseTiming(request)).toThrow(ConfigError);
  expect(() => adviseTiming(request)).toThrow(message);
});
