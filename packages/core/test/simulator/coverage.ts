import { FAULT_KINDS } from './fault-plan.ts';
import { POINTS, type Point } from './points.ts';
import type { Run } from './run.ts';

/** How often the runs of a suite met what they are for. Plain data, so that processes can tell each other. */
export interface Coverage {
  readonly points: Partial<Record<Point, number>>;
  /** By the name of a kind, or of two: in how many runs it, or both, had an effect. */
  readonly faults: Record<string, number>;
}

export function noCoverage(): Coverage {
  return { points: {}, faults: {} };
}

export function coverageOf({ points, struck }: Pick<Run, 'points' | 'struck'>): Coverage {
  const kinds = FAULT_KINDS.filter((kind) => struck.has(kind));
  const pairs = kinds.flatMap((one, index) => kinds.slice(index + 1).map((other) => pairOf(one, other)));
  return {
    points: Object.fromEntries(points),
    faults: Object.fromEntries([...kinds, ...pairs].map((each) => [each, 1])),
  };
}

export function addCoverage(sum: Coverage, { points, faults }: Coverage): void {
  addAll(sum.points, points);
  addAll(sum.faults, faults);
}

/** What was met too rarely: a point less than `leastPoints` times, a kind of fault or a pair of them in no run. */
export function gapsIn({ points, faults }: Coverage, leastPoints: number): readonly string[] {
  const few = POINTS.filter((point) => (points[point] ?? 0) < leastPoints);
  return [
    ...few.map((point) => `${point}: ${points[point] ?? 0} times, ${leastPoints} at least`),
    ...allFaults()
      .filter((name) => faults[name] === undefined)
      .map((name) => `${name} had no effect in any run`),
  ];
}

/** Each point with its figure, and what was met least of all faults. */
export function describeCoverage({ points, faults }: Coverage): readonly string[] {
  const rarest = allFaults()
    .map((name) => [name, faults[name] ?? 0] as const)
    .toSorted(([, a], [, b]) => a - b)
    .slice(0, RAREST);
  return [
    ...POINTS.map((point) => `${(points[point] ?? 0).toLocaleString('en').padStart(10)}  ${point}`),
    `rarest of ${FAULT_KINDS.length} faults and their pairs, in so many runs: ${rarest.map(([name, runs]) => `${name} ${runs}`).join(', ')}`,
  ];
}

const RAREST = 6;

function allFaults(): readonly string[] {
  const pairs = FAULT_KINDS.flatMap((one, index) => FAULT_KINDS.slice(index + 1).map((other) => pairOf(one, other)));
  return [...FAULT_KINDS, ...pairs];
}

function pairOf(one: string, other: string): string {
  return `${one} with ${other}`;
}

function addAll(sum: Record<string, number>, figures: Readonly<Record<string, number>>): void {
  for (const [name, figure] of Object.entries(figures)) sum[name] = (sum[name] ?? 0) + figure;
}
