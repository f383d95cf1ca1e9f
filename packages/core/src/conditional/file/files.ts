import { lstat, open, readFile, rename, statfs, unlink } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { ConfigError } from '../../errors.ts';
import type { FilePlace } from './place.ts';

/** What a file holds, or null if there is none. */
export async function readIfThere(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

export async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

export async function removeIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

export function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

/** The user's file, or null if there is none. Throws `ConfigError` for what is no file. */
export async function lookAtData(place: FilePlace): Promise<Stats | null> {
  let found: Stats;
  try {
    found = await lstat(place.data);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
  if (found.isFile()) return found;
  const what = found.isSymbolicLink()
    ? 'is a symbolic link, which a write would replace; give the path of the file itself'
    : 'is no file';
  throw new ConfigError('path', `${place.data} ${what}`);
}

/** Makes a file that is on the disk, not only on its way there. Replaces what a process that died here left behind. */
export async function writeDown(path: string, data: Uint8Array | string, like: Stats | null = null): Promise<void> {
  await removeIfThere(path);
  const file = await open(path, 'wx');
  try {
    await file.writeFile(data);
    if (like !== null) {
      await file.chmod(like.mode & 0o7777);
      // Only root may give files away; anybody else's file becomes that of whoever wrote it.
      if (process.getuid?.() === 0) await file.chown(like.uid, like.gid);
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Puts `from` in the place of `to`, in the same folder: whoever reads `to` sees the old or the new one, whole. */
export async function putInPlace(from: string, to: string, folder: string): Promise<void> {
  await rename(from, to);
  await syncFolder(folder);
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

// Linux, statfs(2). On each of these another machine may use the same folder.
const SHARED: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x01021997, '9p'],
]);

/**
 * Throws `ConfigError` if the folder is known to be on a file system that several machines share: their caches may show an
 * old file after a new one is in place, a repeated request may report the failure of a link that was made, and no machine
 * can tell whether a process of another is gone.
 */
export async function checkLocal(folder: string): Promise<void> {
  if (process.platform !== 'linux') return;
  const { type } = await statfs(folder);
  const name = SHARED.get(type >>> 0);
  if (name === undefined) return;
  throw new ConfigError(
    'path',
    `${folder} is on ${name}, which machines share; a file fence needs a local file system`,
  );
}
