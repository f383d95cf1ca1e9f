/**
 * The model check as a command: `MODEL_PROCESSES=3 MODEL_CRASHES=1 … tsx main.ts [lease|fence|whole]`. Exits with 1 if a property
 * fails, or a seeded error is not found. The bounds below are exhausted in minutes, those of the fence with up to four gigabytes of memory.
 */

import { parseArgs } from 'node:util';

import { boundsFromEnv, checkEnv, fenceBoundsFromEnv } from './bounds-from-env.ts';
import { bugs, findBug } from './bugs.ts';
import { explore, type Finding } from './explore.ts';
import { allFenceProperties, exploreFence, fenceVariants } from './fence-variants.ts';
import type { FenceProperty } from './fence-world.ts';
import { describeBounds, describeFenceBounds, describeFinding, describeFound } from './report.ts';
import { productionRules } from './rules.ts';
import { findWholeBug, wholeBugs } from './whole-bugs.ts';
import type { Bounds } from './world.ts';

const leaseDefaults: Bounds = {
  ...{ processes: 2, leaseIds: 3, crashes: 1, tries: true, handsOver: true, forces: true, drops: true, ghosts: 1 },
  ...{ writes: 0, diagnoses: 0, revokes: 0, ttl: 2, refresh: 1, states: 2_000_000, probeEvery: 5 },
};

const wholeDefaults: Bounds = {
  ...{ processes: 2, leaseIds: 2, crashes: 1, tries: false, handsOver: false, forces: false, drops: false, ghosts: 0 },
  ...{ writes: 1, diagnoses: 1, revokes: 1, ttl: 2, refresh: 1, states: 4_000_000, probeEvery: 50 },
};

/** Whether all is as it should be. */
function checkFence(): boolean {
  const fenceBounds = fenceBoundsFromEnv(process.env);
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
  const bounds = boundsFromEnv(process.env, byDefault);
  let isRight = true;
  for (const bug of seeded) {
    console.log(`seeded: ${bug.does}`);
    const finding = find(bug);
    console.log(`${describeFinding(finding)}\n`);
    isRight &&= finding.violation !== null;
  }
  console.log(`production, ${describeBounds(bounds)}`);
  const finding = explore(productionRules, bounds);
  console.log(`${describeFinding(finding)}\n`);
  return isRight && finding.violation === null;
}

const checkLease = (): boolean => checkWorld(bugs, findBug, leaseDefaults);
const checkWhole = (): boolean => checkWorld(wholeBugs, findWholeBug, wholeDefaults);

const parts = { fence: checkFence, lease: checkLease, whole: checkWhole };
const USAGE = `model [${Object.keys(parts).join(' | ')}], bounds by MODEL_… in the environment`;

/** The names of those that are asked for. */
function asked(): readonly string[] {
  const names = Object.keys(parts);
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { help: { type: 'boolean', short: 'h' } },
    });
    if (values.help === true) {
      console.log(USAGE);
      process.exit(0);
    }
    const unknown = positionals.find((name) => !names.includes(name));
    if (unknown !== undefined) throw new Error(`there is no model of ${unknown}; there are ${names.join(', ')}`);
    checkEnv(process.env);
    return positionals.length === 0 ? names : positionals;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}\n`);
    process.exit(2);
  }
}

const wanted = asked();
let failed = false;
for (const [name, check] of Object.entries(parts)) {
  if (!wanted.includes(name)) continue;
  console.log(`${name}; this model alone: npm run model -- ${name}\n`);
  failed = !check() || failed;
}
process.exitCode = failed ? 1 : 0;
