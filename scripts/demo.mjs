// npm run demo [-- arguments of the demo]
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { ensure } from './services/obtain.mjs';
import { startRedis } from './services/redis.mjs';

await command(async (stopping) => {
  await prepare(step, ['leasehold-monorepo', 'leasehold-examples...']);
  const { redis } = await ensure(['redis'], { step });
  if (redis === undefined) throw new Error('no redis-server');
  let url = '';
  await step('starting a private redis-server', async () => {
    ({ url } = await startRedis({ binary: redis }));
    return url;
  });
  const program = join(root, 'examples/demo/main.ts');
  return runNode([...sourceArgs(), program, ...process.argv.slice(2)], {
    cwd: root,
    env: { ...process.env, LEASEHOLD_REDIS_URL: url },
    stopping,
  });
});
