import { describe, test } from 'vitest';

import { admissionCases } from './fence/admission.ts';
import { atomicityCases } from './fence/atomicity.ts';
import { FenceContext, type FenceCase, type FenceHook, type FenceSubject } from './fence/context.ts';
import { crowdCases } from './fence/crowd.ts';
import { faultCases } from './fence/faults.ts';
import { nameCases } from './fence/names.ts';
import { tokenCases } from './fence/tokens.ts';

/** The contract of `Fence`, case by case. */
export const fenceCases: readonly FenceCase[] = [
  ...admissionCases,
  ...tokenCases,
  ...nameCases,
  ...atomicityCases,
  ...crowdCases,
  ...faultCases,
];

/** Runs one case on a subject of its own. */
export async function runFenceCase<Tx>(
  fenceCase: FenceCase,
  create: () => FenceSubject<Tx> | Promise<FenceSubject<Tx>>,
): Promise<void> {
  const subject = await create();
  try {
    await fenceCase.run(new FenceContext<unknown>(subject));
  } finally {
    await subject.close();
  }
}

/**
 * Registers the contract as tests of `name`: every case whose needs are among `hooks`, which `create` then provides.
 * Returns the names of the cases it registered and of those it left out, so that a test can say which these must be.
 */
export function describeFence<Tx>(
  name: string,
  create: () => FenceSubject<Tx> | Promise<FenceSubject<Tx>>,
  hooks: readonly FenceHook[] = [],
): { readonly registered: readonly string[]; readonly leftOut: readonly string[] } {
  const able = fenceCases.filter(({ needs }) => needs.every((hook) => hooks.includes(hook)));
  describe(`${name} as a fence`, () => {
    for (const fenceCase of able) test(fenceCase.name, () => runFenceCase(fenceCase, create));
  });
  const registered = able.map((fenceCase) => fenceCase.name);
  const leftOut = fenceCases.map((fenceCase) => fenceCase.name).filter((each) => !registered.includes(each));
  return { registered, leftOut };
}
