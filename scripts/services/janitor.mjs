// The process that cleans up after its parent, however the parent ended: Ctrl-C, a crash or SIGKILL.
// It reads one JSON line per fact from standard input; end of input means that the parent is gone.
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { processStatus, removeTraces } from './traces.mjs';

/** @typedef {{ pid: number, start: string | null, signal: NodeJS.Signals, group: boolean }} Watched */

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => {});

/** @type {Map<number, Watched>} */
const processes = new Map();
/** @type {Set<string>} */
const folders = new Set();

for await (const line of createInterface({ input: process.stdin })) {
  const fact = JSON.parse(line);
  if (fact.op === 'process') processes.set(fact.pid, fact);
  else if (fact.op === 'process-gone') processes.delete(fact.pid);
  else if (fact.op === 'folder') folders.add(fact.path);
  else if (fact.op === 'folder-gone') folders.delete(fact.path);
}

const left = [...processes.values()].filter(isTheSame);
for (const watched of left) {
  send(watched, watched.signal);
  send(watched, 'SIGCONT'); // a stopped process would not see the signal
}
const deadline = Date.now() + 5_000;
while (left.some(isAlive) && Date.now() < deadline) await new Promise((wake) => setTimeout(wake, 20));
for (const watched of left) {
  if (watched.group || isAlive(watched)) send(watched, 'SIGKILL');
  removeTraces(watched.pid);
}
for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 10 });

/** @param {Watched} watched @param {NodeJS.Signals} signal */
function send(watched, signal) {
  try {
    process.kill(watched.group ? -watched.pid : watched.pid, signal);
  } catch {
    // already gone
  }
}

/** @param {Watched} watched */
function isAlive(watched) {
  try {
    process.kill(watched.pid, 0);
  } catch {
    return false;
  }
  return processStatus(watched.pid)?.state !== 'Z' && isTheSame(watched);
}

/** @param {Watched} watched */
function isTheSame(watched) {
  return watched.start === null || processStatus(watched.pid)?.start === watched.start;
}
