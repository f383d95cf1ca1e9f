// One private PostgreSQL: a free loopback port, a new cluster in a temp folder, gone with this process.
import { execFile } from 'node:child_process';
import { chownSync, closeSync, cpSync, existsSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import { environmentOf, unpackedRootOf } from './binaries.mjs';
import { guardedFolder, openFolder, removeFolder, spawnGuarded } from './guard.mjs';
import { ask, freePort } from './ports.mjs';
import { end } from './redis.mjs';

const run = promisify(execFile);

/**
 * @typedef {object} PostgresProcess
 * @property {string} url
 * @property {number} port
 * @property {number} pid
 * @property {string} dir
 * @property {import('node:child_process').ChildProcess} process
 * @property {() => Promise<void>} stop
 *
 * @param {{ bin: string, args?: readonly string[], timeoutMs?: number }} options `bin` is the folder of initdb and postgres
 * @returns {Promise<PostgresProcess>}
 */
export async function startPostgres({ bin: found, args = [], timeoutMs = 60_000 }) {
  const dir = guardedFolder('postgres');
  const data = join(dir, 'data');
  const user = await unprivilegedUser();
  mkdirSync(data, { mode: 0o700 });
  let bin = found;
  if (user !== null) {
    openFolder(dir);
    chownSync(data, user.uid, user.gid);
    bin = reachableByOthers(found, dir);
  }
  const common = { env: { ...environmentOf(join(bin, 'postgres')), LC_ALL: 'C', PGTZ: 'GMT' }, cwd: data, ...user };
  const initdb = ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync'];
  try {
    await run(join(bin, 'initdb'), initdb, common);
  } catch (error) {
    removeFolder(dir);
    const { stderr } = /** @type {{ stderr?: string }} */ (error);
    throw new Error(`initdb failed (${bin}): ${stderr?.trim()}`, { cause: error });
  }

  const port = await freePort();
  const logFile = join(dir, 'postgres.log');
  const log = openSync(logFile, 'a');
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: '200',
    fsync: 'off', // the machine may lose power, a killed server still keeps every commit
    jit: 'off',
    dynamic_shared_memory_type: 'mmap', // in the data folder, which is removed whatever happens
    timezone: 'GMT',
    log_timezone: 'GMT',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const child = spawnGuarded(join(bin, 'postgres'), ['-D', data, '-p', `${port}`, ...flags, ...args], {
    ...common,
    stdio: ['ignore', log, log],
    endSignal: 'SIGQUIT', // the immediate shutdown: it also gives back its shared memory
  });
  closeSync(log);
  child.unref();
  const stop = async () => {
    await end(child, 'SIGQUIT', 5_000);
    removeFolder(dir);
  };
  const deadline = Date.now() + timeoutMs;
  while (child.exitCode === null && child.signalCode === null && Date.now() < deadline) {
    if (child.pid !== undefined && isReady(data, child.pid) && (await ask(port, sslRequest, { until: /^[NS]/ }))) {
      const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
      return { url, port, pid: child.pid, dir, process: child, stop };
    }
    await new Promise((wake) => setTimeout(wake, 20));
  }
  const said = readFileSync(logFile, 'utf8').trim().split('\n').slice(-8).join('\n');
  await stop();
  throw new Error(`postgres did not start on port ${port} (${bin}):\n${said}`);
}

/** "May I use TLS?", the shortest question of the protocol that a server answers before it knows us. */
const sslRequest = '\x00\x00\x00\x08\x04\xd2\x16\x2f';

/** The server itself writes down when it takes connections. @param {string} data @param {number} pid */
function isReady(data, pid) {
  const file = join(data, 'postmaster.pid');
  if (!existsSync(file)) return false;
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines[0] === `${pid}` && lines[7]?.trim() === 'ready';
}

/** PostgreSQL refuses to run as root. */
async function unprivilegedUser() {
  if (process.getuid?.() !== 0) return null;
  const id = async (/** @type {string} */ flag) => Number((await run('id', [flag, 'nobody'])).stdout);
  return { uid: await id('-u'), gid: await id('-g') };
}

/**
 * The unpacked server may lie below a folder that only root can enter (/root): then it is copied beside its data.
 *
 * @param {string} bin
 * @param {string} dir
 */
function reachableByOthers(bin, dir) {
  for (let folder = bin; folder !== dirname(folder); folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) !== 0) continue;
    const root = unpackedRootOf(bin);
    if (root === null) return bin;
    const copy = join(dir, 'server');
    cpSync(root, copy, { recursive: true, verbatimSymlinks: true });
    return join(copy, bin.slice(root.length));
  }
  return bin;
}
