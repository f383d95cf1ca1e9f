import type { FenceBounds } from './fence-world.ts';
import type { Bounds } from './world.ts';

/** The least that each variable may say. */
const WORLD = {
  MODEL_PROCESSES: 1,
  MODEL_LEASE_IDS: 1,
  MODEL_CRASHES: 0,
  MODEL_TRIES: 0,
  MODEL_HANDS_OVER: 0,
  MODEL_FORCES: 0,
  MODEL_DROPS: 0,
  MODEL_GHOSTS: 0,
  MODEL_WRITES: 0,
  MODEL_DIAGNOSES: 0,
  MODEL_REVOKES: 0,
  MODEL_TTL: 1,
  MODEL_REFRESH: 1,
  MODEL_STATES: 1,
  MODEL_PROBE_EVERY: 1,
} as const;

const FENCE = {
  MODEL_AGENTS: 1,
  MODEL_ACQUISITIONS: 1,
  MODEL_TOKENS: 1,
  MODEL_VERSIONS: 1,
  MODEL_LOSSES: 0,
} as const;

type Env = Readonly<Record<string, string | undefined>>;

/** Throws in words if a variable is unknown, or one of them is wrong, whether it is asked for or not. */
export function checkEnv(env: Env): void {
  const known: Readonly<Record<string, number>> = { ...WORLD, ...FENCE };
  for (const name of Object.keys(env).filter((each) => each.startsWith('MODEL_'))) {
    const least = known[name];
    if (least === undefined)
      throw new Error(`${name}: there is no such bound; there are ${Object.keys(known).join(', ')}`);
    numberOf(env, name, least, 0);
  }
}

function numberOf(env: Env, name: string, least: number, byDefault: number): number {
  const value = env[name] ?? '';
  if (value === '') return byDefault;
  if (/^\d+$/.test(value) && Number.isSafeInteger(Number(value)) && Number(value) >= least) return Number(value);
  throw new Error(`${name} is ${value}: it must be a whole number from ${least}`);
}

/** The variables say what is other than by default. */
export function boundsFromEnv(env: Env, byDefault: Bounds): Bounds {
  const of = (name: keyof typeof WORLD, its: number | boolean): number => numberOf(env, name, WORLD[name], Number(its));
  return {
    processes: of('MODEL_PROCESSES', byDefault.processes),
    leaseIds: of('MODEL_LEASE_IDS', byDefault.leaseIds),
    crashes: of('MODEL_CRASHES', byDefault.crashes),
    tries: of('MODEL_TRIES', byDefault.tries) > 0,
    handsOver: of('MODEL_HANDS_OVER', byDefault.handsOver) > 0,
    forces: of('MODEL_FORCES', byDefault.forces) > 0,
    drops: of('MODEL_DROPS', byDefault.drops) > 0,
    ghosts: of('MODEL_GHOSTS', byDefault.ghosts),
    writes: of('MODEL_WRITES', byDefault.writes),
    diagnoses: of('MODEL_DIAGNOSES', byDefault.diagnoses),
    revokes: of('MODEL_REVOKES', byDefault.revokes),
    ttl: of('MODEL_TTL', byDefault.ttl),
    refresh: of('MODEL_REFRESH', byDefault.refresh),
    states: of('MODEL_STATES', byDefault.states),
    probeEvery: of('MODEL_PROBE_EVERY', byDefault.probeEvery),
  };
}

export function fenceBoundsFromEnv(env: Env): FenceBounds {
  const of = (name: keyof typeof FENCE, byDefault: number): number => numberOf(env, name, FENCE[name], byDefault);
  return {
    agents: of('MODEL_AGENTS', 3),
    acquisitions: of('MODEL_ACQUISITIONS', 3),
    tokens: of('MODEL_TOKENS', 5),
    versions: of('MODEL_VERSIONS', 4),
    losses: of('MODEL_LOSSES', 2),
  };
}
