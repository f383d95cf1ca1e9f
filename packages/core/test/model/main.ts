/**
 * The model check as a command: `MODEL_PROCESSES=3 MODEL_CRASHES=1 … tsx main.ts [lease|fence|whole]`. Exits with 1 if a property
 * fails, or a seeded error is not found. The bounds below are exhausted in minutes, with one to two gigabytes of memory.
 */

import { bugs, findBug } from './bugs.ts';
import { explore, type Finding } from './explore.ts';
import { allFenceProperties, exploreFence, fenceVariants } from './fence-variants.ts';
import type { FenceBounds, FenceProperty } from './fence-world.ts';
import { describeBounds, describeFenceBounds, describeFinding, describeFound } from './report.ts';
import { productionRules } from './rules.ts';
import { findWholeBug, wholeBugs } from './whole-bugs.ts';
import type { Bounds } from './world.ts';

function fromEnv(name: string, byDefault: number): number {
  const value = process.env[`MODEL_${name}`] ?? '';
  if (value === '') return byDefault;
  if (!/^\d+$/.test(value)) throw new Error(`MODEL_${name} is ${value}, not a whole number`);
  return Number(value);
}

/** The variables say what is other than by default. */
function boundsFromEnv(byDefault: Bounds): Bounds {
  return {
    processes: fromEnv('PROCESSES', byDefault.processes),
    leaseIds: fromEnv('LEASE_IDS', byDefault.leaseIds),
    crashes: fromEnv('CRASHES', byDefault.crashes),
    tries: fromEnv('TRIES', Number(byDefault.tries)) > 0,
    handsOver: fromEnv('HANDS_OVER', Number(byDefault.handsOver)) > 0,
    forces: fromEnv('FORCES', Number(byDefault.forces)) > 0,
    drops: fromEnv('DROPS', Number(byDefault.drops)) > 0,
    ghosts: fromEnv('GHOSTS', byDefault.ghosts),
    writes: fromEnv('WRITES', byDefault.writes),
    diagnoses: fromEnv('DIAGNOSES', byDefault.diagnoses),
    revokes: fromEnv('REVOKES', byDefault.revokes),
    ttl: fromEnv('TTL', byDefault.ttl),
    refresh: fromEnv('REFRESH', byDefault.refresh),
    states: fromEnv('STATES', byDefault.states),
    probeEvery: fromEnv('PROBE_EVERY', byDefault.probeEvery),
  };
}

const leaseDefaults: Bounds = {
  ...{ processes: 2, leaseIds: 3, crashes: 1, tries: true, handsOver: true, forces: true, drops: true, ghosts: 1 },
  ...{ writes: 0, diagnoses: 0, revokes: 0, ttl: 2, refresh: 1, states: 2_000_000, probeEvery: 5 },
};

const wholeDefaults: Bounds = {
  ...{ processes: 2, leaseIds: 2, crashes: 1, tries: false, handsOver: false, forces: false, drops: false, ghosts: 0 },
  ...{ writes: 1, diagnoses: 1, revokes: 1, ttl: 2, refresh: 1, states: 4_000_000, probeEvery: 50 },
};

const fenceBounds: FenceBounds = {
  agents: fromEnv('AGENTS', 3),
  acquisitions: fromEnv('ACQUISITIONS', 3),
  tokens: fromEnv('TOKENS', 5),
  versions: fromEnv('VERSIONS', 4),
  losses: fromEnv('LOSSES', 2),
};

/** Whether all is as it should be. */
function checkFence(): boolean {
  console.log(`fence, ${describeFenceBounds(fenceBounds)}\n`);
  let isRight = true;
  for (const variant of fenceVariants) {
    const broken = Object.keys(variant.breaks) as FenceProperty[];
    const searches = broken.length === 0 ? [allFenceProperties] : broken.map((property) => [property]);
    for (const properties of searches) {
      console.log(variant.does);
      const found = exploreFence(variant, fenceBounds, properties);
      console.log(`${describeFound(found)}\n`);
      isRight &&= broken.length === 0 ? found.complete : found.violation !== null;
    }
  }
  return isRight;
}

/** Whether all is as it should be. What is looked at is said before, for it may take minutes. */
function checkWorld<T extends { readonly does: string }>(
  seeded: readonly T[],
  find: (bug: T) => Finding,
  byDefault: Bounds,
): boolean {
  let isRight = true;
  for (const bug of seeded) {
    console.log(`seeded: ${bug.does}`);
    const finding = find(bug);
    console.log(`${describeFinding(finding)}\n`);
    isRight &&= finding.violation !== null;
  }
  const bounds = boundsFromEnv(byDefault);
  console.log(`production, ${describeBounds(bounds)}`);
  const finding = explore(productionRules, bounds);
  console.log(`${describeFinding(finding)}\n`);
  return isRight && finding.violation === null;
}

const checkLease = (): boolean => checkWorld(bugs, findBug, leaseDefaults);
const checkWhole = (): boolean => checkWorld(wholeBugs, findWholeBug, wholeDefaults);

const parts = { fence: checkFence, lease: checkLease, whole: checkWhole };
const [asked] = process.argv.slice(2);
const wanted = Object.entries(parts).filter(([name]) => asked === undefined || asked === name);
if (wanted.length === 0) {
  process.stderr.write(`there is no model of ${asked}; there are ${Object.keys(parts).join(', ')}\n`);
  process.exit(2);
}
let failed = false;
for (const [name, check] of wanted) {
  console.log(`${name}; this model alone: npm run model -- ${name}\n`);
  failed = !check() || failed;
}
process.exitCode = failed ? 1 : 0;
