import { encode } from './encode.ts';
import { Probe } from './probe.ts';
import { properties, type PropertyName } from './properties.ts';
import type { Rules } from './rules.ts';
import { search, type Found } from './search.ts';
import { Steps } from './steps.ts';
import { beginning, type Bounds, type World } from './world.ts';

export interface Finding extends Found<PropertyName> {
  readonly probes: number;
}

export const allProperties: readonly PropertyName[] = [
  'one-trusting-owner',
  'trust-inside-lease',
  'held-is-kept',
  'turn-is-kept',
  'turns-in-order',
  'spent-stays-spent',
  'tokens-grow',
  'ends-its-own',
  'revoked-ends',
  'lost-stays-lost',
  'fence-order',
  'one-grant-a-token',
  'unbroken-runs',
  'no-lost-update',
  'forced-is-shut-out',
  'served',
];

/** Visits every state within the bounds. */
export function explore(rules: Rules, bounds: Bounds, names: readonly PropertyName[] = allProperties): Finding {
  const steps = new Steps(rules, bounds);
  const probe = new Probe(rules, bounds);
  const checked = names.filter((name) => name !== 'served');
  const probing = names.includes('served');
  let probes = 0;
  const found = search<World, PropertyName>(
    {
      start: beginning(bounds),
      next: (world) => steps.all(world),
      encode: (world) => encode(world, rules.areCompared),
      brokenBy: (before, after) => checked.find((name) => !properties[name](before, after)),
      brokenIn(world, number) {
        if (!probing || number % bounds.probeEvery !== 0) return undefined;
        probes++;
        return probe.holds(world) ? undefined : 'served';
      },
    },
    bounds.states,
  );
  return { ...found, probes };
}
