import { type OwnerIdentity, ownerIdentity } from '../../owner.ts';
import type { OwnerFinding, OwnerProbe } from '../probe.ts';
import { endByHand, processByHand } from './by-hand.ts';
import { factsOf, type OwnerFacts } from './facts.ts';
import { isFrozen } from './freezer.ts';
import {
  bootedAt,
  hasLiveThreads,
  kernelKnows,
  lookAt,
  mayHide,
  namespaceOf,
  pidsOf,
  processesOf,
  type ProcessSeen,
} from './proc.ts';
import { AFTERLIFE, answer, gone, plain, second, type Answer } from './words.ts';

/**
 * Looks for the owner's process on this machine, in /proc.
 *
 * What can be compared, and what it is worth:
 *
 * - The boot id is the kernel's: random, another at each boot, the same in all containers of the machine. The same boot id
 *   is the same running kernel. (The one exception is a machine restored from an image of its memory, twice.)
 * - The pid namespace is a number that is unique among those that exist on a running kernel, and is used again when its
 *   namespace is gone, with all processes in it. So with the same boot id the same number is the same namespace, or the
 *   owner's has ended: to find no such process proves the end either way.
 * - The machine id is a file. Images of containers and of disks are copied with it, and many have none, so the same one
 *   is not the same machine, and another one not another machine. It proves something only of processes outside of
 *   containers, and is believed only where host name and times agree.
 * - A pid is a number in its namespace, and comes back. With the ticks at which the process started it does not: a process
 *   that got the number later started later.
 * - Any of them may be missing or made up. To find the very process can be believed in any case. Not to find it counts as
 *   `gone` only if nothing speaks against having looked in the right place.
 */
export function sameHost(): OwnerProbe {
  return sameHostAs(ownerIdentity(), '/proc');
}

/** For tests: this process as `here` and what its system shows in `proc`. */
export function sameHostAs(here: OwnerIdentity, proc: string): OwnerProbe {
  return {
    name: 'same-host',
    async probe(owner, { signal }): Promise<OwnerFinding> {
      const facts = factsOf(owner);
      const found = await look(facts, factsOf(here), proc, signal);
      return { probe: 'same-host', caveat: '', ...found, byHand: processByHand(facts) };
    },
  };
}

/** That of the system itself, on every Linux since 3.8 (PROC_PID_INIT_INO of include/linux/proc_ns.h). */
const INITIAL_NAMESPACE = 'pid:[4026531836]';

async function look(owner: OwnerFacts, here: OwnerFacts, proc: string, signal: AbortSignal): Promise<Answer> {
  if (here.bootId === undefined || here.pidNamespace === undefined) {
    return answer(
      'unverifiable',
      'this system has no /proc that tells boot and pid namespace, so no pid can be compared',
    );
  }
  if (owner.bootId === undefined || owner.pidNamespace === undefined || owner.pid === undefined) {
    return answer(
      'unverifiable',
      'the record does not say in which boot and pid namespace the pid of its owner counts',
    );
  }
  if (owner.bootId !== here.bootId) return otherBoot(owner, here, proc);
  // /proc of another namespace, as after `unshare --pid` without a mount of its own: its numbers are not ours.
  if ((await pidsOf(proc, 'self')).length !== 1) {
    return answer('unverifiable', '/proc on this host does not show the pid namespace of this process');
  }
  signal.throwIfAborted();
  if (owner.pidNamespace === here.pidNamespace) return sameNamespace(owner, owner.pid, here, proc);
  return otherNamespace(owner, owner.pid, here, proc, signal);
}

/** The machine has booted since, if it is the same. */
async function otherBoot(owner: OwnerFacts, here: OwnerFacts, proc: string): Promise<Answer> {
  const elsewhere = `the owner ran on ${owner.host ?? 'a host without a usable name'}, in another boot or on another machine than this one`;
  const unverifiable = (why: string): Answer => answer('unverifiable', `${elsewhere}: ${why}`);
  if (owner.machineId === undefined || here.machineId === undefined)
    return unverifiable('there is no machine id to compare');
  if (owner.machineId !== here.machineId) return unverifiable('the machine ids differ');
  const contained = [owner, here].some(
    ({ container, pod, pidNamespace }) =>
      container !== undefined || pod !== undefined || pidNamespace !== INITIAL_NAMESPACE,
  );
  if (contained) return unverifiable('the machine ids are equal, but those in containers come with the image');
  if (owner.host === undefined || owner.host !== here.host) {
    return unverifiable('the machine ids are equal, but the host names are not; copied disks share their machine id');
  }
  const booted = await bootedAt(proc);
  if (booted === undefined || owner.startedAt === undefined) return unverifiable('it is not known which was first');
  // A copy of this machine that runs beside it would have been started at any time, the owner's boot ended before ours began.
  if (owner.startedAt >= booted) {
    return unverifiable(`it started at ${second(owner.startedAt)}, when this machine was up (since ${second(booted)})`);
  }
  return gone(
    `this host has booted since, at ${second(booted)}; the owner started at ${second(owner.startedAt)}, in an earlier boot`,
    `misleading if another machine was copied with its machine id and host name; ${AFTERLIFE}`,
  );
}

async function sameNamespace(owner: OwnerFacts, pid: number, here: OwnerFacts, proc: string): Promise<Answer> {
  const found = await judge(owner, pid, proc, () => kernelKnows(pid));
  if (found.state !== 'gone') return found;
  const doubt = doubtOf(owner, here);
  return doubt === undefined ? found : answer('unverifiable', `${found.detail}, but ${doubt}`);
}

/** Why not to find a process here may not mean that it has ended. */
function doubtOf(owner: OwnerFacts, here: OwnerFacts): string | undefined {
  // Machines restored from one image of memory have the same boot id; whoever makes such copies gives them names.
  if (owner.host !== here.host)
    return `the owner ran on ${owner.host ?? 'a host without a usable name'}, this is ${here.host ?? 'one'}`;
  // Both without: two processes in one container whose image has none. The boot id says more than it could.
  if (owner.machineId !== here.machineId) return 'its machine id is another than here';
  return undefined;
}

/** The process `pid` of the mount, taken for the owner's. */
async function judge(owner: OwnerFacts, pid: number, proc: string, isKnown: () => boolean): Promise<Answer> {
  const seen = await lookAt(proc, pid);
  if (seen === 'absent') {
    if (!isKnown()) return gone(`no process ${owner.pid} on this host, same boot`);
    return answer('unverifiable', `a process ${owner.pid} exists, but /proc on this host hides it (hidepid)`);
  }
  if (seen === 'hidden')
    return answer('unverifiable', `process ${owner.pid} exists, but may not be looked at from here`);
  if (owner.startTicks === undefined) {
    return answer('unverifiable', `a process ${owner.pid} exists; the record does not say when its owner started`);
  }
  if (seen.startTicks !== owner.startTicks) return another(owner, pid, proc, seen);
  const found = await alive(owner, pid, proc, seen);
  if (found.state === 'gone') return found;
  return { ...found, endByHand: endByHand(pid, seen.startTicks, found.state === 'stopped') };
}

/** There is a process of that number that did not start when the owner did. */
async function another(owner: OwnerFacts, pid: number, proc: string, seen: ProcessSeen): Promise<Answer> {
  const booted = await bootedAt(proc);
  const since = booted === undefined ? '' : `, started ${second(booted + (seen.startTicks / TICKS_PER_S) * 1000)}`;
  // A number is given to a later process only when the earlier one has ended. An earlier start, or one that is counted
  // from elsewhere, can be the same process: in a time namespace the time since the boot is another.
  const [its, ours] = await Promise.all([namespaceOf(proc, pid, 'time'), namespaceOf(proc, 'self', 'time')]);
  if (seen.startTicks < (owner.startTicks ?? 0) || (its !== undefined && its !== ours)) {
    return answer(
      'unverifiable',
      `process ${owner.pid}${since} counts its time from elsewhere than the record of the owner`,
    );
  }
  return gone(`pid ${owner.pid} is another process now${since}`);
}

/** USER_HZ, which is 100 on every architecture that Node runs on. */
const TICKS_PER_S = 100;

async function alive(owner: OwnerFacts, pid: number, proc: string, { state }: ProcessSeen): Promise<Answer> {
  switch (state) {
    case 'Z':
    case 'X':
    case 'x':
      return (await hasLiveThreads(proc, pid))
        ? answer('alive', `the first thread of process ${owner.pid} has ended, others have not yet`)
        : gone(`process ${owner.pid} has ended and waits to be reaped by its parent`);
    case 'T':
      return answer(
        'stopped',
        `process ${owner.pid} is stopped by a signal (state T)`,
        'it goes on where it stood on SIGCONT',
      );
    case 't':
      return answer(
        'stopped',
        `process ${owner.pid} is stopped by a debugger (state t)`,
        'it goes on when the debugger lets it',
      );
  }
  const frozen = await isFrozen(proc, pid);
  if (frozen === true) {
    return answer(
      'stopped',
      `process ${owner.pid} is in a frozen cgroup`,
      'it goes on where it stood when that is thawed',
    );
  }
  const unread = frozen === undefined ? 'whether its cgroup is frozen could not be read' : '';
  return answer('alive', `process ${owner.pid} exists, state ${plain(state)}, and started when the owner did`, unread);
}

/**
 * From the initial namespace all processes of the machine can be seen, each with its numbers in its namespaces, unless the
 * mount hides some; the namespace of process 1 can be read only by whoever may look at all of them even then.
 */
async function otherNamespace(
  owner: OwnerFacts,
  pid: number,
  here: OwnerFacts,
  proc: string,
  signal: AbortSignal,
): Promise<Answer> {
  const hides = (await mayHide(proc)) && (await namespaceOf(proc, 1, 'pid')) === undefined;
  let isBlind = hides || here.pidNamespace !== INITIAL_NAMESPACE;
  for (const outer of await processesOf(proc)) {
    signal.throwIfAborted();
    const pids = await pidsOf(proc, outer);
    const isCandidate = pids.length > 1 && pids.at(-1) === pid;
    const namespace = isCandidate ? await namespaceOf(proc, outer, 'pid') : undefined;
    if (pids.length === 0 || (isCandidate && namespace === undefined)) {
      isBlind ||= (await lookAt(proc, outer)) !== 'absent'; // or it has just ended
    }
    if (namespace !== owner.pidNamespace) continue;
    const found = await judge(owner, outer, proc, () => kernelKnows(outer));
    return { ...found, detail: `${found.detail} (here ${outer}: its pid namespace is another)` };
  }
  if (isBlind) {
    return answer(
      'unverifiable',
      `the owner is in another pid namespace of this machine, which cannot be seen from here; ask on the host, as root`,
    );
  }
  return gone(
    `no process ${pid} in its pid namespace, same boot`,
    `misleading if this machine was copied with its memory and runs twice; ${AFTERLIFE}`,
  );
}
