import { open, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';

import { makeFolder } from '../folder.ts';

/** Only who wrote it may read it: what owners are called, and where they run, is nobody else's affair. */
const MODE = 0o600;
const FOLDER_MODE = 0o700;

export interface Pair {
  readonly json: string;
  readonly markdown: string;
}

/**
 * Two files of one name that nobody else has, both whole or none of them. What is there already is left alone, whatever it
 * is, links among it. Resolves with their paths; rejects with the error of the file system.
 */
export async function writePair(folder: string, base: string, texts: Pair): Promise<Pair> {
  await makeFolder(folder, FOLDER_MODE);
  for (let number = 1; ; number++) {
    const name = join(folder, number === 1 ? base : `${base}-${number}`);
    const paths: Pair = { json: `${name}.json`, markdown: `${name}.md` };
    const isWritten = await allOrNone([
      [paths.json, texts.json],
      [paths.markdown, texts.markdown],
    ]);
    if (isWritten) return paths;
  }
}

/** False if there is something by one of these names; then nothing was left of the others. */
async function allOrNone(files: readonly (readonly [path: string, text: string])[]): Promise<boolean> {
  const ours: { readonly path: string; readonly handle: FileHandle }[] = [];
  let isWhole = false;
  try {
    // All names first, and then what is in them.
    for (const [path] of files) ours.push({ path, handle: await open(path, 'wx', MODE) });
    for (const [at, [, text]] of files.entries()) {
      await ours[at]?.handle.writeFile(text);
      await ours[at]?.handle.sync();
    }
    isWhole = true;
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    for (const { path, handle } of ours) {
      await handle.close();
      if (!isWhole) await rm(path, { force: true });
    }
  }
}

/** `leasehold-customer_42-20261130T031502Z`: a name on every file system, whatever the resource is called. */
export function pairName(resource: string, at: Date): string {
  const safe = resource.replace(/[^A-Za-z0-9._-]+/g, '_').slice(0, 80);
  return `leasehold-${safe}-${at.toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
}
