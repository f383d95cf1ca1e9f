// npm run simulate -- [--seeds N] [--minutes M] [--from SEED] [--workers N] | --seed SEED [--without PARTS]: managers, store and fence in one
// process, under faults that a seed decides; every run is judged by the rules of `@leasehold/core/testing/history`.
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';

await command(async (stopping) => {
  await prepare(step);
  const main = join(root, 'packages/core/test/simulator/main.ts');
  return runNode([...sourceArgs(), main, ...process.argv.slice(2)], { cwd: root, env: process.env, stopping });
});
