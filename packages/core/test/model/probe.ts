import type { Rules } from './rules.ts';
import { Steps } from './steps.ts';
import { at, type Bounds, type World } from './world.ts';

/** LeaseIds beyond the bounds: whoever is told to begin anew may do so. */
const FRESH = 100;
/** Rounds in which everybody who waits must have been served. */
const ROUNDS = 60;

/**
 * The rest of a run in which nothing goes wrong any more, and no message arrives: processes act when it is their time,
 * requests and replies arrive at once, withdrawals too. Whoever waits must become the owner, and be admitted by the fence.
 */
export class Probe {
  readonly #steps: Steps;
  readonly #bounds: Bounds;

  constructor(rules: Rules, bounds: Bounds) {
    this.#steps = new Steps(rules, bounds);
    this.#bounds = bounds;
  }

  /** Whether all who wait are served, whatever becomes of the requests that were given up: none arrives, or all do. */
  holds(world: World): boolean {
    const waiting = world.processes.flatMap(({ phase, mode }, index) =>
      phase === 'asking' && mode === 'wait' ? [index] : [],
    );
    return waiting.length === 0 || (this.#serves(world, waiting, false) && this.#serves(world, waiting, true));
  }

  #serves(start: World, waiting: readonly number[], ghostsArrive: boolean): boolean {
    const packets = ghostsArrive ? start.packets : start.packets.filter(({ kind }) => !isGhost(kind));
    const operations = ghostsArrive ? (start.guarded?.operations ?? []) : [];
    const guarded = start.guarded && { ...start.guarded, operations };
    const unserved = new Set(waiting);
    let world: World = { ...start, packets, guarded, fresh: FRESH };
    for (let round = 0; round < ROUNDS; round++) {
      world = this.#deliver(world);
      for (let index = 0; index < world.processes.length; index++) world = this.#act(world, index, unserved, round);
      if (unserved.size === 0) return true;
      world = this.#steps.pass(world);
    }
    return false;
  }

  #deliver(world: World): World {
    let next = world;
    while (next.packets.length > 0) next = this.#steps.late(next, 0) ?? next;
    while (next.guarded !== null && next.guarded.operations.length > 0)
      next = this.#steps.access.arrive(next, 0) ?? next;
    return next;
  }

  #act(world: World, index: number, unserved: Set<number>, round: number): World {
    const steps = this.#steps;
    // Whoever has the lease has had it for long enough.
    const over = steps.finish(world, index);
    let next = this.#hear(over === null ? world : this.#deliver(over), index, unserved);
    if (!unserved.has(index)) return next;
    // Only its own timer tells it to ask; those of two processes need not agree.
    if ((round + index) % this.#bounds.refresh !== 0) return next;
    next = steps.ask(next, index) ?? steps.begin(next, index, 'wait') ?? next;
    return this.#hear(next, index, unserved);
  }

  #hear(world: World, index: number, unserved: Set<number>): World {
    let next = this.#steps.arrive(world, index) ?? world;
    next = this.#steps.receive(next, index) ?? next;
    next = this.#deliver(this.#steps.access.activate(next, index) ?? next);
    const { phase, access } = at(next, index);
    if (phase === 'holding' && access !== 'refused') unserved.delete(index);
    return next;
  }
}

function isGhost(kind: string): boolean {
  return kind === 'acquire' || kind === 'extend' || kind === 'go' || kind === 'revoke';
}
