import { Chance } from '../../src/testing/fence/chance.ts';
import type { FenceRow, GrantRow, HistoryLine } from '../../src/testing/history/history.ts';
import type { FaultKind } from './fault-plan.ts';
import type { Point } from './points.ts';

/** Something that events belong to: while it is busy they wait, and when it is gone they are dropped. */
export interface Actor {
  readonly chance: Chance;
  /** Nothing happens to it before. */
  readonly busyUntilUs: number;
  readonly isAlive: boolean;
}

/** Something that will happen, unless it is cancelled. */
export class Event {
  atUs: number;
  readonly order: number;
  readonly actor: Actor | undefined;
  /** Null once it is cancelled. */
  fire: (() => void) | null;

  constructor(atUs: number, order: number, actor: Actor | undefined, fire: () => void) {
    this.atUs = atUs;
    this.order = order;
    this.actor = actor;
    this.fire = fire;
  }

  cancel(): void {
    this.fire = null;
  }
}

/** Lets everything run that waits for no time. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * The time of a simulation, and what happens in it: one event after the other, each followed by all that promises make of
 * it. No two events are at work at the same time, so a run depends on its plan alone.
 */
export class World {
  readonly lines: HistoryLine[] = [];
  readonly fences: FenceRow[] = [];
  readonly grants: GrantRow[] = [];
  /** What went wrong that is no matter of leases: calls that never settled, errors that are not ours. */
  readonly problems: string[] = [];
  /** How often each of these moments was met. */
  readonly points = new Map<Point, number>();
  /** The kinds of faults that had an effect. */
  readonly struck = new Set<FaultKind>();
  nowUs = 1_000_000;
  /** Events so far: two runs of a seed have the same number. */
  events = 0;
  readonly chance: Chance;
  readonly #queue: Event[] = [];
  #order = 0;
  #current: Actor | undefined;

  constructor(seed: number) {
    this.chance = new Chance(seed);
  }

  get nowMs(): number {
    return this.nowUs / 1000;
  }

  /** Stands in for `Math.random`: each actor draws numbers of its own, so that the others do not depend on it. */
  random(): number {
    return (this.#current?.chance ?? this.chance).below(2 ** 30) / 2 ** 30;
  }

  at(atUs: number, actor: Actor | undefined, fire: () => void): Event {
    const event = new Event(Math.max(Math.ceil(atUs), this.nowUs), ++this.#order, actor, fire);
    this.#push(event);
    return event;
  }

  reach(point: Point): void {
    this.points.set(point, (this.points.get(point) ?? 0) + 1);
  }

  row(row: Omit<FenceRow, 'order' | 'atMs'>): void {
    this.fences.push({ order: this.fences.length, atMs: this.nowMs, ...row });
  }

  grant(row: Omit<GrantRow, 'order' | 'atMs'>): void {
    this.grants.push({ order: this.grants.length, atMs: this.nowMs, ...row });
  }

  /** Until `untilUs`, or until `isOver` says so. */
  async run(untilUs: number, isOver: () => boolean): Promise<void> {
    await settle();
    while (!isOver()) {
      const event = this.#pop();
      if (event === undefined || event.atUs > untilUs) return;
      const { actor, fire } = event;
      if (fire === null || (actor !== undefined && !actor.isAlive)) continue;
      if (actor !== undefined && actor.busyUntilUs > event.atUs) {
        event.atUs = actor.busyUntilUs;
        this.#push(event);
        continue;
      }
      this.nowUs = event.atUs;
      this.events++;
      this.#current = actor;
      fire();
      await settle();
      this.#current = undefined;
    }
  }

  #push(event: Event): void {
    const queue = this.#queue;
    let index = queue.length;
    queue.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = queue[parent] as Event;
      if (isBefore(above, event)) break;
      queue[index] = above;
      index = parent;
    }
    queue[index] = event;
  }

  #pop(): Event | undefined {
    const queue = this.#queue;
    const first = queue[0];
    const last = queue.pop();
    if (first === undefined || last === undefined || queue.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= queue.length) break;
      if (child + 1 < queue.length && isBefore(queue[child + 1] as Event, queue[child] as Event)) child++;
      if (isBefore(last, queue[child] as Event)) break;
      queue[index] = queue[child] as Event;
      index = child;
    }
    queue[index] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atUs < b.atUs || (a.atUs === b.atUs && a.order < b.order);
}
