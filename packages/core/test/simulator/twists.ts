import { Chance } from '../../src/testing/fence/chance.ts';
import { FAULT_KINDS, type FaultPlan } from './fault-plan.ts';
import type { Plan } from './plan.ts';
import { PLACES } from './points.ts';
import { busy, eager, frequent, patient, type ProcessPlan } from './ways.ts';

/**
 * What chance alone too rarely makes of a plan. Drawn apart from the rest, so that a plan without a twist is what it would
 * be if there were none.
 */
export function twisted(plan: Plan): Plan {
  const chance = new Chance(Math.imul(plan.seed + 1, APART)).branch();
  const twist = TWISTS[chance.below(ONE_IN * TWISTS.length)];
  // Nobody dies on purpose in a plan with a twist, and what is to be left behind would be kept.
  const isFit = twist !== undefined && !plan.resources.includes('abandoned');
  return ambushing(isFit ? twist(plan, chance) : plan, chance);
}

/** So that twists have nothing to do with what the seed draws otherwise, and spare the runs that tests keep for what they once showed. */
const APART = 0x85ebca97;

/** Of so many plans one has a twist. */
const ONE_IN = 5;
const TWISTS: readonly ((plan: Plan, chance: Chance) => Plan)[] = [
  ...[withSides, lonelyDeath, cutOff, behind, forgetful],
  ...[twoKinds, twoKinds, twoKinds, twoKinds, twoKinds, twoKinds],
];

/** Half of those that are stopped are stopped at a place where it hurts, and half of those that are killed. */
function ambushing(plan: Plan, chance: Chance): Plan {
  const faults = plan.faults.map((fault): FaultPlan => {
    if (chance.below(2) === 0) return fault;
    if (fault.kind === 'pause') return { ...fault, place: chance.of(PLACES), choice: fault.choice % 4 };
    // Whom the operator is to release must be dead by then.
    if (fault.kind === 'kill' && fault.resource !== 'abandoned') return { ...fault, place: 'in a release' };
    return fault;
  });
  return { ...plan, faults };
}

/** All hold leases beside, which are extended together, in several calls. */
function withSides(plan: Plan, chance: Chance): Plan {
  const processes = plan.processes.map((process) => ({ ...process, sides: 2 + chance.below(2) }));
  const pauses = plan.processes.map((process, index): FaultPlan => {
    const fault = { ...faultOn(process, 'pause'), id: `t${index}`, place: PLACES[0], choice: chance.below(8) };
    return { ...fault, atMs: chance.below(plan.calmMs), forMs: 5 + chance.below(plan.ttlMs / 2) };
  });
  return { ...plan, processes, faults: [...plan.faults, ...pauses], batch: 1 + chance.below(2) };
}

/** An owner is killed, and nothing else happens to anybody while others wait for what it had. */
function lonelyDeath(plan: Plan, chance: Chance): Plan {
  const { ttlMs, calmMs } = plan;
  const [owner, ...others] = plan.processes as [ProcessPlan, ...ProcessPlan[]];
  const atMs = ttlMs / 2 + chance.below(ttlMs);
  return {
    ...plan,
    resources: ['r0'],
    processes: [busy(owner, 'r0', ttlMs), ...others.map((process) => patient(process, 'r0', ttlMs))],
    faults: [{ ...faultOn(owner, 'kill'), atMs, forMs: calmMs }],
  };
}

/** One that asks again and again is without a connection for a while, more than once. */
function cutOff(plan: Plan, chance: Chance): Plan {
  const { ttlMs } = plan;
  const [first, ...others] = plan.processes as [ProcessPlan, ...ProcessPlan[]];
  // Choices of a reset that breaks at once, and is repaired after a fourth of its time.
  const resets = [0, 1].map((index) => {
    const fault = { ...faultOn(first, 'reset'), id: `t${index}`, choice: 33 };
    return { ...fault, atMs: chance.below(ttlMs), forMs: ttlMs + chance.below(ttlMs) };
  });
  return { ...plan, processes: [eager(first, 'r0', ttlMs), ...later(others, 2 * ttlMs)], faults: resets };
}

/** The store loses its data and its clock is set back, so that its next tokens are below what fences have admitted. */
function behind(plan: Plan, chance: Chance): Plan {
  const { ttlMs, calmMs } = plan;
  const [first] = plan.processes as [ProcessPlan];
  const atMs = calmMs - 1 - chance.below(ttlMs);
  // Choices of all data, and of ten times so far back.
  return {
    ...plan,
    faults: [
      { ...faultOn(first, 'store-clock'), id: 't0', choice: 1, atMs, forMs: 2 * ttlMs },
      { ...faultOn(first, 'data-loss'), id: 't1', choice: 0, atMs, forMs: 0 },
    ],
  };
}

/** The answers to one that comes back at once are lost now and then, so that it does not know what became of its releases. */
function forgetful(plan: Plan, chance: Chance): Plan {
  const { ttlMs, calmMs } = plan;
  const [first, ...others] = plan.processes as [ProcessPlan, ...ProcessPlan[]];
  const cuts = Array.from({ length: 6 }, (_, index): FaultPlan => {
    // A choice of what is lost on the way back only.
    const fault = { ...faultOn(first, 'partition'), id: `t${index}`, choice: 4 };
    return { ...fault, atMs: chance.below(calmMs), forMs: 0.4 * ttlMs + chance.below(0.4 * ttlMs) };
  });
  return { ...plan, processes: [frequent(first, 'r0', ttlMs), ...later(others, calmMs / 2)], faults: cuts };
}

/** Two kinds of faults in turn, whichever, for one that writes all the time. */
function twoKinds(plan: Plan, chance: Chance): Plan {
  const { ttlMs, calmMs } = plan;
  const [first, ...others] = plan.processes as [ProcessPlan, ...ProcessPlan[]];
  const kinds = [chance.of(FAULT_KINDS), chance.of(FAULT_KINDS)] as const;
  const faults = Array.from({ length: 6 }, (_, index): FaultPlan => {
    const fault = { ...faultOn(first, kinds[index % 2 === 0 ? 0 : 1]), id: `t${index}`, choice: chance.below(60) };
    return { ...fault, atMs: chance.below(calmMs), forMs: ttlMs / 4 + chance.below(2 * ttlMs) };
  });
  return { ...plan, processes: [busy(first, 'r0', ttlMs), ...others], faults };
}

function later(processes: readonly ProcessPlan[], byMs: number): readonly ProcessPlan[] {
  return processes.map((process) => ({ ...process, startMs: process.startMs + byMs }));
}

function faultOn({ id }: ProcessPlan, kind: FaultPlan['kind']): FaultPlan {
  return { id: 't0', kind, target: id, resource: 'r0', choice: 0, atMs: 0, forMs: 0 };
}
