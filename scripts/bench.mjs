// npm run bench [-- name of a benchmark]: each on private services, one after the other, as ratios.
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
  const built = await runNode([join(root, 'node_modules/typescript/bin/tsc'), '-b'], { cwd: root, stopping });
  if (built !== 0) return built;
  const { redis, postgres } = await ensure(['redis', 'postgres'], { step });
  const folder = join(root, 'test/bench');
  const wanted = process.argv[2] ?? '';
  // What lies beside them starts nothing when run.
  const names = readdirSync(folder).filter((name) => name.endsWith('.bench.ts') && name.includes(wanted));
  if (names.length === 0) throw new Error(`no benchmark is called ${wanted}`);
  for (const name of names) {
    const code = await runNode(['--expose-gc', ...sourceArgs(), join(folder, name)], {
      cwd: root,
      env: { ...process.env, [services.redis.variable]: redis, [services.postgres.variable]: postgres },
      stopping,
    });
    if (code !== 0) return code;
  }
  return 0;
});
