// What the search for services asks of the machine. Tests hand in another one.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import { basename } from 'node:path';

import { environmentOf } from './binaries.mjs';
import { spawnGuarded } from './guard.mjs';

/**
 * @typedef {object} Machine
 * @property {string} platform
 * @property {Record<string, string | undefined>} env
 * @property {(path: string) => boolean} isFile
 * @property {(path: string) => boolean} isExecutable
 * @property {(folder: string) => string[]} list names in the folder, none if it is missing
 * @property {(path: string) => string | null} version what the program prints for --version, null if it does not run
 * @property {(command: string, args: readonly string[], options?: { cwd?: string }) => Promise<Ran>} run
 *
 * @typedef {{ ok: boolean, output: string, errors: string }} Ran
 */

/** @type {Machine} */
export const thisMachine = {
  platform: process.platform,
  env: process.env,
  isFile: (path) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false,
  isExecutable(path) {
    try {
      accessSync(path, constants.X_OK);
      return statSync(path).isFile();
    } catch {
      return false;
    }
  },
  list(folder) {
    try {
      return readdirSync(folder).sort();
    } catch {
      return [];
    }
  },
  version(path) {
    const { status, stdout } = spawnSync(path, ['--version'], {
      ...(basename(path) === 'redis-check-rdb' && { argv0: 'redis-server' }),
      env: environmentOf(path),
      encoding: 'utf8',
      timeout: 10_000,
    });
    return status === 0 ? stdout : null;
  },
  run(command, args, { cwd } = {}) {
    return new Promise((resolve) => {
      const env = { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive', HOMEBREW_NO_AUTO_UPDATE: '1' };
      const child = spawnGuarded(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], group: true });
      let output = '';
      let errors = '';
      child.stdout?.on('data', (bytes) => (output += bytes));
      child.stderr?.on('data', (bytes) => (errors += bytes));
      child.on('error', (error) => resolve({ ok: false, output, errors: error.message }));
      child.on('close', (code) => resolve({ ok: code === 0, output, errors }));
    });
  },
};
