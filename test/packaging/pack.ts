import { cpSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { pnpm, root } from '../../scripts/lib/prepare.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { closed, opened } from '../support/leftovers.ts';

export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
}

export interface PackedPackage {
  readonly manifest: Manifest;
  /** Where its tarball was unpacked. */
  readonly folder: string;
  /** Every file of the tarball, with `/`. */
  readonly files: readonly string[];
}

/** The packages as a user gets them from the registry, installed in a project of its own. */
export class Packed implements AsyncDisposable {
  readonly packages: readonly PackedPackage[];
  /** The user's project: what it has installed is `node_modules` here. */
  readonly project: string;
  readonly #dir: string;
  readonly #leftover;

  constructor(dir: string, project: string, packages: readonly PackedPackage[]) {
    this.#dir = dir;
    this.project = project;
    this.packages = packages;
    this.#leftover = { what: 'the packed packages', end: () => this[Symbol.asyncDispose]() };
    opened(this.#leftover, 'file');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    removeFolder(this.#dir);
  }
}

/**
 * Builds and packs every package and installs the tarballs, without the network: what they depend on is linked from the
 * workspace. Nothing is written into the workspace, and nothing that was built there is used, because an old `dist` may
 * hold what the sources no longer make.
 */
export async function packAll(): Promise<Packed> {
  const dir = guardedFolder('packed');
  try {
    const copies = copyWorkspace(join(dir, 'workspace'));
    await run(join(root, 'node_modules/.bin/tsc'), ['-b', ...copies]);
    const tarballs = join(dir, 'tarballs');
    const packing = ['--recursive', '--filter', './packages/*', 'pack', '--pack-destination', tarballs];
    const { code, output } = await pnpm(packing, join(dir, 'workspace'));
    if (code !== 0) throw new Error(`pnpm ${packing.join(' ')}:\n${output}`);
    return await install(dir, tarballs, copies);
  } catch (error) {
    removeFolder(dir);
    throw error;
  }
}

export async function run(command: string, args: readonly string[], cwd?: string): Promise<string> {
  const { ok, output, errors } = await thisMachine.run(command, args, { ...(cwd !== undefined && { cwd }) });
  if (!ok) throw new Error(`${basename(command)} ${args.join(' ')}:\n${output}${errors}`);
  return output;
}

/** Everything of the packages that a clean clone has; their dependencies are those of the workspace. */
function copyWorkspace(to: string): string[] {
  for (const file of ['package.json', 'pnpm-workspace.yaml', 'tsconfig.base.json']) {
    cpSync(join(root, file), join(to, file));
  }
  const names = readdirSync(join(root, 'packages'));
  for (const name of names) {
    const from = join(root, 'packages', name);
    cpSync(from, join(to, 'packages', name), {
      recursive: true,
      filter: (path) => !['node_modules', 'dist'].includes(basename(path)),
    });
    for (const dependency of installedIn(from)) {
      const target = realpathSync(join(from, 'node_modules', dependency));
      const isOurs = dirname(target) === realpathSync(join(root, 'packages'));
      link(
        isOurs ? join(to, 'packages', basename(target)) : target,
        join(to, 'packages', name, 'node_modules', dependency),
      );
    }
  }
  return names.map((name) => join(to, 'packages', name));
}

/** As pnpm lays out a project: each package sees what it declares and nothing else. */
async function install(dir: string, tarballs: string, copies: readonly string[]): Promise<Packed> {
  const project = join(dir, 'project');
  const homes = new Map<string, string>(); // of each of our packages, by name
  const packages: PackedPackage[] = [];
  for (const tarball of readdirSync(tarballs)) {
    const home = join(dir, 'installed', basename(tarball, '.tgz'), 'node_modules');
    const unpacked = join(dir, 'unpacked', basename(tarball, '.tgz'));
    mkdirSync(unpacked, { recursive: true });
    await run('tar', ['-xzf', join(tarballs, tarball), '-C', unpacked]);
    const manifest = JSON.parse(readFileSync(join(unpacked, 'package/package.json'), 'utf8')) as Manifest;
    const folder = join(home, manifest.name);
    cpSync(join(unpacked, 'package'), folder, { recursive: true });
    const files = readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
    homes.set(manifest.name, home);
    packages.push({ manifest, folder, files: files.sort() });
    link(folder, join(project, 'node_modules', manifest.name));
  }
  for (const { manifest } of packages) {
    const home = homes.get(manifest.name) as string;
    const source = copies.find((copy) => nameOf(copy) === manifest.name) as string;
    for (const dependency of Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })) {
      const ours = homes.get(dependency);
      const target = ours ? join(ours, dependency) : realpathSync(join(source, 'node_modules', dependency));
      link(target, join(home, dependency));
    }
  }
  // What the user has installed beside them.
  for (const dependency of ['@types/node', 'bullmq', 'ioredis', 'node-cron', 'vitest']) {
    link(
      realpathSync(join(root, 'test/packaging/node_modules', dependency)),
      join(project, 'node_modules', dependency),
    );
  }
  return new Packed(dir, project, packages);
}

function nameOf(folder: string): string {
  return (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest).name;
}

/** Names in the `node_modules` of a package, `@scope/name` among them. */
function installedIn(folder: string): string[] {
  const modules = join(folder, 'node_modules');
  return readdirSync(modules)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(modules, name)).map((inScope) => `${name}/${inScope}`) : [name],
    );
}

function link(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(target, path);
}
