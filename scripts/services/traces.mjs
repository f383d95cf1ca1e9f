import { readFileSync, rmSync } from 'node:fs';

/** A process that was killed under libfaketime leaves its shared memory behind. @param {number} pid */
export function removeTraces(pid) {
  if (process.platform !== 'linux') return;
  for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) rmSync(`/dev/shm/${name}`, { force: true });
}

/**
 * What Linux tells about a process; null elsewhere, or if it is gone. A process id can be used again: its start time tells.
 *
 * @param {number} pid
 * @returns {{ state: string, start: string } | null}
 */
export function processStatus(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    return { state: fields[0] ?? '', start: fields[19] ?? '' };
  } catch {
    return null;
  }
}
