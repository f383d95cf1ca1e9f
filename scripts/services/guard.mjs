// Starts processes and makes folders that do not outlive this process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { processStatus, removeTraces } from './traces.mjs';

/** @type {import('node:child_process').ChildProcess | null} */
let janitor = null;

/** @param {{ op: string, [field: string]: unknown }} fact */
function tell(fact) {
  if (janitor === null && fact.op.endsWith('-gone')) return; // it was told to end everything
  if (janitor === null) {
    janitor = spawn(process.execPath, [fileURLToPath(new URL('janitor.mjs', import.meta.url))], {
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
      detached: true, // Ctrl-C goes to the whole foreground group: the janitor must survive it
      env: withoutPreloads(process.env),
    });
    janitor.on('error', () => {});
    janitor.stdin?.on('error', () => {});
    janitor.unref();
    /** @type {import('node:net').Socket} */ (janitor.stdin).unref();
  }
  janitor.stdin?.write(`${JSON.stringify(fact)}\n`);
}

/** @param {NodeJS.ProcessEnv} env */
function withoutPreloads(env) {
  const { NODE_OPTIONS: _, LD_PRELOAD: __, ...rest } = env;
  return rest;
}

/**
 * `spawn`, and the process is ended when this one is. With `group` whatever it has started is ended with it, also when it
 * ends by itself.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import('node:child_process').SpawnOptions & { endSignal?: NodeJS.Signals, group?: boolean }} options
 */
export function spawnGuarded(command, args, { endSignal = 'SIGKILL', group = false, ...options }) {
  if (janitor === null) tell({ op: 'hello' });
  const child = spawn(command, args, { ...options, detached: true });
  const { pid } = child;
  if (pid !== undefined) {
    tell({ op: 'process', pid, start: processStatus(pid)?.start ?? null, signal: endSignal, group });
    child.once('exit', () => {
      if (group) endGroup(pid);
      removeTraces(pid);
      tell({ op: 'process-gone', pid });
    });
  }
  return child;
}

/** @param {number} leader */
function endGroup(leader) {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch {
    // nobody is left
  }
}

/** A new folder under the system's temp folder, removed with this process at the latest. @param {string} name */
export function guardedFolder(name) {
  const path = mkdtempSync(join(realpathSync(tmpdir()), `leasehold-${name}-`));
  tell({ op: 'folder', path });
  return path;
}

/** @param {string} path */
export function removeFolder(path) {
  rmSync(path, { recursive: true, force: true, maxRetries: 10 });
  tell({ op: 'folder-gone', path });
}

/** Lets another user reach what is inside. @param {string} path */
export function openFolder(path) {
  chmodSync(path, 0o711);
}

/** Ends whatever is left, now, and waits until it is gone. */
export async function cleanUp() {
  if (janitor === null) return;
  const ending = janitor;
  janitor = null;
  const gone = ending.exitCode === null && ending.signalCode === null ? once(ending, 'exit') : null;
  ending.ref();
  ending.stdin?.end();
  await gone;
}
