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

/** @param {typeof import('./steps.mjs').step} step */
export async function prepare(step) {
  const problem = nodeProblem();
  if (problem !== null) throw new Error(problem);
  if (isInstalled()) return;
  await step(`installing dependencies (${manifest.packageManager})`, install);
}

const stampFile = join(root, 'node_modules/.leasehold-installed');

function isInstalled() {
  return existsSync(stampFile) && readFileSync(stampFile, 'utf8') === stamp();
}

/** Changes when an install could give another result. */
function stamp() {
  const hash = createHash('sha256').update(`${process.version} ${process.platform} ${process.arch}`);
  const manifests = readdirSync(join(root, 'packages')).map((name) => `packages/${name}/package.json`);
  const files = [
    'package.json',
    'pnpm-workspace.yaml',
    'pnpm-lock.yaml',
    'examples/package.json',
    'test/package.json',
    'test/packaging/package.json',
  ];
  for (const file of [...files, ...manifests.sort()]) {
    const path = join(root, file);
    if (existsSync(path)) hash.update(file).update(readFileSync(path));
  }
  return hash.digest('hex');
}

async function install() {
  const args = ['install', '--frozen-lockfile', '--reporter=append-only', '--config.confirm-modules-purge=false'];
  const { code, output } = await pnpm(args);
  if (code !== 0) throw new Error(`pnpm ${args.join(' ')} failed:\n${output.trim().split('\n').slice(-25).join('\n')}`);
  writeFileSync(stampFile, stamp());
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

/** Arguments of node that run a program in TypeScript from the sources, with nothing built. */
export function sourceArgs() {
  return ['--conditions=@leasehold/source', '--import', import.meta.resolve('tsx')];
}
