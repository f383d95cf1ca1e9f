// npm run chaos [-- --minutes M --seed S --only NAMES --workload NAMES --pairs --parallel N --seconds S --list --report FILE
// | --episode SEED …]:
// real processes, a real Redis and a real PostgreSQL under every fault; every run is judged by the rules of
// `@leasehold/core/testing/history`.
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';

await command(async (stopping) => {
  await prepare(step);
  // It gets the services itself, when it knows what is wanted.
  const main = join(root, 'test/chaos/main.ts');
  return runNode([...sourceArgs(), main, ...process.argv.slice(2)], { cwd: root, env: process.env, stopping });
});
