// What every command needs first: the right Node, and the dependencies of the lockfile.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { spawnGuarded } from '../services/guard.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

/** @param {string} [version] */
export function nodeProblem(version = process.versions.node) {
  const least = manifest.engines.node.replace('>=', '');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor = 0, leastMinor = 0] = least.split('.').map(Number);
  const enough = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  return enough ? null : `Node ${least} or newer is needed; this is ${version}.`;
}

/**
 * With `only` no more than what these workspace packages need: the tests bring compilers and other versions of Node, for
 * which a newcomer's first minute is too short.
 *
 * @param {typeof import('./steps.mjs').step} step
 * @param {readonly string[]} [only]
 */
export async function prepare(step, only = []) {
  const problem = nodeProblem();
  if (problem !== null) throw new Error(problem);
  if (isInstalled([]) || isInstalled(only)) return;
  await step(`installing dependencies (${manifest.packageManager})`, () => install(only));
}

const stampFile = join(root, 'node_modules/.leasehold-installed');

/** @param {readonly string[]} only */
function isInstalled(only) {
  return existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp(only);
}

/** Changes when an install could give another result. @param {readonly string[]} only */
function stamp(only) {
  const hash = createHash('sha256').update(`${process.version} ${process.platform} ${process.arch}`);
  const manifests = readdirSync(join(root, 'packages')).map((name) => `packages/${name}/package.json`);
  const files = [
    'package.json',
    'pnpm-workspace.yaml',
    'pnpm-lock.yaml',
    'examples/package.json',
    'test/package.json',
    'test/bullmq-matrix/package.json',
    'test/nest/package.json',
    'test/packaging/package.json',
    'test/recipes/package.json',
  ];
  for (const file of [...files, ...manifests.sort()]) {
    const path = join(root, file);
    if (existsSync(path)) hash.update(file).update(readFileSync(path));
  }
  return hash.update(only.join(' ')).digest('hex');
}

/** @param {readonly string[]} only */
async function install(only) {
  const filters = only.map((name) => `--filter=${name}`);
  const args = [
    'install',
    '--frozen-lockfile',
    '--reporter=append-only',
    '--config.confirm-modules-purge=false',
    ...filters,
  ];
  const { code, output } = await pnpm(args);
  if (code !== 0) throw new Error(`pnpm ${args.join(' ')} failed:\n${output.trim().split('\n').slice(-25).join('\n')}`);
  writeFileSync(stampFile, stamp(only));
}

/** The pinned pnpm, by npx: nobody has to have it. @param {readonly string[]} args @param {string} [cwd] */
export async function pnpm(args, cwd = root) {
  const child = spawnGuarded('npx', ['-y', manifest.packageManager, ...args], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environmentWithoutNpm(),
    group: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (bytes) => (output += bytes));
  const [code] = /** @type {[number | null]} */ (await once(child, 'close'));
  return { code: code ?? 1, output };
}

/** `npm run` puts its own settings in the environment, where pnpm would take them for its own. */
function environmentWithoutNpm() {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^npm_(config_(?!registry|userconfig|cache|.*proxy|cafile)|package_|lifecycle_)/i.test(name),
    ),
  );
}

/**
 * Arguments of node that run a program in TypeScript from the sources, with nothing built. With LEASEHOLD_BUILT in the
 * environment the packages are those that were built, as users have them: what translates the sources on the fly gives each
 * function its name when it is made, and that is a third of the client's work.
 */
export function sourceArgs() {
  const packages = process.env['LEASEHOLD_BUILT'] === '1' ? [] : ['--conditions=@leasehold/source'];
  return [...packages, '--import', import.meta.resolve('tsx')];
}
