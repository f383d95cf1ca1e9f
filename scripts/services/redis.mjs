// One private redis-server: a free loopback port, data in a temp folder, gone with this process.
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

import { environmentOf } from './binaries.mjs';
import { guardedFolder, removeFolder, spawnGuarded } from './guard.mjs';
import { ask, freePort } from './ports.mjs';

/**
 * @typedef {object} RedisOptions
 * @property {string} binary
 * @property {readonly string[]} [args] appended to ours, so they win
 * @property {Record<string, string>} [env]
 * @property {number} [port]
 * @property {string} [dir] kept at the end if given; else a temp folder of our own
 * @property {number} [timeoutMs]
 *
 * @typedef {object} RedisProcess
 * @property {string} url
 * @property {string} host
 * @property {number} port
 * @property {number} pid
 * @property {string} dir
 * @property {string} logFile
 * @property {import('node:child_process').ChildProcess} process
 * @property {() => Promise<void>} stop
 */

/**
 * @param {RedisOptions} options
 * @returns {Promise<RedisProcess>}
 */
export async function startRedis(options) {
  for (let tries = 1; ; tries++) {
    const started = await tryToStart(options);
    if (!(started instanceof Error)) return started;
    const portWasTaken = /Address already in use/i.test(started.message) && options.port === undefined;
    if (!portWasTaken || tries === 5) throw started;
  }
}

/** @param {RedisOptions} options */
async function tryToStart({ binary, args = [], env = {}, port: wanted, dir: given, timeoutMs = 20_000 }) {
  const port = wanted ?? (await freePort());
  const dir = given ?? guardedFolder('redis');
  const logFile = join(dir, 'redis.log');
  const log = openSync(logFile, 'a');
  const own = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'no'];
  const child = spawnGuarded(binary, [...own, ...args], {
    ...(basename(binary) === 'redis-check-rdb' && { argv0: 'redis-server' }),
    stdio: ['ignore', log, log],
    cwd: dir,
    env: { ...environmentOf(binary), ...env },
  });
  closeSync(log);
  child.unref();
  /** @type {Error | null} */
  let failure = null;
  child.once('error', (error) => (failure = error));

  const stop = async () => {
    await end(child, 'SIGTERM', 5_000);
    if (given === undefined) removeFolder(dir);
  };
  const deadline = Date.now() + timeoutMs;
  while (child.exitCode === null && child.signalCode === null && failure === null && Date.now() < deadline) {
    if (await isReady(port, child.pid)) {
      const { pid } = child;
      if (pid === undefined) break;
      return { url: `redis://127.0.0.1:${port}`, host: '127.0.0.1', port, pid, dir, logFile, process: child, stop };
    }
    await pause();
  }
  const said = readFileSync(logFile, 'utf8').trim().split('\n').slice(-8).join('\n');
  await stop();
  return failure ?? new Error(`redis-server did not start on port ${port} (${binary}):\n${said}`);
}

/** Ready is: it answers, it is not loading, and it is this very process. @param {number} port @param {number | undefined} pid */
async function isReady(port, pid) {
  const pong = await ask(port, 'PING\r\n');
  if (pong === null || pong.startsWith('-LOADING')) return false;
  if (!pong.startsWith('+PONG')) return true; // it wants a password, a name or a certificate: it is up
  const info = await ask(port, 'INFO server\r\n', { until: /process_id:\d+\r\n/ });
  return info === null || info.startsWith('-') || info.includes(`process_id:${pid}\r\n`);
}

const pause = () => new Promise((wake) => setTimeout(wake, 10));

/**
 * Asks the process to end, then makes it.
 *
 * @param {import('node:child_process').ChildProcess} child
 * @param {NodeJS.Signals} signal
 * @param {number} patienceMs
 */
export async function end(child, signal, patienceMs) {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.ref();
  child.kill(signal);
  child.kill('SIGCONT');
  const timer = setTimeout(() => child.kill('SIGKILL'), patienceMs);
  await gone;
  clearTimeout(timer);
}
