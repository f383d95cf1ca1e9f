/**
 * The suites must be able to fail: stores and fences with one error each, and the case that must find it.
 */

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { fenceCases, runFenceCase } from '../../src/testing/fence-suite.ts';
import { runStoreCase, storeCases } from '../../src/testing/store-suite.ts';
import type { FenceCase } from '../../src/testing/fence/context.ts';
import { fenceMutants, type FenceMutant } from './fence-mutants.ts';
import { memoryFenceSubject, memoryStoreSubject, plainHooks } from './memory-subject.ts';
import { Ground, PlainFence } from './plain-fence.ts';
import { mutate } from './store-mutant.ts';
import { storeMutants } from './store-mutants.ts';

describe('the store suite finds a store that', () => {
  for (const { does, foundBy, change } of storeMutants) {
    test(`${does} (${foundBy})`, async () => {
      const storeCase = storeCases.find(({ name }) => name === foundBy);
      if (storeCase === undefined) throw new Error(`no case is called ${foundBy}`);
      await runStoreCase(storeCase, () => memoryStoreSubject((memory) => mutate(memory, () => ({}))));
      await expect(
        runStoreCase(storeCase, () => memoryStoreSubject((memory) => mutate(memory, change))),
      ).rejects.toThrow();
    });
  }
});

describe('the fence suite', () => {
  // The same choices in each run: a seeded error that chance finds is found or not.
  beforeEach(() => void vi.stubEnv('LEASEHOLD_SUITE_SEED', '7'));
  afterEach(() => void vi.unstubAllEnvs());

  const subjectOf = (fence: FenceMutant['fence']) => () => {
    const ground = new Ground();
    return memoryFenceSubject(
      (clock) => new fence(clock, ground),
      (first) => plainHooks(first as PlainFence, (clock) => new fence(clock, ground)),
    );
  };
  const caseOf = (name: string): FenceCase => {
    const found = fenceCases.find((each) => each.name === name);
    if (found === undefined) throw new Error(`no case is called ${name}`);
    return found;
  };

  for (const fenceCase of fenceCases) {
    test(`a sound fence passes: ${fenceCase.name}`, () => runFenceCase(fenceCase, subjectOf(PlainFence)));
  }

  for (const { does, foundBy, fence } of fenceMutants) {
    test(`finds a fence that ${does} (${foundBy})`, async () => {
      await expect(runFenceCase(caseOf(foundBy), subjectOf(fence))).rejects.toThrow();
    });
  }

  test('has a seeded error for every case', () => {
    const found = new Set(fenceMutants.map(({ foundBy }) => foundBy));
    expect(fenceCases.map(({ name }) => name).filter((name) => !found.has(name))).toEqual([]);
  });
});
