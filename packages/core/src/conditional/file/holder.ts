import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';
import { ownerIdentity } from '../../owner.ts';

/** Who holds a lock file: its content. A pid means something only together with the rest. */
export interface LockHolder {
  /** Of this one lock file. Random: no other ever has it, so none is mistaken for it. */
  readonly id: string;
  readonly name: string;
  readonly host: string;
  readonly pid: number;
  /** ISO 8601, UTC. */
  readonly since: string;
  readonly startTicks?: number | undefined;
  readonly bootId?: string | undefined;
  readonly pidNamespace?: string | undefined;
  readonly machineId?: string | undefined;
}

export function thisProcess(id: string): LockHolder {
  const { name, host, pid, startTicks, bootId, pidNamespace, machineId } = ownerIdentity();
  return { id, name, host, pid, since: new Date().toISOString(), startTicks, bootId, pidNamespace, machineId };
}

/** Null if the text is not that of a lock file. */
export function parseHolder(text: string): LockHolder | null {
  let holder: Partial<Record<keyof LockHolder, unknown>> | null;
  try {
    holder = JSON.parse(text) as typeof holder;
  } catch {
    return null;
  }
  const isSound =
    typeof holder === 'object' &&
    holder !== null &&
    // It becomes part of a file name.
    /^[0-9a-f]{32}$/.test(String(holder.id)) &&
    Number.isSafeInteger(holder.pid) &&
    // 0 and below stand for groups of processes.
    (holder.pid as number) > 0;
  return isSound ? (holder as unknown as LockHolder) : null;
}

export function holderLine({ name, host, pid, since }: LockHolder): string {
  return `${name} pid ${pid} on ${host} (since ${since})`;
}

/**
 * Why a lock is not to be broken, or null if its holder is **proved** gone: there is no such process any more, where a pid
 * means the same to both of us, or the machine was started anew since. Whoever is stopped, frozen or out of sight is not
 * gone: it may go on with what it was about to do at any time.
 */
export function obstacle(holder: LockHolder, lockedMs: number): string | null {
  const own = ownerIdentity();
  const cannotTell = (where: string): string =>
    `${where}, so whether it still runs cannot be told from here; if it does not, remove the lock file`;
  if (holder.bootId === undefined || own.bootId === undefined) return cannotTell('on a system without a boot id');
  if (holder.machineId !== undefined && own.machineId !== undefined && holder.machineId !== own.machineId) {
    return cannotTell('on another machine');
  }
  if (holder.bootId !== own.bootId) {
    if (holder.machineId === undefined || own.machineId === undefined) return cannotTell('on a machine without an id');
    // A virtual machine may have a boot id of its own beside a machine id that was copied: only time can tell them apart.
    if (lockedMs < bootMs()) return null;
    return cannotTell('on this machine by its id, but in another boot');
  }
  if (holder.pidNamespace === undefined || holder.pidNamespace !== own.pidNamespace) {
    return cannotTell('in another pid namespace (container)');
  }
  return processObstacle(holder);
}

function bootMs(): number {
  try {
    return Date.now() - uptime() * 1000;
  } catch {
    return -Infinity;
  }
}

function processObstacle({ pid, startTicks }: LockHolder): string | null {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it runs as somebody else. /proc would not do for this: it can hide the processes of others.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return null;
  }
  const now = readStat(pid);
  if (now === undefined || startTicks === undefined) {
    return 'a pid that is in use, by it or by another; if by another, remove the lock file';
  }
  if (now.startTicks !== startTicks) return null;
  // A zombie whose threads have all ended will do nothing any more; with one left it may be in the middle of a rename.
  if (now.state === 'Z' && now.threads <= 1) return null;
  if (now.state === 'T' || now.state === 't') return 'which is stopped; continue it, or kill it';
  return 'which is running; if it hangs, kill it';
}

function readStat(
  pid: number,
): { readonly state: string; readonly threads: number; readonly startTicks: number } | undefined {
  try {
    // The command, field 2, may contain spaces and parentheses: count from behind the last one.
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(') ') + 2).split(' ');
    const [state = '', threads, startTicks] = [fields[0], Number(fields[17]), Number(fields[19])];
    return Number.isSafeInteger(threads) && Number.isSafeInteger(startTicks)
      ? { state, threads, startTicks }
      : undefined;
  } catch {
    // Not Linux, hidden, or ended just now: the next look will tell.
    return undefined;
  }
}
