import type { Nemesis, Need, WorkloadName } from './nemesis.ts';
import { nemeses } from './nemeses/index.ts';
import { randomOf } from '../e2e/fixtures/random.ts';

/** What one episode is to be. The same seed gives the same plan; not the same run, for its processes are real. */
export interface Plan {
  readonly seed: number;
  readonly workload: WorkloadName;
  readonly nemeses: readonly Nemesis[];
  readonly ttlMs: number;
  readonly seats: number;
  /** How long faults are brought about. Milliseconds. */
  readonly strikeMs: number;
  /** Of each job of a queue. @default so many that none fails for good */
  readonly attempts?: number;
}

const SEATS = 3;

/** How long faults are brought about, if nobody says. Seconds. */
export const STRIKE_S = 8;

export const WORKLOADS: readonly WorkloadName[] = ['core', 'cron', 'bullmq'];

export interface Wanted {
  readonly seed: number;
  readonly workloads: readonly WorkloadName[];
  /** Names; empty for all. */
  readonly only: readonly string[];
  /** Pairs as well as each alone. */
  readonly pairs: boolean;
  readonly strikeMs: number;
}

/** Nemeses that may strike together. */
function getOn(a: Nemesis, b: Nemesis): boolean {
  return a.name !== b.name && a.notWith?.includes(b.name) !== true && b.notWith?.includes(a.name) !== true;
}

function fits(workload: WorkloadName, cast: readonly Nemesis[]): boolean {
  // Its queue is elsewhere than the cable leads.
  if (workload === 'bullmq' && cast.some(({ needs }) => needs?.includes('networks'))) return false;
  return cast.every((each) => each.workloads?.includes(workload) ?? true);
}

export function nemesesNamed(names: readonly string[]): readonly Nemesis[] {
  for (const name of names) {
    if (!nemeses.some((each) => each.name === name)) {
      throw new Error(
        `--only ${name}: there is no such fault; there are ${nemeses.map((each) => each.name).join(', ')}`,
      );
    }
  }
  return names.length === 0 ? nemeses : nemeses.filter(({ name }) => names.includes(name));
}

/**
 * All episodes of one round: each nemesis with each workload, and with `pairs` each pair with one, in turn, in an order by chance. What
 * a run must have met comes first, so that a short one meets it.
 */
export function roundOf(
  { seed, workloads, only, pairs, strikeMs }: Wanted,
  permits: (need: Need) => boolean,
): readonly Plan[] {
  const random = randomOf(seed);
  const able = nemesesNamed(only).filter(({ needs = [] }) => needs.every(permits));
  const alone = workloads.flatMap((workload) =>
    able.filter((nemesis) => fits(workload, [nemesis])).map((nemesis): Cast => [workload, [nemesis]]),
  );
  const together = able.flatMap((one, index) =>
    able.slice(index + 1).flatMap((other): Cast[] => {
      const possible = workloads.filter((workload) => fits(workload, [one, other]));
      const workload = possible[Math.floor(random() * possible.length)];
      return pairs && workload !== undefined && getOn(one, other) ? [[workload, [one, other]]] : [];
    }),
  );
  return inTurn(firstOf(shuffled(alone, random)), shuffled(together, random)).map(([workload, cast]) => ({
    seed: Math.floor(random() * 2 ** 31),
    workload,
    nemeses: cast,
    ttlMs: 800 + Math.floor(random() * 5) * 150,
    seats: SEATS,
    strikeMs,
  }));
}

/** An episode of which the command line says what it was. */
export function againOf(
  { workloads, only, strikeMs }: Wanted,
  { seed, ttlMs }: { readonly seed: number; readonly ttlMs: number },
): Plan {
  const [workload = 'core'] = workloads;
  return { seed, workload, nemeses: nemesesNamed(only), ttlMs, seats: SEATS, strikeMs };
}

/** What makes the command play this plan again; not the same run, for its processes are real. */
export function argumentsFor({ workload, nemeses: cast, seed, ttlMs, strikeMs }: Plan): string {
  const names = cast.map(({ name }) => name).join(',');
  const seconds = strikeMs === STRIKE_S * 1000 ? '' : ` --seconds ${strikeMs / 1000}`;
  return `--episode ${seed} --ttl ${ttlMs} --workload ${workload} --only ${names}${seconds}`;
}

type Cast = readonly [WorkloadName, readonly Nemesis[]];

/** Bring about what V2 asks for: a write and an acquisition without an answer, and late writes. */
const FIRST: ReadonlySet<string> = new Set(['kill-in-section', 'acquire-reply-lost', 'pause']);

function firstOf(casts: readonly Cast[]): readonly Cast[] {
  const rank = ([workload, [nemesis]]: Cast): number => (workload === 'core' && FIRST.has(nemesis?.name ?? '') ? 0 : 1);
  return [...casts].sort((a, b) => rank(a) - rank(b));
}

function inTurn<T>(one: readonly T[], other: readonly T[]): readonly T[] {
  return Array.from({ length: Math.max(one.length, other.length) }, (_, at) => [
    ...one.slice(at, at + 1),
    ...other.slice(at, at + 1),
  ]).flat();
}

function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  const all = [...items];
  for (let last = all.length - 1; last > 0; last--) {
    const at = Math.floor(random() * (last + 1));
    [all[last], all[at]] = [all[at] as T, all[last] as T];
  }
  return all;
}

export function titleOf({ workload, nemeses: cast, seed, ttlMs }: Plan): string {
  return `${workload}, ${cast.map(({ name }) => name).join(' and ') || 'no fault'} (seed ${seed}, ttl ${ttlMs} ms)`;
}
