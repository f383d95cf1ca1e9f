/** Whether the cgroup of a process is frozen (`docker pause`, `systemctl freeze`, a suspended container). */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Undefined if that cannot be read from here. */
export async function isFrozen(proc: string, pid: number): Promise<boolean | undefined> {
  const [cgroups, mounts] = await Promise.all([read(`${proc}/${pid}/cgroup`), read(`${proc}/self/mountinfo`)]);
  if (cgroups === undefined || mounts === undefined) return undefined;
  const answers = await Promise.all(filesOf(cgroups, mountsOf(mounts)).map(readFrozen));
  if (answers.includes(true)) return true;
  return answers.length === 0 || answers.includes(undefined) ? undefined : false;
}

interface Mount {
  readonly version: 1 | 2;
  /** The part of the hierarchy that is mounted there. */
  readonly root: string;
  readonly at: string;
}

/** Where the freezer can be read (proc_pid_mountinfo(5)). */
function mountsOf(mountinfo: string): Mount[] {
  return mountinfo.split('\n').flatMap((line): Mount[] => {
    const [before = '', after = ''] = line.split(' - ');
    const [, , , root, at] = before.split(' ');
    const [type, , options = ''] = after.split(' ');
    if (root === undefined || at === undefined) return [];
    if (type === 'cgroup2') return [{ version: 2, root, at: unescaped(at) }];
    if (type === 'cgroup' && options.split(',').includes('freezer')) return [{ version: 1, root, at: unescaped(at) }];
    return [];
  });
}

function unescaped(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/**
 * A process is in one group of each hierarchy, and each can freeze it: `0::/a` in that of version 2, `6:freezer:/a` in
 * that of version 1. What is frozen above shows in the groups below, so the innermost is enough.
 */
function filesOf(
  cgroups: string,
  mounts: readonly Mount[],
): { readonly version: 1 | 2; readonly path: string | undefined }[] {
  return cgroups.split('\n').flatMap((line) => {
    const [, controllers, group] = line.match(/^\d+:([^:]*):(\/.*)$/) ?? [];
    if (controllers === undefined || group === undefined) return [];
    const version = controllers === '' ? 2 : controllers.split(',').includes('freezer') ? 1 : undefined;
    // No group can be frozen as a whole by the root's own: there is no such file.
    if (version === undefined || group === '/') return [];
    const mount = mounts.find((mount) => mount.version === version);
    return [{ version, path: mount === undefined ? undefined : pathIn(mount, group, version) }];
  });
}

function pathIn({ root, at }: Mount, group: string, version: 1 | 2): string | undefined {
  const inside =
    root === '/' ? group : group === root || group.startsWith(`${root}/`) ? group.slice(root.length) : undefined;
  // A group outside of what is mounted here; `/../a`: outside of the reader's cgroup namespace.
  if (inside === undefined || inside.split('/').includes('..')) return undefined;
  return join(at, inside, version === 2 ? 'cgroup.events' : 'freezer.state');
}

async function readFrozen({
  version,
  path,
}: {
  version: 1 | 2;
  path: string | undefined;
}): Promise<boolean | undefined> {
  const text = path === undefined ? undefined : await read(path);
  if (text === undefined) return undefined;
  if (version === 1) return text.startsWith('FROZEN');
  const frozen = text.match(/^frozen ([01])$/m)?.[1];
  return frozen === undefined ? undefined : frozen === '1'; // kernels before 5.2 have no such line
}

async function read(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch(() => undefined);
}
