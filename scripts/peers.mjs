// npm run peers [-- --peer NAME --proof NAME --repeat N --parallel N --lease MS]: other lock libraries and ours through the
// same six failures, judged by one ledger. Without --peer and --proof it writes docs/comparison.md and docs/comparison.json.
import { join } from 'node:path';

import { command, runNode } from './lib/foreground.mjs';
import { prepare, root, sourceArgs } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { services } from './services/binaries.mjs';
import { ensure } from './services/obtain.mjs';

await command(async (stopping) => {
  await prepare(step);
  const { redis, faketime } = await ensure(['redis', 'faketime'], { step, optional: ['faketime'] });
  const code = await runNode([...sourceArgs(), join(root, 'test/peers/main.ts'), ...process.argv.slice(2)], {
    cwd: root,
    env: {
      ...process.env,
      [services.redis.variable]: redis,
      ...(faketime && { [services.faketime.variable]: faketime }),
    },
    stopping,
  });
  const isPart = process.argv.some((argument) => /^(--(peer|proof|help)\b|-h$)/.test(argument));
  if (code !== 0 || stopping.aborted || isPart) return code;
  return runNode([join(root, 'node_modules/oxfmt/bin/oxfmt'), 'docs/comparison.json'], {
    cwd: root,
    env: process.env,
    stopping,
  });
});
