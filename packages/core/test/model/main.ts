/**
 * The model check as a command: `MODEL_PROCESSES=3 MODEL_CRASHES=1 … tsx main.ts`. Exits with 1 if a property fails, or a
 * seeded error is not found. The bounds below are exhausted in minutes, with about a gigabyte of memory.
 */

import { bugs, findBug } from './bugs.ts';
import { explore } from './explore.ts';
import { describeBounds, describeFinding } from './report.ts';
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
  ghosts: fromEnv('GHOSTS', 1),
  ttl: fromEnv('TTL', 2),
  refresh: fromEnv('REFRESH', 1),
  states: fromEnv('STATES', 2_000_000),
  probeEvery: fromEnv('PROBE_EVERY', 5),
};

let failed = false;
for (const bug of bugs) {
  const finding = findBug(bug);
  console.log(`seeded: ${bug.does}\n${describeFinding(finding)}\n`);
  failed ||= finding.violation === null;
}
const finding = explore(productionRules, bounds);
console.log(`production, ${describeBounds(bounds)}\n${describeFinding(finding)}`);
failed ||= finding.violation !== null;
process.exitCode = failed ? 1 : 0;
