/**
 * The suites must be able to fail: stores and fences with one error each, and the case that must find it.
 */

import { describe, expect, test } from 'vitest';

import { fenceCases, runFenceCase } from '../../src/testing/fence-suite.ts';
import { runStoreCase, storeCases } from '../../src/testing/store-suite.ts';
import { fenceMutants, PlainFence, sound } from './fence-mutants.ts';
import { memoryFenceSubject, memoryStoreSubject } from './memory-subject.ts';
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

describe('the fence suite finds a fence that', () => {
  for (const { does, foundBy, rule } of fenceMutants) {
    test(`${does} (${foundBy})`, async () => {
      const fenceCase = fenceCases.find(({ name }) => name === foundBy);
      if (fenceCase === undefined) throw new Error(`no case is called ${foundBy}`);
      if (rule !== sound) await runFenceCase(fenceCase, () => memoryFenceSubject(() => new PlainFence(sound)));
      await expect(runFenceCase(fenceCase, () => memoryFenceSubject(() => new PlainFence(rule)))).rejects.toThrow();
    });
  }
});
