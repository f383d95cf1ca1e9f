/** What /proc says of a process. `proc` is where it is mounted. */

import { readdir, readFile, readlink } from 'node:fs/promises';

export interface ProcessSeen {
  /** R running, S sleeping, D waiting for a device, T stopped, t traced, Z dead and not reaped, X dead. */
  readonly state: string;
  /** Clock ticks after the boot. */
  readonly startTicks: number;
}

/** `absent`: no such process is listed. `hidden`: it may not be read. */
export type Look = ProcessSeen | 'absent' | 'hidden';

const ABSENT = new Set(['ENOENT', 'ESRCH']);

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

export async function lookAt(proc: string, pid: number): Promise<Look> {
  try {
    // The command, field 2, may contain anything: count from behind its last parenthesis (proc_pid_stat(5)).
    const text = await readFile(`${proc}/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(') ') + 2).split(' ');
    const [state, startTicks] = [fields[0], Number(fields[19])];
    return state === undefined || !Number.isSafeInteger(startTicks) ? 'hidden' : { state, startTicks };
  } catch (error) {
    return ABSENT.has(String(codeOf(error))) ? 'absent' : 'hidden';
  }
}

/**
 * Whether the kernel knows the pid, by a signal that is none. Unlike a listing of /proc it does not depend on the mount's
 * `hidepid`, which leaves out the processes of others.
 */
export function kernelKnows(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) !== 'ESRCH';
  }
}

/** Of a process whose first thread has ended: does another one still run? True also if that cannot be read. */
export async function hasLiveThreads(proc: string, pid: number): Promise<boolean> {
  try {
    for (const thread of await readdir(`${proc}/${pid}/task`)) {
      const seen = await lookAt(`${proc}/${pid}/task`, Number(thread));
      if (seen !== 'absent' && (seen === 'hidden' || !/^[ZXx]$/.test(seen.state))) return true;
    }
    return false;
  } catch (error) {
    return !ABSENT.has(String(codeOf(error)));
  }
}

/** `pid:[4026531836]`; undefined if it may not be read or there is none (any more). */
export async function namespaceOf(
  proc: string,
  pid: number | 'self',
  kind: 'pid' | 'time',
): Promise<string | undefined> {
  return readlink(`${proc}/${pid}/ns/${kind}`).catch(() => undefined);
}

/** The pids of a process in its namespaces, from that of the mount inwards (`NSpid`); none where it cannot be read. */
export async function pidsOf(proc: string, pid: number | 'self'): Promise<readonly number[]> {
  const status = await readFile(`${proc}/${pid}/status`, 'utf8').catch(() => '');
  const pids = status.match(/^NSpid:\s*(.*)$/m)?.[1];
  return pids === undefined ? [] : pids.trim().split(/\s+/).map(Number);
}

export async function processesOf(proc: string): Promise<readonly number[]> {
  return (await readdir(proc)).filter((name) => /^[1-9]\d*$/.test(name)).map(Number);
}

/** ms since 1970, by the wall clock as it stands now: it moves when that is set. */
export async function bootedAt(proc: string): Promise<number | undefined> {
  const stat = await readFile(`${proc}/stat`, 'utf8').catch(() => '');
  const seconds = stat.match(/^btime (\d+)$/m)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/** Whether the mount may leave out processes of others (`hidepid`, proc(5)); true if that cannot be read. */
export async function mayHide(proc: string): Promise<boolean> {
  const mounts = await readFile(`${proc}/self/mountinfo`, 'utf8').catch(() => '');
  const mount = mounts.split('\n').findLast((line) => line.split(' ')[4] === proc && / - proc /.test(line));
  return mount === undefined || /[ ,]hidepid=(?!0|off)/.test(mount);
}
