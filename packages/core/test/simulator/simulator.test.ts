/**
 * Managers, store and fence in one process, with clocks, a network and chance that a seed decides: the code that runs in
 * production, under pauses at any step, crashes, partitions, lost, late, doubled and overtaken messages, clocks that are set,
 * and the loss of the store's data. `main.ts` runs as many seeds as there is time for.
 *
 * Not in it: ticks, sandboxes, more than one store, and what a real Redis or PostgreSQL decides.
 */

import { expect, test } from 'vitest';
import { addCounts, noCounts } from '../../src/testing/history/counts.ts';
import { checkCounts } from '../../src/testing/history/validity.ts';
import { addCoverage, coverageOf, describeCoverage, gapsIn, noCoverage } from './coverage.ts';
import { planOf } from './plan.ts';
import { describeCounts, describeFailure, describeHistory, faultsOf } from './report.ts';
import { simulateSeed } from './run.ts';
import { shrink } from './shrink.ts';

const SEEDS = 2000;
/** So often each point must be met. */
const LEAST = 5;
// Nothing here waits: it takes as long as the machine is busy.
const LONG_MS = 600_000;

test(`no rule is broken in ${SEEDS} simulated runs`, { timeout: LONG_MS }, async () => {
  const sum = noCounts();
  const coverage = noCoverage();
  for (let seed = 0; seed < SEEDS; seed++) {
    const run = await simulateSeed(seed);
    addCounts(sum, run.verdict.counts);
    addCoverage(coverage, coverageOf(run));
    if (faultsOf(run).length > 0) expect.fail(describeFailure(seed, await shrink(planOf(seed))));
  }
  expect(checkCounts(sum)).toEqual([]);
  // Far more than once, or the plans no longer reach what they are for.
  const exercised = describeCounts(sum, SEEDS);
  expect(sum.takeovers, exercised).toBeGreaterThan(500);
  expect(sum.losses, exercised).toBeGreaterThan(500);
  expect(sum.refusedWrites, exercised).toBeGreaterThan(300);
  expect(sum.refusedActivations, exercised).toBeGreaterThan(50);
  expect(sum.unknownAcquires, exercised).toBeGreaterThan(1000);
  expect(sum.unknownWrites, exercised).toBeGreaterThan(300);
  expect(sum.overlaps, exercised).toBeGreaterThan(20);
  expect(sum.handOvers, exercised).toBeGreaterThan(300);
  expect(sum.forcedReleases, exercised).toBeGreaterThan(100);
  // Each moment that hurts, and each kind of fault alone and with each other.
  expect(gapsIn(coverage, LEAST), describeCoverage(coverage).join('\n')).toEqual([]);
});

test('nor in those that once were hard to judge', { timeout: LONG_MS }, async () => {
  for (const seed of [
    119_733, 202_712, 203_401, 212_023, 49_495, 327_722, 551_347, 570_264, 630_578, 502_688, 503_468, 1_014_090,
    1_024_373, 1_022_426, 1_045_313, 1_153_841, 1_188_227,
  ]) {
    const run = await simulateSeed(seed);
    if (faultsOf(run).length > 0) expect.fail(describeFailure(seed, await shrink(planOf(seed))));
  }
});

test('two runs of a seed are the same, line by line', { timeout: LONG_MS }, async () => {
  for (let seed = 0; seed < 25; seed++) {
    const first = await simulateSeed(seed);
    const second = await simulateSeed(seed);
    expect(describeHistory(second.history)).toEqual(describeHistory(first.history));
    expect(second.events).toBe(first.events);
  }
});

test('two seeds are not', { timeout: LONG_MS }, async () => {
  const [first, second] = [await simulateSeed(1), await simulateSeed(2)];
  expect(describeHistory(second.history)).not.toEqual(describeHistory(first.history));
});
