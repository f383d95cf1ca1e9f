// npm run bench [-- names … --quick --keep]: each benchmark on private services, one after the other, as ratios to a floor. A full
// run renews docs/performance.md and what is beside it; `--page` only writes that again, from what was kept.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { services } from './services/binaries.mjs';
import { ensure } from './services/obtain.mjs';

// What users run is measured; see `sourceArgs`.
process.env['LEASEHOLD_BUILT'] = '1';

await command(async (stopping) => {
  await prepare(step);
  const built = await runNode([join(root, 'node_modules/typescript/bin/tsc'), '-b'], {
    cwd: root,
    env: process.env,
    stopping,
  });
  if (built !== 0) return built;
  const { redis, postgres } = await ensure(['redis', 'postgres'], { step });
  const args = process.argv.slice(2);
  const run = (/** @type {readonly string[]} */ program) =>
    runNode(program, {
      cwd: root,
      env: { ...process.env, [services.redis.variable]: redis, [services.postgres.variable]: postgres },
      stopping,
    });
  const code = await run([...sourceArgs(), join(root, 'test/bench/main.ts'), ...args]);
  if (code !== 0 || stopping.aborted || (args.includes('--quick') && !args.includes('--keep'))) return code;
  const kept = readdirSync(join(root, 'docs/performance')).filter((file) => file.endsWith('.json'));
  return run([join(root, 'node_modules/oxfmt/bin/oxfmt'), ...kept.map((file) => `docs/performance/${file}`)]);
});
