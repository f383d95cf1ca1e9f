import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { closed, opened } from './leftovers.ts';
import { uniqueName } from './redis-client.ts';

/** The hierarchies of cgroups in which this process may make a group and freeze it. */
export function freezers(): { readonly version: 1 | 2; readonly at: string }[] {
  if (process.platform !== 'linux') return [];
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  return mounts.flatMap((mount) => {
    const [, at = '', type = '', options = ''] = mount.split(' ');
    const version = type === 'cgroup2' ? 2 : type === 'cgroup' && options.split(',').includes('freezer') ? 1 : null;
    return version === null || !mayFreeze(at, version) ? [] : [{ version, at }];
  });
}

function mayFreeze(at: string, version: 1 | 2): boolean {
  const group = join(at, uniqueName('leasehold'));
  try {
    mkdirSync(group);
    try {
      return readFileSync(join(group, version === 2 ? 'cgroup.events' : 'freezer.state'), 'utf8') !== '';
    } finally {
      rmdirSync(group);
    }
  } catch {
    return false; // read-only, or not ours
  }
}

/** A group of processes that can be frozen. Whoever is in it when it is disposed is killed. */
export class FreezableGroup implements AsyncDisposable {
  readonly path: string;
  readonly #version: 1 | 2;
  readonly #leftover = { what: 'a cgroup', end: () => this[Symbol.asyncDispose]() };

  constructor({ version, at }: { readonly version: 1 | 2; readonly at: string }) {
    this.#version = version;
    this.path = join(at, uniqueName('leasehold'));
    mkdirSync(this.path);
    opened(this.#leftover);
  }

  add(pid: number): void {
    writeFileSync(join(this.path, 'cgroup.procs'), `${pid}`);
  }

  /** Resolves when the system says that all in it stand still. */
  async freeze(): Promise<void> {
    await this.#set(true);
  }

  async thaw(): Promise<void> {
    await this.#set(false);
  }

  /** By the system's word. */
  get isFrozen(): boolean {
    const [file, frozen] = this.#version === 2 ? ['cgroup.events', 'frozen 1'] : ['freezer.state', 'FROZEN'];
    return readFileSync(join(this.path, file), 'utf8').includes(frozen);
  }

  /** Whoever is in it goes on outside of it, and it is no more. */
  async letGo(): Promise<void> {
    await this.thaw();
    for (const pid of this.#pids()) {
      try {
        writeFileSync(join(dirname(this.path), 'cgroup.procs'), pid);
      } catch {
        // it has just ended
      }
    }
    await this[Symbol.asyncDispose]();
  }

  async #set(isFrozen: boolean): Promise<void> {
    const [file, value, state, wanted] =
      this.#version === 2
        ? ['cgroup.freeze', isFrozen ? '1' : '0', 'cgroup.events', `frozen ${isFrozen ? 1 : 0}`]
        : ['freezer.state', isFrozen ? 'FROZEN' : 'THAWED', 'freezer.state', isFrozen ? 'FROZEN' : 'THAWED'];
    writeFileSync(join(this.path, file), value);
    while (!readFileSync(join(this.path, state), 'utf8').includes(wanted)) await sleep(1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    closed(this.#leftover);
    await this.thaw();
    for (const pid of this.#pids()) process.kill(Number(pid), 'SIGKILL');
    while (this.#pids().length > 0) await sleep(1);
    for (;;) {
      try {
        return rmdirSync(this.path);
      } catch (error) {
        // The kernel may need a moment more to let go of the last one.
        if (!(error instanceof Error && 'code' in error && error.code === 'EBUSY')) throw error;
        await sleep(1);
      }
    }
  }

  #pids(): string[] {
    return readFileSync(join(this.path, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean);
  }
}
