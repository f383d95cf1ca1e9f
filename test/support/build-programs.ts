import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build, type Plugin } from 'vite';

import { root } from '../../scripts/lib/prepare.mjs';
import { guardedFolder } from '../../scripts/services/guard.mjs';
import { bullmqOf } from '../bullmq-matrix/versions.mjs';
import { PROGRAMS, programsFolder } from './programs.ts';

/** Folders of programs that tests start. What they start themselves, and so nobody imports, belongs here as well. */
const FOLDERS = [
  'examples',
  'test/bench/fixtures',
  'test/bullmq-matrix/fixtures',
  'test/chaos/fixtures',
  'test/chaos/owners',
  'test/conditional/fixtures',
  'test/diagnosis/fixtures',
  'test/e2e/fixtures',
  'test/incidents/fixtures',
  'test/postgres/fixtures',
  'test/recipes/fixtures',
  'test/support/fixtures',
];
const FILES = [
  'packages/cli/src/bin.ts',
  'packages/cli/src/drill/owner-main.ts',
  'packages/cli/src/run/isolated/process-main.ts',
  'packages/cli/src/run/isolated/thread-main.ts',
  'test/incidents/stage.ts',
  'test/peers/owner.ts',
];

const CONDITIONS = ['@leasehold/source', 'node', 'import', 'module', 'default'];

/** Compiles the programs unless that was done in this run. */
export async function ensurePrograms(): Promise<void> {
  if (process.env[PROGRAMS] === undefined) await buildPrograms();
}

/**
 * Compiles the present sources of all programs that tests start, once for a run: plain JavaScript starts in a third of the
 * CPU time that its sources need. Each module is a file of its own, at the same place as in the repository, so that
 * `import.meta.url` and the dependencies of each package mean what they mean there.
 */
export async function buildPrograms(): Promise<void> {
  const all = process.env[PROGRAMS] ?? guardedFolder('programs');
  const folder = programsFolder(all);
  const conditions = { conditions: CONDITIONS };
  await build({
    configFile: false,
    root,
    logLevel: 'error',
    plugins: [asInstalled],
    resolve: conditions,
    ssr: { noExternal: true, resolve: conditions },
    build: {
      ssr: true,
      target: 'node20',
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      sourcemap: true,
      rollupOptions: {
        input: Object.fromEntries(sources('.ts').map((file) => [file.replace(/\.ts$/, ''), join(root, file)])),
        output: { preserveModules: true, preserveModulesRoot: root, entryFileNames: '[name].js' },
      },
    },
  });
  const places = ['', 'examples', 'test', ...inside('packages'), ...inside('test')];
  for (const place of places) link(folder, place);
  for (const config of sources('.yaml')) {
    const text = readFileSync(join(root, config), 'utf8').replace(/(handler: '\.\/[^'#]+)\.ts\b/g, '$1.js');
    mkdirSync(join(folder, dirname(config)), { recursive: true });
    writeFileSync(join(folder, config), text);
  }
  process.env[PROGRAMS] = all;
}

const [bullmq] = bullmqOf(process.env['LEASEHOLD_BULLMQ']).alias;

/** Ours is compiled. What is not ours, and our plain JavaScript, stays where it is. */
const asInstalled: Plugin = {
  name: 'as-installed',
  enforce: 'pre',
  async resolveId(name, importer, options) {
    if (importer === undefined) return null;
    if (name === 'bullmq' && bullmq !== undefined) return { id: bullmq.replacement, external: 'absolute' };
    if (!/^(\.|leasehold$|leasehold\/|@leasehold\/)/.test(name)) return { id: name, external: true };
    const found = await this.resolve(name, importer, { ...options, skipSelf: true });
    return found !== null && /\.m?js$/.test(found.id) ? { id: found.id, external: 'absolute' } : found;
  },
};

/** Paths in the repository. */
function sources(ending: '.ts' | '.yaml'): string[] {
  const found = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => !file.includes('node_modules'))
      .map((file) => join(folder, file)),
  );
  return [...found, ...FILES].filter((file) => file.endsWith(ending));
}

function inside(folder: string): string[] {
  return readdirSync(join(root, folder)).map((name) => join(folder, name));
}

/** What is not compiled and lies beside what is. */
function link(folder: string, place: string): void {
  for (const name of ['node_modules', 'package.json']) {
    const [from, to] = [join(root, place, name), join(folder, place, name)];
    if (!existsSync(from) || existsSync(to)) continue;
    mkdirSync(dirname(to), { recursive: true });
    symlinkSync(from, to);
  }
}
