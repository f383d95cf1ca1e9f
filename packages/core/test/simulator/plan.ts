import { Chance } from '../../src/testing/fence/chance.ts';
import type { FaultKind, FaultPlan } from './fault-plan.ts';
import { lingering } from './lingering.ts';
import { twisted } from './twists.ts';
import { busy, eager, PLAINLY, type ProcessPlan, type Step } from './ways.ts';

/** All that decides a run. */
export interface Plan {
  readonly seed: number;
  readonly ttlMs: number;
  readonly storeDriftPpm: number;
  readonly processes: readonly ProcessPlan[];
  readonly faults: readonly FaultPlan[];
  readonly resources: readonly string[];
  /** From here on nothing is done to anybody. */
  readonly calmMs: number;
  /** How far clocks are apart at most, if it is not what the managers allow for. Parts per million. */
  readonly mostPpm?: number | undefined;
  /** At most so many leases are extended with one call, if not as many as in production. */
  readonly batch?: number | undefined;
  /** For how long the leases of all managers linger, if they do. */
  readonly lingerMs?: number | undefined;
}

/** What may happen together in one run: not everything at once, or the rules that some faults waive are never asked for. */
const HARMLESS: readonly FaultKind[] = ['revoke', 'diagnose'];
const PLAIN: readonly FaultKind[] = [
  'pause',
  'pause',
  'sleep',
  'kill',
  'wall-step',
  'wall-step',
  'partition',
  'partition',
  'fence-partition',
  'reset',
  'noise',
  'slow',
  'fence-noise',
  'store-stall',
];
const GRAVE: readonly FaultKind[] = ['freeze', 'data-loss', 'restart', 'store-clock', 'unsafe-force', 'force'];

/** What is known to be hard for a process that works in such a way: faults that strike it one after the other. */
const RECIPES: readonly { readonly way: typeof busy; readonly kinds: readonly FaultKind[] }[] = [
  { way: busy, kinds: ['slow', 'partition'] },
  { way: busy, kinds: ['wall-step', 'partition'] },
  { way: busy, kinds: ['wall-step', 'wall-step', 'partition'] },
  { way: busy, kinds: ['pause', 'partition'] },
  { way: busy, kinds: ['sleep', 'partition'] },
  { way: busy, kinds: ['noise', 'reset'] },
  { way: busy, kinds: ['reset', 'kill'] },
  { way: eager, kinds: ['reset', 'reset'] },
  { way: eager, kinds: ['noise', 'noise'] },
];

/** Clocks differ by less than the managers' drift rate, 1 %, together. */
export const MOST_PPM = 4000;

export function planOf(seed: number): Plan {
  return lingering(twisted(plainPlanOf(seed)));
}

function plainPlanOf(seed: number): Plan {
  // Neighbours among seeds must not be neighbours in what they do.
  const chance = new Chance(Math.imul(seed + 1, 0x9e3779b1)).branch();
  const ttlMs = chance.of([600, 1000, 1000, 2000]);
  const resources = chance.below(4) === 0 ? ['r0', 'r1'] : ['r0'];
  const calmMs = ttlMs * (3 + chance.below(3));
  const names = ['a', 'b', 'c', 'd'].slice(0, 2 + chance.below(3));
  const processes: ProcessPlan[] = names.map((id) => processOf(chance.branch(), id, { ttlMs, resources, calmMs }));
  const kinds = kindsOf(chance);
  const count = kinds.length === 0 ? 0 : 2 + chance.below(6);
  const faults: FaultPlan[] = [];
  for (let index = 0; index < count; index++) {
    const fault = faultOf(chance.branch(), `f${index}`, { kinds, names, ttlMs, resources, calmMs });
    const before = faults.at(-1);
    // Often two that strike the same process, one soon after the other.
    const isTwin = before !== undefined && chance.below(2) === 0;
    faults.push(isTwin ? { ...fault, target: before.target, atMs: before.atMs + chance.below(ttlMs / 2) } : fault);
  }
  if (chance.below(4) === 0) {
    const target = chance.below(processes.length);
    const { way, kinds } = chance.of(RECIPES);
    processes[target] = way(processes[target] as ProcessPlan, resources[0] as string, ttlMs);
    faults.push(...inRow(chance, { kinds, names: names.slice(target, target + 1), ttlMs, resources, calmMs }));
  }
  const storeDriftPpm = chance.below(2 * MOST_PPM) - MOST_PPM;
  if (kinds.includes('force'))
    return withAbandoned({ seed, ttlMs, storeDriftPpm, processes, faults, resources, calmMs });
  return { seed, ttlMs, storeDriftPpm, processes, faults, resources, calmMs };
}

/** The kinds of a run: a few of them, so that each meets each other alone. */
function kindsOf(chance: Chance): readonly FaultKind[] {
  const sort = chance.below(20);
  if (sort === 0) return [];
  const grave = sort < 8 ? [chance.of(GRAVE), chance.of(GRAVE)] : [];
  const plain = Array.from({ length: 1 + chance.below(4) }, () => chance.of(PLAIN));
  return [...plain, ...grave, ...(chance.below(2) === 0 ? HARMLESS : [])];
}

interface Frame {
  readonly ttlMs: number;
  readonly resources: readonly string[];
  readonly calmMs: number;
}

function processOf(chance: Chance, id: string, { ttlMs, resources, calmMs }: Frame): ProcessPlan {
  const seed = chance.below(2 ** 31);
  const steps = Array.from({ length: 2 + chance.below(4) }, (_, index): Step => {
    const isChatty = chance.below(5) === 0;
    return {
      id: `${id}.${index}`,
      kind: chance.of(['run', 'run', 'tick', 'tick', 'acquire', 'try', 'hand-over']),
      resource: chance.of(resources),
      afterMs: chance.below(ttlMs / 2),
      waitMs: chance.below(3) === 0 ? 0 : chance.below(calmMs),
      writes: isChatty ? 20 : 1 + chance.below(4),
      thinkMs: isChatty ? 1 : chance.below(chance.below(4) === 0 ? ttlMs : ttlMs / 10),
      holdMs: isChatty ? chance.below(ttlMs / 10) : chance.below(chance.below(3) === 0 ? 2 * ttlMs : ttlMs / 5),
      commitMs: !isChatty && chance.below(4) === 0 ? chance.below(2 * ttlMs) : 0,
      isStubborn: chance.below(3) === 0,
      isDelegated: chance.below(3) === 0,
      giveUpMs: chance.below(6) === 0 ? 1 + chance.below(ttlMs) : 0,
      maxHoldMs: chance.below(8) === 0 ? 1 + chance.below(ttlMs) : 0,
    };
  });
  return {
    id,
    seed,
    steps,
    startMs: chance.below(300),
    driftPpm: chance.below(2 * MOST_PPM) - MOST_PPM,
    wallMs: chance.below(3) === 0 ? chance.below(600_000) - 300_000 : 0,
    quarantine: chance.below(6) === 0,
    sides: 0,
  };
}

function faultOf(chance: Chance, id: string, frame: Struck): FaultPlan {
  const { kinds, names, ttlMs, resources, calmMs } = frame;
  return {
    id,
    kind: chance.of(kinds),
    target: chance.of(names),
    resource: chance.of(resources),
    atMs: chance.below(calmMs),
    forMs: chance.below(3) === 0 ? 5 + chance.below(ttlMs / 2) : ttlMs / 2 + chance.below(2 * ttlMs),
    choice: chance.below(60),
  };
}

/** With a resource that nobody else wants, whose owner dies and leaves it behind: only such a lease may be released by force. */
function withAbandoned(plan: Plan): Plan {
  const { ttlMs, seed } = plan;
  const at = { kind: 'run', afterMs: 0, waitMs: 0, writes: 1, thinkMs: 0, commitMs: 0 } as const;
  const step: Step = { ...at, ...PLAINLY, id: 'z.0', resource: 'abandoned', holdMs: 10 * ttlMs };
  const owner = {
    id: 'z',
    seed: seed + 1,
    startMs: 0,
    driftPpm: 0,
    wallMs: 0,
    quarantine: false,
    sides: 0,
    steps: [step],
  };
  const fault = { target: 'z', resource: 'abandoned', choice: 0 };
  // The operator watches it for a ttl and a margin of a second, and the lease must have run out for as long.
  const calmMs = plan.calmMs + 2 * ttlMs + 3000;
  return {
    ...plan,
    calmMs,
    processes: [...plan.processes, owner],
    resources: [...plan.resources, 'abandoned'],
    faults: [
      ...plan.faults,
      { ...fault, id: 'fz', kind: 'kill', atMs: ttlMs / 2, forMs: calmMs },
      { ...fault, id: 'fy', kind: 'force', atMs: 2 * ttlMs, forMs: 0 },
    ],
  };
}

type Struck = Frame & { readonly kinds: readonly FaultKind[]; readonly names: readonly string[] };

function inRow(chance: Chance, frame: Struck): FaultPlan[] {
  let atMs = chance.below(frame.ttlMs);
  return frame.kinds.map((kind, index) => {
    const fault = faultOf(chance.branch(), `g${index}`, { ...frame, kinds: [kind] });
    const forMs = frame.ttlMs + chance.below(frame.ttlMs);
    const struck = { ...fault, atMs, forMs };
    atMs += chance.below(frame.ttlMs / 2);
    return struck;
  });
}

/** A plan without some of its parts: processes (`b`), steps (`b.1`) and faults (`f0`). */
export function without(plan: Plan, parts: ReadonlySet<string>): Plan {
  const isKept = ({ id }: { readonly id: string }): boolean => !parts.has(id);
  return {
    ...plan,
    processes: plan.processes.filter(isKept).map((process) => ({ ...process, steps: process.steps.filter(isKept) })),
    faults: plan.faults.filter(isKept),
  };
}

/** Every part that can be left out, the largest first. */
export function partsOf(plan: Plan): readonly string[] {
  return [
    ...plan.processes.map(({ id }) => id),
    ...plan.faults.map(({ id }) => id),
    ...plan.processes.flatMap(({ steps }) => steps.map(({ id }) => id)),
  ];
}
