import { Chance } from '../../src/testing/fence/chance.ts';
import type { History, HistoryLine } from '../../src/testing/history/history.ts';
import { settingsOf } from '../../src/testing/history/options.ts';
import { View, type Tenancy } from '../../src/testing/history/view.ts';
import type { FaultPlan } from './fault-plan.ts';
import type { Plan } from './plan.ts';
import type { Point } from './points.ts';
import { returning, type ProcessPlan } from './ways.ts';

/**
 * Of some plans the managers keep leases for the next run, and one process or two come back again and again. Drawn apart
 * from all the rest, so that the others are what they would be without it.
 */
export function lingering(plan: Plan): Plan {
  const chance = new Chance(Math.imul(plan.seed + 1, APART)).branch();
  if (chance.below(ONE_IN) !== 0) return plan;
  const { ttlMs, calmMs, processes, faults } = plan;
  const lingerMs = ttlMs / chance.of([20, 8, 4]);
  const [first, second, ...others] = processes as readonly [ProcessPlan, ProcessPlan, ...ProcessPlan[]];
  const came = chance.below(3);
  const killed: FaultPlan = {
    ...{ id: 'l0', kind: 'kill', target: came === 0 ? second.id : first.id, resource: 'r0', choice: 0 },
    ...{ atMs: chance.below(calmMs), forMs: ttlMs },
  };
  return {
    ...plan,
    lingerMs,
    faults: chance.below(2) === 0 ? [...faults, killed] : faults,
    processes: [
      came === 0 ? first : returning(first, 'r0', ttlMs),
      came === 1 ? second : returning(second, 'r0', ttlMs),
      ...others,
    ],
  };
}

/** So that it has nothing to do with what the seed draws otherwise, and spares the runs that tests keep for what they once showed. */
const APART = 0x165667b1;

/** Of so many plans one lingers. */
const ONE_IN = 5;

/** What became of leases that lingered, each as often as it happened. */
export function pointsOfLingering(history: History, lingerMs: number | undefined): readonly Point[] {
  if (lingerMs === undefined) return [];
  const view = new View(history, settingsOf({}));
  return view.leases.flatMap(({ leaseId }) => {
    const holders = view.holdersOf(leaseId);
    const next = holders.slice(1).map((): Point => 'a lease that lingered went to the next run');
    const end = endOf(view, holders, lingerMs);
    return end === undefined ? next : [...next, end];
  });
}

function endOf(view: View, holders: readonly Tenancy[], lingerMs: number): Point | undefined {
  const [first, last] = [holders[0], holders.at(-1)];
  if (first === undefined || last?.terminal?.act !== 'released') return undefined;
  const kept = last.terminal;
  const release = last.lines.find(({ act, phase }) => act === 'release' && phase === 'invoke');
  if (release === undefined) {
    return view.died(last.process)?.outcome === 'killed' ? 'killed while a lease lingered' : undefined;
  }
  const isLost = ({ act, phase, outcome }: HistoryLine): boolean =>
    act === 'release' &&
    phase === 'fail' &&
    (outcome === 'expired' || outcome === 'missing' || outcome === 'superseded');
  if (last.lines.some(isLost)) return 'a lease was lost while it lingered';
  const heard = view
    .linesOf(last.leaseId)
    .some(({ act, atMs }) => act === 'wanted' && atMs >= kept.atMs && atMs <= release.atMs);
  if (heard) return 'a lease that lingered was given back because it was wanted';
  const since = first.terminal?.atMs ?? kept.atMs;
  return release.atMs - since >= lingerMs * 0.99 ? 'a lease that lingered was given back by its time' : undefined;
}
