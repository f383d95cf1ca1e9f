import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { systemClock } from '../../../src/clock.ts';
import type { Grant } from '../../../src/fence/fence.ts';
import { newLeaseId } from '../../../src/testing/unique.ts';

/** A folder of a test's own, which is gone when the test is over. */
export class Folder implements AsyncDisposable {
  readonly path: string;

  /** On the disk, or where nothing has to wait for one. */
  static async make(on: 'disk' | 'memory' = 'memory'): Promise<Folder> {
    const parent = on === 'memory' && existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
    return new Folder(await mkdtemp(join(parent, 'leasehold-file-')));
  }

  private constructor(path: string) {
    this.path = path;
  }

  at(name: string): string {
    return join(this.path, name);
  }

  names(): Promise<string[]> {
    return readdir(this.path).then((names) => names.toSorted());
  }

  read(name: string): Promise<string> {
    return readFile(this.at(name), 'utf8');
  }

  write(name: string, text: string): Promise<void> {
    return writeFile(this.at(name), text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}

export function newGrant(resource = 'test/file'): Grant {
  return { resource, fencingToken: systemClock.wallUs(), leaseId: newLeaseId() };
}
