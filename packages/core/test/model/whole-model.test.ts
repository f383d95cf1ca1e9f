/**
 * Every interleaving within small bounds of all parts together: owners that acquire, wait for their turn, extend, lose, activate, write
 * and release; a fence that decides by the rule of the fences; operators who revoke, diagnose, seal and release by force. What is
 * sent may arrive at any time, also when its sender is gone. The decisions are those of the product. `main.ts` goes farther.
 *
 * Not in it: clocks that drift or are set, parked processes, ticks, the loss of the store's or the resource's data, fences that
 * are not asked in one step, more than one fence, late answers of a fence.
 */

import { describe, expect, test } from 'vitest';

import { explore } from './explore.ts';
import { describeBounds, describeFinding } from './report.ts';
import { productionRules } from './rules.ts';
import { findWholeBug, wholeBugs } from './whole-bugs.ts';
import type { Bounds } from './world.ts';

const LONG_MS = 180_000;

const whole: Bounds = {
  ...{ processes: 2, leaseIds: 2, crashes: 0, ghosts: 0, tries: false, drops: false, handsOver: false, forces: false },
  ...{ writes: 1, diagnoses: 1, revokes: 0, ttl: 2, refresh: 1, states: 1_000_000, probeEvery: 20 },
};

describe('within', () => {
  // Both at once are 247,840 states: too many for here.
  for (const bounds of [whole, { ...whole, diagnoses: 0, revokes: 1 }]) {
    test(`${describeBounds(bounds)}: nothing fails`, { timeout: LONG_MS }, () => {
      const finding = explore(productionRules, bounds);
      expect(finding.violation, describeFinding(finding)).toBeNull();
      expect(finding.complete).toBe(true);
      expect(finding.states).toBeGreaterThan(45_000);
      expect(finding.probes).toBeGreaterThan(2000);
    });
  }
});

describe('the whole model finds:', () => {
  for (const bug of wholeBugs) {
    test(`${bug.does} (${bug.foundBy})`, { timeout: LONG_MS }, () => {
      const finding = findWholeBug(bug);
      expect(finding.violation?.property, describeFinding(finding)).toBe(bug.foundBy);
      // The shortest there is, so that somebody can follow it.
      expect(finding.violation?.trace, describeFinding(finding)).toHaveLength(bug.steps);
    });
  }
});
