// npm run bench [-- names … --quick --keep]: each benchmark on private services, one after the other, as ratios to a floor. A full
// run renews docs/performance.md and what is beside it; `--page` only writes that again, from what was kept.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { services } from './services/binaries.mjs';
import { ensure } from './services/obtain.mjs';

await command(async (stopping) => {
  await prepare(step);
  const args = process.argv.slice(2);
  const main = join(root, 'test/bench/main.ts');
  // Before anything is built: it ends this process if they are wrong.
  const { tsImport } = await import('tsx/esm/api');
  /** @type {typeof import('../test/bench/arguments.ts')} */
  const { readArguments } = await tsImport('../test/bench/arguments.ts', import.meta.url);
  const { isKept, page } = readArguments(args);
  const run = (/** @type {readonly string[]} */ program, /** @type {NodeJS.ProcessEnv} */ more = {}) =>
    runNode(program, { cwd: root, env: { ...process.env, ...more }, stopping });
  if (page) return run([...sourceArgs(), main, ...args]);
  // What users run is measured; see `sourceArgs`.
  process.env['LEASEHOLD_BUILT'] = '1';
  const built = await run([join(root, 'node_modules/typescript/bin/tsc'), '-b']);
  if (built !== 0) return built;
  const { redis, postgres } = await ensure(['redis', 'postgres'], { step });
  const code = await run([...sourceArgs(), main, ...args], {
    [services.redis.variable]: redis,
    [services.postgres.variable]: postgres,
  });
  if (code !== 0 || stopping.aborted || !isKept) return code;
  const kept = readdirSync(join(root, 'docs/performance')).filter((file) => file.endsWith('.json'));
  return run([join(root, 'node_modules/oxfmt/bin/oxfmt'), ...kept.map((file) => `docs/performance/${file}`)]);
});
