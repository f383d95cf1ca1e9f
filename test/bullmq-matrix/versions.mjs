// The versions of BullMQ that the adapter is tested with beside the one that everybody has here.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** @param {string} path */
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** @type {{ devDependencies: Record<string, string> }} */
const { devDependencies } = JSON.parse(readFileSync(here('package.json'), 'utf8'));

/** Oldest first. */
export const others = Object.keys(devDependencies).flatMap((name) => name.match(/^bullmq-(.+)$/)?.[1] ?? []);

/** Files of tests about what BullMQ 5 does not have. */
const needsSix = ['test/e2e/bullmq-backends.test.ts', 'test/e2e/bullmq-worker-scope-postgres.test.ts'];

/** What the declarations of this version are read from. @param {string} version */
export const typesOf = (version) => here(`node_modules/bullmq-${version}/dist/esm/index.d.ts`);

/**
 * For a project of vitest: gives all that it runs this version for `bullmq`; no version is the one that is installed.
 *
 * @param {string | undefined} version
 */
export function bullmqOf(version) {
  if (version === undefined) return { alias: [], env: {}, exclude: [] };
  if (!others.includes(version)) throw new Error(`LEASEHOLD_BULLMQ is ${version}: must be one of ${others.join(', ')}`);
  const replacement = here(`node_modules/bullmq-${version}/dist/cjs/index.js`);
  return {
    alias: [{ find: /^bullmq$/, replacement }],
    exclude: version.startsWith('5.') ? needsSix : [],
    // And all processes that it starts; tsx reads it.
    env: { LEASEHOLD_BULLMQ: version, TSX_TSCONFIG_PATH: here(`tsx.${version}.json`) },
  };
}
