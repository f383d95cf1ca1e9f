import { fenceRules, type FenceRules } from './fence-rules.ts';
import { FenceSpace } from './fence-steps.ts';
import { processOf, type FenceBounds, type FenceProperty } from './fence-world.ts';
import { search, type Found } from './search.ts';

/** The rule, or the rule with one part replaced or left out, and what that breaks in how many steps. */
export interface FenceVariant {
  readonly does: string;
  /** Whether the store may lose its data, and with it the tokens that it has given. */
  readonly loses: boolean;
  readonly rules: FenceRules;
  readonly breaks: Readonly<Partial<Record<FenceProperty, number>>>;
}

export const fenceVariants: readonly FenceVariant[] = [
  {
    does: 'tokens grow, and grants are not activated before they read',
    loses: false,
    rules: { ...fenceRules, activates: false },
    breaks: { 'no-lost-update': 6 },
  },
  { does: 'tokens grow, and grants are activated', loses: false, rules: fenceRules, breaks: {} },
  {
    does: 'tokens grow, and the fence checks in one step and writes in another',
    loses: false,
    rules: { ...fenceRules, isAtomic: false },
    breaks: { 'no-lost-update': 10, 'unbroken-runs': 7 },
  },
  {
    does: 'tokens repeat, and only they are compared',
    loses: true,
    rules: { ...fenceRules, identity: () => 'all' },
    breaks: { 'no-lost-update': 9, 'unbroken-runs': 7 },
  },
  {
    does: 'tokens repeat, and are compared together with the process',
    loses: true,
    rules: { ...fenceRules, identity: (agent) => `process ${processOf(agent)}` },
    breaks: { 'no-lost-update': 9, 'unbroken-runs': 7 },
  },
  { does: 'tokens repeat, and the rule is whole', loses: true, rules: fenceRules, breaks: {} },
  {
    does: 'tokens repeat, and grants are not activated before they read',
    loses: true,
    rules: { ...fenceRules, activates: false },
    breaks: { 'no-lost-update': 6 },
  },
];

export const allFenceProperties: readonly FenceProperty[] = ['no-lost-update', 'unbroken-runs'];

/** Looks for the shortest way to break one of `properties`. */
export function exploreFence(
  { rules, loses }: FenceVariant,
  bounds: FenceBounds,
  properties: readonly FenceProperty[] = allFenceProperties,
): Found<FenceProperty> {
  const space = new FenceSpace(rules, { ...bounds, losses: loses ? bounds.losses : 0 }, properties);
  return search(space, 10_000_000);
}
