// npm run model [-- lease fence whole]: the model checks of the store's decisions, of the fence's rule, and of both together
// with operators. Bounds by environment, as packages/core/test/model/bounds-from-env.ts has them.
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';

await command(async (stopping) => {
  await prepare(step);
  // Three times what the bounds of the fence need, for bounds that are wider: a limit, of which nothing is taken before it is needed.
  const main = join(root, 'packages/core/test/model/main.ts');
  return runNode(['--max-old-space-size=12288', ...sourceArgs(), main, ...process.argv.slice(2)], {
    cwd: root,
    env: process.env,
    stopping,
  });
});
