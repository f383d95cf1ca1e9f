/**
 * Every interleaving within small bounds of agents before one fence, which decides by the very function that the fences use.
 * Agents are paused anywhere for any time and never look at their leases; the store may lose its data, so that tokens
 * repeat. The whole rule holds; with any part of it replaced or left out, updates are lost. `main.ts` goes farther.
 *
 * Not in it: seals, grants that are handed to another process, the loss of the resource's own data.
 */

import { describe, expect, test } from 'vitest';

import { fenceRules } from './fence-rules.ts';
import { allFenceProperties, exploreFence, fenceVariants } from './fence-variants.ts';
import type { FenceBounds, FenceProperty } from './fence-world.ts';
import { describeFenceBounds, describeFound } from './report.ts';

const bounds: FenceBounds = { agents: 3, acquisitions: 2, tokens: 4, versions: 3, losses: 1 };

describe(`within ${describeFenceBounds(bounds)}`, () => {
  for (const variant of fenceVariants) {
    const broken = Object.entries(variant.breaks) as [FenceProperty, number][];
    for (const [property, steps] of broken) {
      test(`${variant.does}: ${property} fails`, () => {
        const found = exploreFence(variant, bounds, [property]);
        expect(found.violation?.property, describeFound(found)).toBe(property);
        // The shortest there is, so that somebody can follow it.
        expect(found.violation?.trace, describeFound(found)).toHaveLength(steps);
      });
    }
    if (broken.length > 0) continue;
    test(`${variant.does}: nothing fails`, () => {
      const found = exploreFence(variant, bounds);
      expect(found.violation, describeFound(found)).toBeNull();
      expect(found.complete).toBe(true);
      expect(found.states, describeFound(found)).toBeGreaterThan(variant.loses ? 40_000 : 2_000);
    });
  }

  test('a fence that admits everybody: both fail', () => {
    const rules = { ...fenceRules, admits: () => true };
    for (const property of allFenceProperties) {
      const found = exploreFence({ does: 'admits everybody', loses: false, rules, breaks: {} }, bounds, [property]);
      expect(found.violation?.property, describeFound(found)).toBe(property);
    }
  });

  test('the counterexample of a fence without activation, step by step', () => {
    const variant = fenceVariants.find(({ rules, loses }) => !rules.activates && !loses);
    expect(variant && exploreFence(variant, bounds).violation?.trace).toEqual([
      'A acquires: token 1',
      'A reads 0',
      'B acquires: token 2',
      'B reads 0',
      'A writes 1 over 0: admitted',
      'B writes 1 over 1: admitted',
    ]);
  });
});
