import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder of a test's own, which is gone when the test is over. */
export class Folder implements AsyncDisposable {
  readonly path: string;

  /** In memory where there is such a place, because many files are synced here; the tests of core use the disk. */
  static async make(): Promise<Folder> {
    return new Folder(await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'leasehold-file-')));
  }

  private constructor(path: string) {
    this.path = path;
  }

  at(name: string): string {
    return join(this.path, name);
  }

  async names(): Promise<string[]> {
    return (await readdir(this.path)).toSorted();
  }

  /** The lines of a file, each of which must be whole. */
  async lines(name: string): Promise<string[]> {
    const text = await readFile(this.at(name), 'utf8').catch(() => '');
    if (text !== '' && !text.endsWith('\n')) throw new Error(`${name} is not whole: ${text}`);
    return text.split('\n').slice(0, -1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}
