// npm run model: the model check of the store's decisions. Bounds by environment, as packages/core/test/model/main.ts has them.
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';

await command(async (stopping) => {
  await prepare(step);
  return runNode(['--max-old-space-size=12288', ...sourceArgs(), join(root, 'packages/core/test/model/main.ts')], {
    cwd: root,
    env: process.env,
    stopping,
  });
});
