import type { Hands } from './hands.ts';
import type { Scene, State } from './scene.ts';

/** Something that has gone wrong, and what is right to do about it. */
export interface Incident {
  /** For who examines; an operator is not shown it. */
  readonly name: string;
  /** What is right to do. An operator is not shown it either. */
  readonly right: string;
  stage(scene: Scene): Promise<Staged>;
}

/** An incident that has happened. */
export interface Staged {
  readonly resource: string;
  /** What an operator is told. */
  readonly told: string;
  /** How an operator's `leasehold` reaches the store. */
  readonly flags: readonly string[];
  /** Whether what was done about it was right, as far as it shows. Writes of the old owner may be tried. */
  judge(): Promise<readonly Point[]>;
}

/** One thing that had to be so. */
export interface Point {
  readonly rule: string;
  readonly isKept: boolean;
}

export function point(rule: string, isKept: boolean): Point {
  return { rule, isKept };
}

export function isRight(points: readonly Point[]): boolean {
  return points.every(({ isKept }) => isKept);
}

/** What holds for every incident: nobody wrote to the record past Leasehold. */
export async function handsOff(hands: Hands): Promise<Point> {
  const writes = await hands.seen();
  const what = writes.length === 0 ? '' : ` (${writes.join('; ')})`;
  return point(`the keys of the lease were not touched by hand${what}`, writes.length === 0);
}

export function notForced({ log }: State): Point {
  return point('nothing was released by force', !log.some(({ event }) => event === 'forced'));
}

/** The owner was let alone: neither shut out nor asked to end. */
export function leftAlone({ log }: State): readonly Point[] {
  const events = new Set(log.map(({ event }) => event));
  return [
    point('nothing was released by force', !events.has('forced')),
    point('the run was not asked to end', !events.has('revoked')),
    point('no fence was sealed', !events.has('sealed')),
  ];
}
