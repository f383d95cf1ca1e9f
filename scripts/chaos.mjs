// npm run chaos [-- --minutes M --seed S --only NAMES --workload NAMES --pairs --parallel N --seconds S --list --report FILE]:
// real processes, a real Redis and a real PostgreSQL under every fault; every run is judged by the rules of
// `@leasehold/core/testing/history`.
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { services } from './services/binaries.mjs';
import { ensure } from './services/obtain.mjs';

await command(async (stopping) => {
  await prepare(step);
  const { redis, postgres, faketime } = await ensure(['redis', 'postgres', 'faketime'], {
    step,
    optional: ['faketime'],
  });
  return runNode([...sourceArgs(), join(root, 'test/chaos/main.ts'), ...process.argv.slice(2)], {
    cwd: root,
    env: {
      ...process.env,
      [services.redis.variable]: redis,
      [services.postgres.variable]: postgres,
      ...(faketime && { [services.faketime.variable]: faketime }),
    },
    stopping,
  });
});
