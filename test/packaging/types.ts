import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { typesOf } from '../bullmq-matrix/versions.mjs';
import { newestNode } from './nodes.ts';
import { run } from './pack.ts';

/** From the oldest TypeScript that we promise to the newest, each an alias in the package.json beside this file. */
export const typescripts = ['5.4', '5.7', '5.9', '6.0', '7.0'] as const;

/** How a project finds its packages, and the modules that go with it. */
const modules = { nodenext: 'nodenext', bundler: 'esnext' } as const;

/**
 * Checks these files of a project, and our declarations that they use, as strictly as the compiler can; with another BullMQ
 * than the one that the project has, if its version is given. Gives the paths of all that was checked; throws with what the
 * compiler says.
 */
export async function checkTypes(
  version: (typeof typescripts)[number],
  resolution: keyof typeof modules,
  project: string,
  files: readonly string[],
  bullmq?: string,
): Promise<readonly string[]> {
  const config = join(project, `tsconfig.${version}.${resolution}.${bullmq ?? 'installed'}.json`);
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    noEmit: true,
    target: 'es2022',
    lib: ['es2023'],
    types: ['node'],
    module: modules[resolution],
    moduleResolution: resolution,
    ...(bullmq !== undefined && { paths: { bullmq: [typesOf(bullmq)] } }),
  };
  writeFileSync(config, JSON.stringify({ compilerOptions, files }));
  const compiler = fileURLToPath(new URL(`node_modules/typescript-${version}`, import.meta.url));
  const checker = fileURLToPath(new URL('fixtures/check-types.mjs', import.meta.url));
  // 7.0 cannot be called from JavaScript, and is fast enough to check the declarations of everybody.
  const isNative = Number(version) >= 7;
  const args = isNative ? [join(compiler, 'bin/tsc'), '--listFiles', '-p', config] : [checker, compiler, config];
  return (await run(newestNode(), args, project)).split('\n');
}
