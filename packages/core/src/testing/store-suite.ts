import { describe, test } from 'vitest';

import { attemptCases } from './store/attempts.ts';
import { StoreContext, type StoreCase, type StoreHook, type StoreSubject } from './store/context.ts';
import { handoverCases } from './store/handover.ts';
import { messageCases } from './store/messages.ts';
import { ownerWordCases } from './store/owner-words.ts';
import { ownershipCases } from './store/ownership.ts';
import { recordCases } from './store/records.ts';
import { retentionCases } from './store/retention.ts';
import { forceReleaseCases } from './store/force-release.ts';
import { revocationCases } from './store/revocation.ts';
import { spareCases } from './store/spare.ts';
import { tickCases } from './store/ticks.ts';
import { tokenCases } from './store/tokens.ts';
import { triggerCases } from './store/triggers.ts';
import { troubleCases } from './store/trouble.ts';
import { waitingCases } from './store/waiting.ts';
import { withdrawalCases } from './store/withdrawal.ts';

/** The contract of `LeaseStore`, case by case. */
export const storeCases: readonly StoreCase[] = [
  ...ownershipCases,
  ...ownerWordCases,
  ...withdrawalCases,
  ...handoverCases,
  ...revocationCases,
  ...forceReleaseCases,
  ...tokenCases,
  ...spareCases,
  ...tickCases,
  ...attemptCases,
  ...triggerCases,
  ...retentionCases,
  ...waitingCases,
  ...messageCases,
  ...recordCases,
  ...troubleCases,
];

/** Runs one case on a subject of its own. */
export async function runStoreCase(
  storeCase: StoreCase,
  create: () => StoreSubject | Promise<StoreSubject>,
): Promise<void> {
  const subject = await create();
  try {
    await storeCase.run(new StoreContext(subject));
  } finally {
    await subject.close();
  }
}

/**
 * Registers the contract as tests of `name`: every case whose needs are among `hooks`, which `create` then provides.
 * Returns the names of the cases it registered and of those it left out, so that a test can say which these must be.
 */
export function describeLeaseStore(
  name: string,
  create: () => StoreSubject | Promise<StoreSubject>,
  hooks: readonly StoreHook[] = [],
): { readonly registered: readonly string[]; readonly leftOut: readonly string[] } {
  const able = storeCases.filter(({ needs }) => needs.every((hook) => hooks.includes(hook)));
  describe(`${name} as a lease store`, () => {
    for (const storeCase of able) test(storeCase.name, () => runStoreCase(storeCase, create));
  });
  const registered = able.map((storeCase) => storeCase.name);
  const leftOut = storeCases.map((storeCase) => storeCase.name).filter((each) => !registered.includes(each));
  return { registered, leftOut };
}
