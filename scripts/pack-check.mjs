// Are the packages, as they would be published, what their package.json says? They must be built.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import { command } from './lib/foreground.mjs';
import { pnpm, prepare, root } from './lib/prepare.mjs';
import { step } from './lib/steps.mjs';
import { guardedFolder } from './services/guard.mjs';
import { thisMachine } from './services/machine.mjs';

await command(async () => {
  await prepare(step);
  const folder = guardedFolder('packages');
  /** @param {string} name @param {readonly string[]} args */
  const tool = async (name, ...args) => {
    const { ok, output, errors } = await thisMachine.run(join(root, 'node_modules/.bin', name), args, { cwd: root });
    if (!ok) throw new Error(`${name} ${args.join(' ')}:\n${output}${errors}`);
  };
  for (const name of readdirSync(join(root, 'packages'))) {
    const packed = join(folder, name);
    await step(`packing ${name}`, async () => {
      const { code, output } = await pnpm(['pack', '--pack-destination', packed], join(root, 'packages', name));
      if (code !== 0) throw new Error(output);
    });
    const [tarball] = readdirSync(packed);
    if (tarball === undefined) throw new Error(`${name}: nothing was packed`);
    await step(`contents of ${tarball}`, async () => {
      const { ok, output, errors } = await thisMachine.run('tar', ['-tzf', join(packed, tarball)]);
      if (!ok) throw new Error(errors);
      const files = new Set(output.trim().split('\n'));
      const stale = [...files].filter((file) => {
        const [, source] = /^package\/dist\/(.*?)(\.d\.ts|\.js)(\.map)?$/.exec(file) ?? [];
        return source !== undefined && !files.has(`package/src/${source}.ts`);
      });
      if (stale.length > 0) throw new Error(`nothing makes these any more; remove ${name}/dist:\n${stale.join('\n')}`);
    });
    await step(`publint ${tarball}`, () => tool('publint', 'run', join(packed, tarball), '--strict'));
    await step(`attw ${tarball}`, () => tool('attw', join(packed, tarball), '--profile', 'esm-only', '--no-emoji'));
  }
  return 0;
});
