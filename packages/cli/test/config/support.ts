import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ConfigFileError, type Problem } from '../../src/index.ts';

/** A folder with these files, gone when it is disposed of. */
export async function folderOf(
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<AsyncDisposable & { readonly path: string; file(name: string): string }> {
  const path = await mkdtemp(join(tmpdir(), 'leasehold-config-'));
  for (const [name, text] of Object.entries(files)) await writeFile(join(path, name), text);
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true }),
  };
}

/** What is wrong with a config; fails if nothing is. */
export async function problemsOf(work: () => unknown): Promise<readonly Problem[]> {
  try {
    await work();
  } catch (error) {
    if (error instanceof ConfigFileError) return error.problems;
    throw error;
  }
  throw new Error('nothing is wrong with it');
}

/** A config with one job, which has these keys besides. */
export function withJob(job: object, others: object = {}): never {
  const config = { version: 1, store: { redis: 'redis://127.0.0.1:6379' }, ...others, jobs: { job } };
  // As a file would bring it: what is in it is for the check to judge.
  return config as never;
}
