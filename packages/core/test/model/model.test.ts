/**
 * Every interleaving within small bounds, of the very functions that `MemoryLeaseStore` decides with. Processes pause for
 * any time and crash, requests arrive late or not at all, replies and wake-ups come late or are lost, bodies abort and
 * extend. `main.ts` goes farther.
 *
 * Not in it: clocks that drift or are set, parked processes, ticks, the loss of the store's data.
 */

import { describe, expect, test } from 'vitest';

import { bugs, findBug } from './bugs.ts';
import { allProperties, explore } from './explore.ts';
import { describeBounds, describeFinding } from './report.ts';
import { productionRules } from './rules.ts';
import { wholeBugs } from './whole-bugs.ts';
import type { Bounds } from './world.ts';

const LONG_MS = 180_000;

const small: Bounds = {
  ...{ processes: 2, leaseIds: 2, crashes: 1, ghosts: 1, tries: true, handsOver: true, forces: true },
  ...{ drops: true, writes: 0, diagnoses: 0, revokes: 0 },
  ...{ ttl: 2, refresh: 1, states: 1_000_000, probeEvery: 1 },
};

describe('within', () => {
  const queue = { ...small, leaseIds: 3, crashes: 0, ghosts: 0, handsOver: false, probeEvery: 10 };
  for (const bounds of [small, queue]) {
    test(`${describeBounds(bounds)}: nothing fails`, { timeout: LONG_MS }, () => {
      const finding = explore(productionRules, bounds);
      expect(finding.violation, describeFinding(finding)).toBeNull();
      expect(finding.complete).toBe(true);
      expect(finding.states).toBeGreaterThan(20_000);
      expect(finding.probes).toBeGreaterThan(5_000);
    });
  }
});

describe('the model finds:', () => {
  for (const bug of bugs) {
    test(`${bug.does} (${bug.foundBy})`, { timeout: LONG_MS }, () => {
      const finding = findBug(bug);
      expect(finding.violation?.property, describeFinding(finding)).toBe(bug.foundBy);
      // A way that somebody can follow.
      expect(finding.violation?.trace.length).toBeLessThanOrEqual(12);
    });
  }

  test('each property fails for some error', () => {
    const found = [...bugs, ...wholeBugs].map(({ foundBy }) => foundBy);
    expect(new Set(found)).toEqual(new Set(allProperties));
  });
});
