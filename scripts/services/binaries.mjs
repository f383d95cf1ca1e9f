// Where the programs are on this machine, or below the repository's .cache when they were unpacked there.
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** @typedef {import('./machine.mjs').Machine} Machine */

export const cacheFolder = fileURLToPath(new URL('../../.cache', import.meta.url));

/** This file lies at the root of a tree of unpacked packages, which finds its own libraries only when told where. */
export const unpackedMark = '.unpacked';

/** @param {string} path @returns {string | null} */
export function unpackedRootOf(path) {
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, unpackedMark))) return folder;
  }
  return null;
}

/** The environment in which the program runs. @param {string} binary @returns {NodeJS.ProcessEnv} */
export function environmentOf(binary) {
  const root = unpackedRootOf(binary);
  if (root === null) return process.env;
  const folders = ['usr/lib', 'lib']
    .map((lib) => join(root, lib))
    .filter((lib) => existsSync(lib))
    .flatMap((lib) =>
      readdirSync(lib)
        .filter((name) => name.includes('-linux-'))
        .map((name) => join(lib, name)),
    );
  const { LD_LIBRARY_PATH: before } = process.env;
  return { ...process.env, LD_LIBRARY_PATH: [...folders, ...(before ? [before] : [])].join(delimiter) };
}

/**
 * @typedef {object} Service
 * @property {string} name as people call it
 * @property {string} variable the environment variable that names it
 * @property {(machine: Machine, cache: string) => Iterable<string>} candidates best first
 * @property {(path: string, machine: Machine) => string | null} problem why this candidate will not do, null if it will
 */

const homebrew = ['/opt/homebrew', '/usr/local'];

/** @param {Machine} machine */
const pathFolders = (machine) =>
  (machine.env['PATH'] ?? '').split(delimiter).filter((folder) => folder.startsWith('/'));

/** `list`, whole paths, highest version first. @param {Machine} machine @param {string} folder @param {RegExp} name */
const newest = (machine, folder, name) =>
  machine
    .list(folder)
    .filter((entry) => name.test(entry))
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    .map((entry) => join(folder, entry));

/** @param {string | null} text @param {RegExp} pattern @param {number} least @param {string} path */
function versionProblem(text, pattern, least, path) {
  if (text === null) return `${path} does not run`;
  const version = pattern.exec(text)?.[1];
  if (version === undefined) return `${path} does not tell its version`;
  return Number.parseFloat(version) >= least ? null : `${path} is version ${version}, at least ${least} is needed`;
}

/** A program that only some tests use. @param {string} name @param {string} variable @returns {Service} */
function program(name, variable) {
  return {
    name,
    variable,
    *candidates(machine, cache) {
      const folders = [...pathFolders(machine), '/usr/bin', ...homebrew.map((prefix) => `${prefix}/bin`)];
      for (const folder of [...folders, join(cache, name, 'usr/bin')]) yield join(folder, name);
    },
    problem: (path, machine) => (machine.isExecutable(path) ? null : `${path} is not a program`),
  };
}

/** @satisfies {Record<string, Service>} */
export const services = {
  redis: {
    name: 'redis-server 7.0 or newer',
    variable: 'LEASEHOLD_REDIS_SERVER',
    *candidates(machine, cache) {
      const folders = [
        ...pathFolders(machine),
        '/usr/bin',
        '/usr/local/bin',
        ...homebrew.flatMap((prefix) => newest(machine, `${prefix}/opt`, /^redis(@|$)/)).map((keg) => `${keg}/bin`),
        join(cache, 'redis/usr/bin'),
      ];
      // Debian's redis-check-rdb is the server itself, under another name.
      for (const program of ['redis-server', 'redis-check-rdb'])
        for (const folder of folders) yield join(folder, program);
    },
    problem: (path, machine) =>
      machine.isExecutable(path)
        ? versionProblem(machine.version(path), /\bv=(\d+\.\d+)/, 7, path)
        : `${path} is not a program`,
  },
  postgres: {
    name: 'PostgreSQL 13 or newer (server programs)',
    variable: 'LEASEHOLD_POSTGRES_BIN',
    *candidates(machine, cache) {
      yield* pathFolders(machine);
      const debian = (/** @type {string} */ root) => newest(machine, `${root}/usr/lib/postgresql`, /^\d+$/);
      yield* debian('').map((folder) => `${folder}/bin`);
      yield* newest(machine, '/usr', /^pgsql-\d+$/).map((folder) => `${folder}/bin`);
      for (const prefix of homebrew) {
        yield* newest(machine, `${prefix}/opt`, /^postgresql(@|$)/).map((keg) => `${keg}/bin`);
      }
      yield* newest(machine, '/Applications/Postgres.app/Contents/Versions', /^\d+$/).map((folder) => `${folder}/bin`);
      yield* debian(join(cache, 'postgres')).map((folder) => `${folder}/bin`);
    },
    problem(path, machine) {
      const [initdb, postgres] = [join(path, 'initdb'), join(path, 'postgres')];
      if (!machine.isExecutable(initdb) || !machine.isExecutable(postgres)) return `${path} lacks initdb or postgres`;
      if (machine.version(initdb) === null) return `${initdb} does not run`;
      return versionProblem(machine.version(postgres), /PostgreSQL\)? (\d+)/, 13, postgres);
    },
  },
  faketime: {
    name: 'libfaketime',
    variable: 'LEASEHOLD_FAKETIME_LIB',
    *candidates(machine, cache) {
      const file = machine.platform === 'darwin' ? 'libfaketimeMT.1.dylib' : 'libfaketimeMT.so.1';
      for (const root of ['', join(cache, 'faketime')]) {
        for (const lib of newest(machine, `${root}/usr/lib`, /-linux-/)) yield `${lib}/faketime/${file}`;
        for (const lib of ['/usr/lib', '/usr/lib64', '/usr/local/lib']) yield `${root}${lib}/faketime/${file}`;
      }
      for (const prefix of homebrew) yield `${prefix}/lib/faketime/${file}`;
    },
    problem: (path, machine) => (machine.isFile(path) ? null : `${path} is not a file`),
  },
  tmux: program('tmux', 'LEASEHOLD_TMUX'),
  promtool: program('promtool', 'LEASEHOLD_PROMTOOL'),
};

/** @typedef {keyof typeof services} ServiceName */

/**
 * What some tests cannot do without, and the rest can: a test that lacks its tool is reported as not run.
 *
 * @satisfies {readonly ServiceName[]}
 */
export const tools = /** @type {const} */ (['faketime', 'tmux', 'promtool']);

/**
 * The first candidate that will do. A variable that is set but wrong is an error: nobody wants another one silently.
 *
 * @param {ServiceName} name
 * @param {Machine} machine
 * @param {string} [cache]
 * @returns {{ path: string } | { path: null, problems: string[] }}
 */
export function find(name, machine, cache = cacheFolder) {
  const service = services[name];
  const told = machine.env[service.variable];
  if (told) {
    const problem = service.problem(told, machine);
    if (problem !== null) throw new Error(`${service.variable}: ${problem}`);
    return { path: told };
  }
  const problems = [];
  for (const path of new Set(service.candidates(machine, cache))) {
    const problem = service.problem(path, machine);
    if (problem === null) return { path };
    if (/version|does not run/.test(problem)) problems.push(problem);
  }
  return { path: null, problems };
}
