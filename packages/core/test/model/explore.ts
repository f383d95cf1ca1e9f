import { Probe } from './probe.ts';
import { properties, type PropertyName } from './properties.ts';
import type { Rules } from './rules.ts';
import { Steps } from './steps.ts';
import { beginning, encode, type Bounds, type World } from './world.ts';

export interface Finding {
  readonly states: number;
  readonly transitions: number;
  readonly probes: number;
  /** Steps from the beginning to the farthest state. */
  readonly depth: number;
  /** Whether every state within the bounds was visited. */
  readonly complete: boolean;
  readonly seconds: number;
  /** The first property that fails, and a shortest way there. */
  readonly violation: { readonly property: PropertyName; readonly trace: readonly string[] } | null;
}

export const allProperties: readonly PropertyName[] = [
  'one-trusting-owner',
  'trust-inside-lease',
  'held-is-kept',
  'turn-is-kept',
  'spent-stays-spent',
  'tokens-grow',
  'served',
];

/** Visits every state within the bounds, breadth first, so that what it finds it finds by a shortest way. */
export function explore(rules: Rules, bounds: Bounds, names: readonly PropertyName[] = allProperties): Finding {
  const steps = new Steps(rules, bounds);
  const probe = new Probe(rules, bounds);
  const checked = names.filter((name) => name !== 'served');
  const probing = names.includes('served');
  const startedMs = performance.now();
  const seen = new Set<string>();
  // By the number of the state: where it came from, and by what.
  const parents: number[] = [];
  const labels: string[] = [];
  let transitions = 0;
  let probes = 0;
  let depth = 0;

  const add = (world: World, parent: number, label: string, layer: Layer): void => {
    const code = encode(world);
    if (seen.has(code)) return;
    seen.add(code);
    layer.push({ world, number: parents.length });
    parents.push(parent);
    labels.push(label);
  };
  const traceTo = (number: number, last?: string): readonly string[] => {
    const trace = last === undefined ? [] : [last];
    for (let each = number; each > 0; each = parents[each] ?? 0) trace.unshift(labels[each] ?? '');
    return trace;
  };
  const finding = (complete: boolean, violation: Finding['violation']): Finding => {
    const seconds = (performance.now() - startedMs) / 1000;
    return { states: seen.size, transitions, probes, depth, complete, seconds, violation };
  };

  let layer: Layer = [];
  add(beginning(bounds), 0, '', layer);
  for (; layer.length > 0; depth++) {
    const next: Layer = [];
    for (const { world, number } of layer) {
      if (probing && number % bounds.probeEvery === 0) {
        probes++;
        if (!probe.holds(world)) return finding(false, { property: 'served', trace: traceTo(number) });
      }
      for (const [label, after] of steps.all(world)) {
        transitions++;
        const broken = checked.find((name) => !properties[name](world, after));
        if (broken !== undefined) return finding(false, { property: broken, trace: traceTo(number, label) });
        add(after, number, label, next);
      }
      if (seen.size >= bounds.states) return finding(false, null);
    }
    layer = next;
  }
  return finding(true, null);
}

type Layer = { readonly world: World; readonly number: number }[];
