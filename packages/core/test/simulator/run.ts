import { Keeper } from '../../src/lease/keeper.ts';
import { checkHistory, type HistoryVerdict } from '../../src/testing/history/check.ts';
import type { History } from '../../src/testing/history/history.ts';
import { Actor, startMs, type Scene } from './actors.ts';
import { NO_BUG, type Bug } from './bug.ts';
import { Faults } from './faults.ts';
import { pointsOfLingering } from './lingering.ts';
import type { FaultKind } from './fault-plan.ts';
import { MOST_PPM, planOf, type Plan } from './plan.ts';
import type { Point } from './points.ts';
import { FenceServer } from './remote-fence.ts';
import { replacing } from './replacing.ts';
import { StoreServer } from './server.ts';
import type { ProcessPlan } from './ways.ts';
import type { Witness } from './witness.ts';
import { World } from './world.ts';

export interface Run {
  readonly plan: Plan;
  readonly history: History;
  readonly verdict: HistoryVerdict;
  /** What is wrong besides the rules: a call that never settled, an error that nobody expects. */
  readonly problems: readonly string[];
  readonly events: number;
  readonly points: ReadonlyMap<Point, number>;
  /** The kinds of faults that had an effect. */
  readonly struck: ReadonlySet<FaultKind>;
}

/** Somebody at a console. */
function person(id: string, seed: number): ProcessPlan {
  return { id, seed, startMs: 0, driftPpm: 0, wallMs: 0, quarantine: false, sides: 0, steps: [] };
}

/** A plan, from its beginning to the end of all its processes. The same plan gives the same history. */
export async function simulate(plan: Plan, bug: Bug = NO_BUG, witness?: Witness): Promise<Run> {
  const world = new World(plan.seed);
  const store = new StoreServer(world, 1 + plan.storeDriftPpm / 1_000_000);
  const resource = new FenceServer(world, store.clock, bug.fence);
  const actors: Actor[] = [];
  const lives = new Map<string, number>();
  const scene: Scene = {
    ...{ world, plan, bug, store, resource, witness },
    handOn(from, ticket, step) {
      const others = actors.filter(({ process, isDone }) => process.isAlive && !isDone && process !== from.process);
      const to = others[from.process.chance.below(Math.max(1, others.length))];
      if (to === undefined) return;
      const atUs = from.process.nowUs + 1000 + from.process.chance.below(50_000);
      world.at(atUs, to.process, () => void to.adopt(ticket, step));
      // Now and then somebody else has a copy of it.
      const other = others.find((each) => each !== to);
      if (other !== undefined && step.thinkMs % 3 === 0) {
        world.at(atUs + step.holdMs * 100, other.process, () => void other.adopt(ticket, step));
      }
    },
  };
  function begin(planned: ProcessPlan, from: number): void {
    const life = (lives.get(planned.id) ?? 0) + 1;
    lives.set(planned.id, life);
    const actor = new Actor(scene, planned, life, from);
    actors.push(actor);
    world.at(world.nowUs, actor.process, () => void actor.live());
  }
  function restart(id: string): void {
    const last = actors.findLast((actor) => actor.plan.id === id);
    if (last !== undefined) begin(last.plan, last.at + 1);
  }

  // Whoever fails in the background fails the run.
  const unhandled = (error: unknown): void => {
    world.problems.push(`nobody handles ${String(error)}\n${(error as Partial<Error> | undefined)?.stack ?? ''}`);
  };
  process.on('unhandledRejection', unhandled);
  const { random } = Math;
  const repair = bug.engine?.();
  const restore = plan.batch === undefined ? undefined : replacing(Keeper, 'batch', plan.batch)();
  // What the engine draws must come from the seed.
  Math.random = () => world.random();
  try {
    const operator = new Actor(scene, person('op', 17), 1, 0);
    const watcher = new Actor(scene, person('eye', 23), 1, 0);
    const faults = new Faults({
      scene,
      operator,
      watcher,
      restart,
      calmMs: startMs + plan.calmMs,
      alive: (id) => actors.findLast((actor) => actor.plan.id === id && actor.process.isAlive && !actor.isDone),
      actors: () => actors,
    });
    for (const planned of plan.processes) {
      world.at((startMs + planned.startMs) * 1000, undefined, () => begin(planned, 0));
    }
    for (const fault of plan.faults) world.at((startMs + fault.atMs) * 1000, undefined, () => faults.strike(fault));
    const lastMs = startMs + plan.calmMs;
    const isOver = (): boolean =>
      world.nowMs > lastMs && plan.processes.every(({ id }) => lives.has(id)) && actors.every(({ isDone }) => isDone);
    await world.run((lastMs + 60 * plan.ttlMs) * 1000, isOver);
    faults.end();
    for (const { isDone, process } of actors) {
      if (!isDone) world.problems.push(`${process.name} had not come to its end by ${world.nowMs} ms`);
    }
  } finally {
    Math.random = random;
    process.off('unhandledRejection', unhandled);
    restore?.();
    repair?.();
  }
  const history: History = { lines: world.lines, fences: world.fences, grants: world.grants, endMs: world.nowMs };
  const verdict = checkHistory(history, {
    clockDrift: (plan.mostPpm ?? MOST_PPM) / 1_000_000,
    sleepGrainMs: 10,
    lateMs: 6,
    pollMs: plan.ttlMs,
    fenceTimeoutMs: 1000,
    healedMs: plan.faults.length === 0 ? undefined : 0,
    validity: 'faults',
    firstVersion: 0,
    lingerMs: plan.lingerMs,
  });
  for (const point of pointsOfLingering(history, plan.lingerMs)) world.reach(point);
  const { problems, events, points, struck } = world;
  return { plan, history, verdict, problems, events, points, struck };
}

export function simulateSeed(seed: number, bug?: Bug): Promise<Run> {
  return simulate(planOf(seed), bug);
}
