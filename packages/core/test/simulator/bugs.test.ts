/** The simulation must be able to fail: worlds with one error each, and the rule that finds it within a few hundred seeds. */

import { describe, expect, test } from 'vitest';
import { invariants } from '../../src/testing/history/check.ts';
import { MUTATIONS } from './bug.ts';
import { seededBugs } from './bugs.ts';
import { planOf, without } from './plan.ts';
import { commandOf, describeFailure, faultsOf } from './report.ts';
import { simulate, simulateSeed } from './run.ts';
import { shrink } from './shrink.ts';
import { seededBugsPage } from './table.ts';

const WITHIN = 500;
// Nothing here waits: it takes as long as the machine is busy.
const LONG_MS = 600_000;

describe('the simulation finds', () => {
  for (const bug of seededBugs) {
    test(`${bug.does} (${bug.foundBy})`, { timeout: LONG_MS }, async () => {
      const found = new Set<string>();
      for (let seed = bug.from ?? 0; seed < WITHIN && !found.has(bug.foundBy); seed++) {
        for (const each of faultsOf(await simulateSeed(seed, bug))) found.add(each);
      }
      expect([...found]).toContain(bug.foundBy);
    });
  }
});

test('every rule of safety and liveness, and every mutation, has a bug, and they are told on one page', async () => {
  const rules = new Set(seededBugs.map(({ foundBy }) => foundBy));
  expect(invariants.map(({ id }) => id).filter((id) => !id.startsWith('V') && !rules.has(id))).toEqual([]);
  const mutations = new Set(seededBugs.map(({ mutation }) => mutation));
  expect(Object.keys(MUTATIONS).filter((name) => !(mutations as Set<string | undefined>).has(name))).toEqual([]);
  await expect(seededBugsPage()).toMatchFileSnapshot('seeded-bugs.md');
});

test('what fails is made smaller, and the command that is given repeats it', { timeout: LONG_MS }, async () => {
  const bug = seededBugs.find(({ foundBy }) => foundBy === 'S15');
  const whole = planOf(0);
  const { run, removed } = await shrink(whole, bug);
  const rule = faultsOf(await simulate(whole, bug))[0];
  expect(faultsOf(run)).toContain(rule);
  // Two who want the same, once each, and nothing that happens to them.
  expect(run.plan.processes.length).toBeLessThanOrEqual(2);
  expect(run.plan.faults).toEqual([]);
  const text = describeFailure(0, { run, removed, tries: 1 });
  expect(text).toContain(`seed 0 breaks ${rule}`);
  expect(text).toContain(`again: ${commandOf(0, removed)}`);
  expect(faultsOf(await simulate(without(whole, new Set(removed)), bug))).toContain(rule);
});

test('an error of the world itself is not taken for a rule that holds', async () => {
  const run = await simulateSeed(0, {
    store: () => ({ acquire: () => Promise.reject(new TypeError('not ours')) }),
  });
  expect(faultsOf(run)).not.toEqual([]);
});
