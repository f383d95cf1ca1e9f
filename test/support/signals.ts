import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** SIGSTOP; resolves when the system says that the process is stopped. Rejects if it has ended. */
export async function stop(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  for (let state = stateOf(pid); !/^[Tt]/.test(state); state = stateOf(pid)) {
    // Its parent may be stopped, too, and not take note.
    if (state === 'Z') throw new Error(`process ${pid} has ended`);
    await sleep(1);
  }
}

export function cont(pid: number): void {
  process.kill(pid, 'SIGCONT');
}

/** `T` stopped, `S` sleeping, `R` running, `Z` dead and not reaped. */
export function stateOf(pid: number): string {
  if (process.platform === 'linux') {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .charAt(0);
  }
  return execFileSync('ps', ['-o', 'state=', '-p', `${pid}`], { encoding: 'utf8' }).trim();
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return stateOf(pid) !== 'Z';
  } catch {
    return false;
  }
}
