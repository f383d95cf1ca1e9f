import { randomBytes } from 'node:crypto';
import { link, open, unlink } from 'node:fs/promises';
import type { Budget } from '../budget.ts';
import { Queues } from '../../fence/turns.ts';
import { isMissing, removeIfThere, writeDown } from './files.ts';
import { holderLine, obstacle, parseHolder, thisProcess, type LockHolder } from './holder.ts';
import type { FilePlace } from './place.ts';

/** Of a call: whether anybody still waits for it, and for how long. */
export interface Waiting {
  readonly budget: Budget;
  readonly isOver: boolean;
}

/** Within one process calls queue here, whichever fence they belong to. */
const queues = new Queues();
/** Why a lock file is still there, by its path. */
const obstacles = new Map<string, string>();

/** Milliseconds between two looks at a lock that somebody holds, at most. */
const LOOK_MS = 25;

/**
 * A lock file that is held. It was made complete under another name and linked to its own: whoever reads it, at whatever
 * instant and after whatever crash, finds out who holds it.
 */
export class FileLock {
  readonly #place: FilePlace;
  readonly #id: string;
  readonly #turn: { end(): void };

  private constructor(place: FilePlace, id: string, turn: { end(): void }) {
    this.#place = place;
    this.#id = id;
    this.#turn = turn;
  }

  /** Waits until it is free, or its holder is proved gone; rejects when nobody waits for it any more. */
  static async take(place: FilePlace, call: Waiting): Promise<FileLock> {
    const turn = queues.take(place.lock);
    await turn.ready;
    const id = randomBytes(16).toString('hex');
    try {
      for (let round = 0; ; round++) {
        if (call.isOver) throw place.unavailable('the time is over');
        const why = await clear(place, place.lock, id);
        if (why === null && (await isMade(place, place.lock, id))) break;
        if (why !== null) obstacles.set(place.lock, why);
        await call.budget.pause(round, LOOK_MS);
      }
    } catch (error) {
      turn.end();
      throw error;
    }
    obstacles.delete(place.lock);
    return new FileLock(place, id, turn);
  }

  /** What a call that has waited too long waited for. */
  static obstacleAt(place: FilePlace): string {
    return obstacles.get(place.lock) ?? `lock file ${place.lock} is in use by other calls of this process`;
  }

  /** False if somebody has removed it by hand: then another may hold it. */
  async isHeld(): Promise<boolean> {
    return (await readLock(this.#place.lock))?.holder?.id === this.#id;
  }

  async release(): Promise<void> {
    try {
      if (await this.isHeld()) await unlink(this.#place.lock);
    } finally {
      this.#turn.end();
    }
  }
}

/**
 * Removes the lock file at `path` if its holder is proved gone. Null if it is not there, or not any more; otherwise why it
 * stays.
 *
 * Whoever removes it holds a break lock of its own (`id`), which is named by the dead lock's id, and looks again once it has
 * that: of two who saw the same dead lock the second would otherwise remove the fresh lock of a third.
 */
async function clear(place: FilePlace, path: string, id: string): Promise<string | null> {
  const found = await readLock(path);
  if (found === null) return null;
  const { holder, lockedMs } = found;
  if (holder === null) {
    return `lock file ${path} does not say who holds it; if no process here writes ${place.data}, remove it`;
  }
  const why = obstacle(holder, lockedMs);
  if (why !== null) return `lock file ${path} is held by ${holderLine(holder)}, ${why}`;
  const breaking = place.breaking(holder.id);
  // One who was about to remove it may be gone as well, and is removed in the same way.
  const other = await clear(place, breaking, id);
  if (other !== null) return other;
  if (!(await isMade(place, breaking, id))) return `lock file ${path} is about to be removed`;
  try {
    if ((await readLock(path))?.holder?.id === holder.id) {
      await unlink(path);
      await removeIfThere(place.candidate(holder.id));
    }
  } finally {
    await removeIfThere(breaking);
  }
  return null;
}

/** Whether there is a lock file of ours at `path` now, in one atomic step; false if there was one already. */
async function isMade(place: FilePlace, path: string, id: string): Promise<boolean> {
  const candidate = place.candidate(id);
  try {
    await writeDown(candidate, JSON.stringify(thisProcess(id)));
    await link(candidate, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    // What is left behind here does no harm.
    await removeIfThere(candidate).catch(() => {});
  }
}

async function readLock(
  path: string,
): Promise<{ readonly holder: LockHolder | null; readonly lockedMs: number } | null> {
  try {
    const file = await open(path, 'r');
    try {
      const { mtimeMs } = await file.stat();
      return { holder: parseHolder(await file.readFile('utf8')), lockedMs: mtimeMs };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
