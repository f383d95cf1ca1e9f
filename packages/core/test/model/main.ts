/**
 * The model check as a command: `MODEL_PROCESSES=3 MODEL_CRASHES=1 … tsx main.ts [store|fence]`. Exits with 1 if a property
 * fails, or a seeded error is not found. The bounds below are exhausted in minutes, with about a gigabyte of memory.
 */

import { bugs, findBug } from './bugs.ts';
import { explore } from './explore.ts';
import { allFenceProperties, exploreFence, fenceVariants } from './fence-variants.ts';
import type { FenceBounds, FenceProperty } from './fence-world.ts';
import { describeBounds, describeFenceBounds, describeFinding, describeFound } from './report.ts';
import { productionRules } from './rules.ts';
import type { Bounds } from './world.ts';

function fromEnv(name: string, byDefault: number): number {
  const value = process.env[`MODEL_${name}`] ?? '';
  if (value === '') return byDefault;
  if (!/^\d+$/.test(value)) throw new Error(`MODEL_${name} is ${value}, not a whole number`);
  return Number(value);
}

const bounds: Bounds = {
  processes: fromEnv('PROCESSES', 2),
  leaseIds: fromEnv('LEASE_IDS', 3),
  crashes: fromEnv('CRASHES', 1),
  tries: fromEnv('TRIES', 1) > 0,
  handsOver: fromEnv('HANDS_OVER', 1) > 0,
  forces: fromEnv('FORCES', 1) > 0,
  ghosts: fromEnv('GHOSTS', 1),
  ttl: fromEnv('TTL', 2),
  refresh: fromEnv('REFRESH', 1),
  states: fromEnv('STATES', 2_000_000),
  probeEvery: fromEnv('PROBE_EVERY', 5),
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
      const found = exploreFence(variant, fenceBounds, properties);
      console.log(`${variant.does}\n${describeFound(found)}\n`);
      isRight &&= broken.length === 0 ? found.complete : found.violation !== null;
    }
  }
  return isRight;
}

/** Whether all is as it should be. */
function checkStore(): boolean {
  let isRight = true;
  for (const bug of bugs) {
    const finding = findBug(bug);
    console.log(`seeded: ${bug.does}\n${describeFinding(finding)}\n`);
    isRight &&= finding.violation !== null;
  }
  const finding = explore(productionRules, bounds);
  console.log(`production, ${describeBounds(bounds)}\n${describeFinding(finding)}`);
  return isRight && finding.violation === null;
}

const parts = { fence: checkFence, store: checkStore };
const [asked] = process.argv.slice(2);
const wanted = Object.entries(parts).filter(([name]) => asked === undefined || asked === name);
if (wanted.length === 0) throw new Error(`there is no model of ${asked}; there are ${Object.keys(parts).join(', ')}`);
let failed = false;
for (const [, check] of wanted) failed = !check() || failed;
process.exitCode = failed ? 1 : 0;
