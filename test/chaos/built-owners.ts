import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

import { guardedFolder } from '../../scripts/services/guard.mjs';

const WORKLOADS = ['core', 'cron', 'bullmq'] as const;
const CONDITIONS = ['@leasehold/source', 'node', 'import', 'module', 'default'];

let built: Promise<string> | undefined;

/**
 * The programs of the owners as plain JavaScript, by workload: killed ones come back in a fifth of the CPU time that their
 * sources need to start.
 */
export async function builtOwner(workload: (typeof WORKLOADS)[number]): Promise<string> {
  built ??= buildOwners();
  return join(await built, `${workload}.mjs`);
}

async function buildOwners(): Promise<string> {
  const dir = guardedFolder('owners');
  const out = join(dir, 'built');
  const conditions = { conditions: CONDITIONS };
  await build({
    configFile: false,
    root: fileURLToPath(new URL('.', import.meta.url)),
    logLevel: 'error',
    resolve: conditions,
    // Ours is compiled from the sources; what is not ours stays where it is installed.
    ssr: { noExternal: [/^@leasehold/], resolve: conditions },
    build: {
      ssr: true,
      target: 'node20',
      outDir: out,
      minify: false,
      rollupOptions: {
        input: Object.fromEntries(WORKLOADS.map((name) => [name, ownerSource(name)])),
        output: { entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' },
      },
    },
  });
  symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(dir, 'node_modules'));
  return out;
}

function ownerSource(workload: string): string {
  return fileURLToPath(new URL(`owners/${workload}.ts`, import.meta.url));
}
