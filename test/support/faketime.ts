import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { find } from '../../scripts/services/binaries.mjs';
import { guardedFolder, removeFolder } from '../../scripts/services/guard.mjs';
import { thisMachine } from '../../scripts/services/machine.mjs';
import { closed, opened } from './leftovers.ts';

/** A wall clock that a test moves, for processes started with its `env`. Their monotonic clock stays true. */
export class FakeTime implements Disposable {
  /** For a child process of Node. */
  readonly env: Readonly<Record<string, string>>;
  /** For redis-server: its allocator reads the clock while libfaketime starts, which needs libc to be named behind it. */
  readonly redisEnv: Readonly<Record<string, string>>;
  readonly #dir = guardedFolder('faketime');
  readonly #file = join(this.#dir, 'offset');
  readonly #leftover = { what: 'a fake clock', end: async () => this[Symbol.dispose]() };

  constructor() {
    const library = libraryPath();
    if (library === null) throw new Error('no libfaketime: write this test with testNeeding');
    this.step(0);
    const preload = process.platform === 'darwin' ? 'DYLD_INSERT_LIBRARIES' : 'LD_PRELOAD';
    const common = {
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1', // else Node hangs after a step back
    };
    this.env = { ...common, [preload]: library };
    this.redisEnv = { ...common, [preload]: process.platform === 'linux' ? `${library}:${libc()}` : library };
    opened(this.#leftover);
  }

  /** The wall clock from now on: so many milliseconds ahead of the true one, behind it if negative. */
  step(aheadMs: number): void {
    const seconds = (aheadMs / 1000).toFixed(3);
    this.#write(`${aheadMs < 0 ? '' : '+'}${seconds}`);
  }

  /** The wall clock stands still from now on, at so many milliseconds since 1970 by a process that has UTC for its zone. */
  stop(atMs: number): void {
    // Half a microsecond more, so that none is lost where the fraction is read as a floating point number.
    this.#write(new Date(atMs).toISOString().replace('T', ' ').replace('Z', '0005'));
  }

  #write(text: string): void {
    writeFileSync(`${this.#file}.new`, `${text}\n`);
    renameSync(`${this.#file}.new`, this.#file); // a reader sees the old offset or the new one, never half of it
  }

  [Symbol.dispose](): void {
    closed(this.#leftover);
    removeFolder(this.#dir);
  }
}

function libraryPath(): string | null {
  return find('faketime', thisMachine).path;
}

function libc(): string {
  const report = process.report.getReport() as unknown as { sharedObjects: string[] };
  const path = report.sharedObjects.find((file) => file.endsWith('/libc.so.6'));
  if (path === undefined) throw new Error('no libc.so.6 in this process');
  return path;
}
