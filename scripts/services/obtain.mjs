// Gets the programs that the machine lacks. No service is started and nothing is installed on Debian and Ubuntu: the
// packages are unpacked below the repository's .cache, which needs no root either.
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

import { cacheFolder, find, services, unpackedMark } from './binaries.mjs';
import { thisMachine } from './machine.mjs';

/**
 * @typedef {import('./machine.mjs').Machine} Machine
 * @typedef {import('./binaries.mjs').ServiceName} ServiceName
 * @typedef {(title: string, work: () => Promise<string | void>) => Promise<void>} Step
 */

/** Thrown when a person has to install something. */
export class NotToBeHad extends Error {}

/**
 * Finds each service, or gets it.
 *
 * @param {readonly ServiceName[]} wanted
 * @param {{ machine?: Machine, cache?: string, step?: Step, optional?: readonly ServiceName[] }} [options]
 * @returns {Promise<{ [name in ServiceName]?: string }>} paths; an optional one that can not be had is left out
 */
export async function ensure(wanted, options = {}) {
  const {
    machine = thisMachine,
    cache = cacheFolder,
    step = async (_, work) => void (await work()),
    optional = [],
  } = options;
  /** @type {{ [name in ServiceName]?: string }} */
  const paths = {};
  /** @type {NotToBeHad[]} */
  const missing = [];
  for (const name of wanted) {
    const found = find(name, machine, cache);
    if (found.path !== null) {
      paths[name] = found.path;
      continue;
    }
    try {
      const how = wayFor(machine);
      if (how === null) throw new Error('no package manager that this script knows');
      await step(`getting ${services[name].name} (${how.title})`, () => how.get(name, machine, cache));
      const now = find(name, machine, cache);
      if (now.path === null) throw new Error(now.problems.join('; ') || 'it was fetched, and is still not there');
      paths[name] = now.path;
    } catch (error) {
      if (optional.includes(name)) continue;
      missing.push(new NotToBeHad(instruction(name, machine, [...found.problems, String(error)])));
    }
  }
  if (missing.length > 0) throw new NotToBeHad(missing.map(({ message }) => message).join('\n\n'));
  return paths;
}

/** @param {Machine} machine */
function wayFor(machine) {
  const has = (/** @type {string} */ program) =>
    (machine.env['PATH'] ?? '').split(':').some((folder) => machine.isExecutable(join(folder, program)));
  if (machine.platform === 'linux' && has('apt-get') && has('dpkg-deb'))
    return { title: 'apt, unpacked into .cache', get: fromDebian };
  if (machine.platform === 'darwin' && has('brew')) return { title: 'Homebrew', get: fromHomebrew };
  return null;
}

/** What the packages are called. @satisfies {Record<ServiceName, { homebrew: string, debian: string, fedora: string }>} */
const packages = {
  redis: { homebrew: 'redis', debian: 'redis-tools', fedora: 'redis' },
  postgres: { homebrew: 'postgresql@17', debian: 'postgresql', fedora: 'postgresql-server' },
  faketime: { homebrew: 'libfaketime', debian: 'libfaketime', fedora: 'libfaketime' },
  tmux: { homebrew: 'tmux', debian: 'tmux', fedora: 'tmux' },
  promtool: { homebrew: 'prometheus', debian: 'prometheus', fedora: 'golang-github-prometheus' },
};

/** @param {ServiceName} name @param {Machine} machine */
async function fromHomebrew(name, machine) {
  const { homebrew } = packages[name];
  const { ok, errors } = await machine.run('brew', ['install', '--quiet', homebrew]);
  if (!ok) throw new Error(`brew install ${homebrew}: ${lastLine(errors)}`);
}

/**
 * `apt-get download` and `dpkg-deb -x`: with what apt would install beside it, as far as it is a library.
 *
 * @param {ServiceName} name
 * @param {Machine} machine
 * @param {string} cache
 */
async function fromDebian(name, machine, cache) {
  const lists = privateLists(cache);
  const attempts = [
    { title: 'with the lists of the system', options: [], prepare: false },
    { title: 'with fresh lists of our own', options: lists.options, prepare: true },
  ];
  let failure = '';
  for (const { title, options, prepare } of attempts) {
    if (prepare) {
      lists.makeFolders();
      const updated = await machine.run('apt-get', [...options, '-qq', 'update']);
      if (!updated.ok) throw new Error(`apt-get update: ${lastLine(updated.errors)}`);
    }
    const result = await unpack(name, machine, cache, options);
    if (result === null) return;
    failure = `${result} (${title})`;
  }
  throw new Error(failure);
}

/** @param {ServiceName} name @param {Machine} machine @param {string} cache @param {readonly string[]} options */
async function unpack(name, machine, cache, options) {
  const main = await debianPackage(name, machine, options);
  if (main === null) return `apt knows no package for ${services[name].name}`;
  const plan = await machine.run('apt-get', [
    ...options,
    '-qq',
    '--print-uris',
    '--no-install-recommends',
    'install',
    main,
  ]);
  // A library is unpacked with it. Not the compiler for PostgreSQL's jit, which is switched off, not the C library, and no
  // script for a browser.
  const libraries = [...plan.output.matchAll(/^'[^']*' ([^_\s]+)_\S+\.deb /gm)]
    .map(([, packageName]) => /** @type {string} */ (packageName))
    .filter((packageName) => /^lib(?!llvm|perl|c6|c-bin|json-perl|js-)/.test(packageName) && packageName !== main);

  const root = join(cache, name);
  const work = `${root}.${process.pid}`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, 'debs'), { recursive: true });
  mkdirSync(join(work, 'root'));
  try {
    const debs = join(work, 'debs');
    const got = await machine.run('apt-get', [...options, '-qq', 'download', main, ...libraries], { cwd: debs });
    const files = machine.list(debs).filter((file) => file.endsWith('.deb'));
    if (!got.ok || files.length === 0) return `apt-get download ${main}: ${lastLine(got.errors)}`;
    for (const file of files) {
      const out = await machine.run('dpkg-deb', ['-x', join(debs, file), join(work, 'root')]);
      if (!out.ok) return `dpkg-deb -x ${basename(file)}: ${lastLine(out.errors)}`;
    }
    for (const ballast of ['doc', 'locale', 'man']) {
      rmSync(join(work, 'root/usr/share', ballast), { recursive: true, force: true });
    }
    writeFileSync(join(work, 'root', unpackedMark), `${files.join('\n')}\n`);
    if (find(name, machine, cache).path !== null) return null; // another run was faster
    rmSync(root, { recursive: true, force: true });
    renameSync(join(work, 'root'), root);
    return null;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** @param {ServiceName} name @param {Machine} machine @param {readonly string[]} options */
async function debianPackage(name, machine, options) {
  const wanted = packages[name].debian;
  const shown = await machine.run('apt-cache', [...options, 'show', '--no-all-versions', wanted]);
  if (!shown.ok || shown.output === '') return null;
  // `postgresql` is an empty package that depends on the release's own version.
  return name === 'postgres' ? (/\bpostgresql-\d+\b/.exec(shown.output)?.[0] ?? null) : wanted;
}

/** Package lists below .cache: those of the system may be missing or stale, and only root can refresh them. @param {string} cache */
function privateLists(cache) {
  const folder = join(cache, 'apt');
  return {
    options: [
      ...['-o', `Dir::State::lists=${folder}/lists`, '-o', `Dir::Cache=${folder}/cache`],
      ...['-o', 'Dir::Cache::pkgcache=', '-o', 'Dir::Cache::srcpkgcache=', '-o', 'APT::Sandbox::User=root'],
    ],
    makeFolders() {
      for (const part of ['lists/partial', 'cache/archives/partial'])
        mkdirSync(join(folder, part), { recursive: true });
    },
  };
}

/** @param {ServiceName} name @param {Machine} machine @param {readonly string[]} causes */
export function instruction(name, machine, causes) {
  const service = services[name];
  const { homebrew, debian, fedora } = packages[name];
  const hint =
    machine.platform === 'darwin'
      ? [`  brew install ${homebrew}`]
      : [
          `  Debian, Ubuntu:  sudo apt-get install --no-install-recommends ${debian}`,
          `  Fedora:          sudo dnf install ${fedora}`,
        ];
  const where = name === 'postgres' ? 'the folder of initdb and postgres' : 'it';
  return [
    `${service.name} is needed and was not found.`,
    ...causes.map((cause) => `  (${cause.replace(/^Error: /, '')})`),
    'Install it:',
    ...hint,
    `or, if it is somewhere else, set ${service.variable} to ${where}.`,
  ].join('\n');
}

/** @param {string} text */
const lastLine = (text) => text.trim().split('\n').at(-1) ?? '';
