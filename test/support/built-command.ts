import { fileURLToPath } from 'node:url';

import { root } from '../../scripts/lib/prepare.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';

/** `leasehold` as it is installed: plain JavaScript, which starts in a third of the time that its sources need. */
export const builtCommand: string = fileURLToPath(new URL('../../packages/cli/dist/bin.js', import.meta.url));

/**
 * Compiles the command and the packages that it needs. Types that are wrong are for `npm run build` to refuse: the files are
 * written all the same.
 */
export async function buildCommand(): Promise<void> {
  const compiler = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
  const { ok, output, errors } = await thisMachine.run(process.execPath, [compiler, '-b', 'packages/cli'], {
    cwd: root,
  });
  if (!ok) process.stderr.write(`packages/cli was compiled, with errors:\n${output}${errors}`);
}
