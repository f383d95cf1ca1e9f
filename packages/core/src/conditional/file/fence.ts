import { systemClock, type Clock } from '../../clock.ts';
import type { Duration } from '../../duration.ts';
import { ConfigError, LeaseholdError, StaleTokenError, TokenOutOfRangeError } from '../../errors.ts';
import {
  admits,
  checkBody,
  checkQualified,
  checkToken,
  grantForWrite,
  grantOf,
  MAX_TOKEN_AHEAD_US,
  reportRefusal,
  type Fence,
  type Grant,
  type Holding,
} from '../../fence/fence.ts';
import { Turns } from '../../fence/turns.ts';
import { refuseUnknown } from '../../options.ts';
import { show } from '../../show.ts';
import { given, isError } from '../../thrown.ts';
import { Budget, callTimeoutMs, TimeIsUp } from '../budget.ts';
import { checkLocal, isThere, lookAtData, putInPlace, readIfThere, writeDown } from './files.ts';
import { FileLock } from './lock.ts';
import { markText, readMark, type Mark } from './mark.ts';
import { FilePlace } from './place.ts';
import { contentId, FileRun, type FileTx } from './tx.ts';

export interface FileFenceOptions {
  /** Unique among the fences of one acquisition. Default `file`. */
  readonly name?: string | undefined;
  /**
   * The absolute path of a resource's file (of its qualified name), each resource with one of its own, in a folder that
   * exists. `fileName(resource)` makes any name a safe name of a file.
   */
  readonly path: (resource: string) => string;
  /**
   * Within which every call settles, the time of its own body not counted but that of writes before it in this process.
   * @default '5s'
   */
  readonly timeout?: Duration | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * A fence for a file of the local file system, for the processes of one host, in one pid namespace, that all write it
 * through such a fence. Other programs may read it at any time: it is always whole, the old content or the new one.
 *
 * Beside the file there is `<path>.fence`, who was admitted last: never remove it. Both are changed only under
 * `<path>.fence.lock`, the mark first: a crash in between can refuse, never admit. A lock whose holder is proved gone is
 * removed; one of a process that is stopped, or out of sight, is not. Then calls reject with `FenceUnavailableError`
 * (`not-written`), which says who holds it.
 *
 * Not on NFS, SMB and the like, which are refused where they can be recognised: caches show old files, and nobody can tell
 * whether a process of another machine is gone. Processes in several containers exclude one another, too, but a lock that
 * a dead container left has to be removed by hand, and so has one on systems other than Linux.
 *
 * Throws `ConfigError` for options that cannot work.
 */
export function fileFence(options: FileFenceOptions): FileFence {
  return new FileFence(options);
}

/** One call's way through the lock. */
interface Call {
  readonly budget: Budget;
  /** Nobody waits for it any more: it must stop before its next step that counts. */
  isOver: boolean;
  /** It has not got the lock yet. */
  isWaiting: boolean;
  /** The new content may be in place from now on. */
  isSent: boolean;
}

interface Change {
  readonly data: Buffer | undefined;
  /** The content that the change is based on, if it is. */
  readonly basis: string | undefined;
  /** Called last, with nothing awaited before the file is put in place. */
  check(): void;
}

export class FileFence implements Fence<FileTx> {
  readonly name: string;
  readonly enforcing = true;
  readonly #path: (resource: string) => string;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #turns: Turns;

  constructor(options: FileFenceOptions) {
    refuseUnknown(options, ['name', 'path', 'timeout', 'clock']);
    const { name = 'file', path, timeout = '5s', clock = systemClock } = options;
    if (typeof path !== 'function') throw new ConfigError('path', `is ${show(path)}: must be a function`);
    this.name = name;
    this.#path = path;
    this.#timeoutMs = callTimeoutMs(timeout);
    this.#clock = clock;
    this.#turns = new Turns(name, clock, this.#timeoutMs);
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    const place = this.#place(asked.resource);
    this.#checkRange(asked.resource, asked.fencingToken);
    await this.#commit(place, this.#budget(), (mark) => this.#admit(mark, grant));
  }

  /**
   * Runs `body`, then checks the grant and puts the new content in place, under the lock. The lock is not held while the body
   * runs: an owner that is stopped in there holds up nobody. If the file is not the one any more that the body has read,
   * the body **runs again**. A body that writes nothing changes nothing but the mark.
   *
   * Rejects with `FenceUnavailableError`, whose outcome is `unknown` only if the new content was being put in place when the
   * time was over or the disk failed.
   */
  async write<T>(grant: Grant | Holding, body: (tx: FileTx) => T | Promise<T>): Promise<T> {
    checkBody(body);
    const asked = grantForWrite(this, grant);
    const place = this.#place(asked.resource);
    this.#checkRange(asked.resource, asked.fencingToken);
    const check = (): void => void grantForWrite(this, grant);
    const budget = this.#budget();
    return this.#turns.run(asked, async () => {
      for (let round = 0; ; round++) {
        check();
        // Only the lock makes it certain; but the body of an owner that is stale already has nothing to do.
        const mark = await this.#bounded(place, budget, () => readMark(place));
        this.#admit(mark, grant);
        const run = new FileRun(() => this.#read(place));
        const value = await budget.outside(() => run.run(body));
        const change = { data: run.data, basis: await run.basis(), check };
        if (await this.#commit(place, budget, (mark) => this.#admit(mark, grant), change)) return value;
        await budget.pause(round, 50);
        if (budget.isOver) throw place.unavailable(`other writes were faster, ${round + 1} times`);
      }
    });
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    const place = this.#place(resource);
    this.#checkRange(resource, fencingToken);
    await this.#commit(place, this.#budget(), (mark) =>
      mark !== null && mark.fencingToken > fencingToken ? mark : { fencingToken, leaseId: null },
    );
  }

  async highest(resource: string): Promise<Mark | null> {
    checkQualified(resource);
    const place = this.#place(resource);
    return this.#bounded(place, this.#budget(), async () => {
      await lookAtData(place);
      return readMark(place);
    });
  }

  /** False if the content is not that any more which the change is based on. */
  #commit(
    place: FilePlace,
    budget: Budget,
    decide: (mark: Mark | null) => Mark,
    change: Change = { data: undefined, basis: undefined, check() {} },
  ): Promise<boolean> {
    return this.#bounded(place, budget, async (call) => {
      await checkLocal(place.folder);
      call.isWaiting = true;
      const lock = await FileLock.take(place, call);
      call.isWaiting = false;
      try {
        return await this.#commitLocked(place, lock, call, decide, change);
      } finally {
        await lock.release();
      }
    });
  }

  async #commitLocked(
    place: FilePlace,
    lock: FileLock,
    call: Call,
    decide: (mark: Mark | null) => Mark,
    change: Change,
  ): Promise<boolean> {
    const found = await lookAtData(place);
    const mark = await readMark(place);
    const next = decide(mark);
    const { data, basis } = change;
    if (basis !== undefined && contentId(await readIfThere(place.data)) !== basis) return false;
    const hold = async (): Promise<void> => {
      if (!(await lock.isHeld())) throw place.unavailable(`${place.lock} was removed while this process held it`);
    };
    if (!isSame(mark, next)) {
      await writeDown(place.newMark, markText(place, next));
      await hold();
      mayGoOn(place, call, change);
      // First the mark: whoever dies after this has shut out the earlier grants, and written nothing of its own.
      await put(place, call, place.newMark, place.mark, data === undefined);
    }
    if (data !== undefined) await writeDown(place.newData, data, found);
    await hold();
    mayGoOn(place, call, change);
    if (data !== undefined) await put(place, call, place.newData, place.data, true);
    return true;
  }

  /** Within the time of the call, and with nothing rejected but a `LeaseholdError`. */
  async #bounded<T>(place: FilePlace, budget: Budget, work: (call: Call) => Promise<T>): Promise<T> {
    const call: Call = { budget, isOver: false, isWaiting: false, isSent: false };
    try {
      return await budget.within(budget.leftMs, () => work(call));
    } catch (error) {
      call.isOver = true;
      const outcome = call.isSent ? 'unknown' : 'not-written';
      if (isError(error) && error instanceof TimeIsUp) {
        const why = call.isWaiting ? FileLock.obstacleAt(place) : `the file system of ${place.folder} gave no answer`;
        throw place.unavailable(`${why}; ${this.#timeoutMs} ms are over`, undefined, outcome);
      }
      throw LeaseholdError.of(error) ?? place.failure(error, outcome);
    }
  }

  #read(place: FilePlace): Promise<Buffer | null> {
    return this.#bounded(place, this.#budget(), async () => {
      await lookAtData(place);
      return readIfThere(place.data);
    });
  }

  #place(resource: string): FilePlace {
    return new FilePlace(
      this.name,
      resource,
      given('path', () => this.#path(resource)),
    );
  }

  #budget(): Budget {
    return new Budget(this.#clock, this.#timeoutMs);
  }

  #admit(mark: Mark | null, grant: Grant | Holding): Mark {
    const { resource, fencingToken, leaseId } = grantOf(grant);
    if (mark === null || admits(mark, { resource, fencingToken, leaseId })) return { fencingToken, leaseId };
    throw reportRefusal(grant, new StaleTokenError(resource, { fence: this.name, fencingToken, highest: mark }));
  }

  #checkRange(resource: string, fencingToken: number): void {
    if (fencingToken <= this.#clock.wallUs() + MAX_TOKEN_AHEAD_US) return;
    throw new TokenOutOfRangeError(resource, fencingToken, `fence ${this.name}`);
  }
}

function mayGoOn(place: FilePlace, call: Call, change: Change): void {
  if (call.isOver) throw place.unavailable('the time is over');
  change.check();
}

/** Puts a file in place. Once that `counts`, its outcome is unknown until it has succeeded, or is seen not to have begun. */
async function put(place: FilePlace, call: Call, from: string, to: string, counts: boolean): Promise<void> {
  call.isSent = counts;
  try {
    await putInPlace(from, to, place.folder);
  } catch (error) {
    if (await isThere(from)) call.isSent = false;
    throw error;
  }
}

function isSame(mark: Mark | null, { fencingToken, leaseId }: Mark): boolean {
  return mark !== null && mark.fencingToken === fencingToken && mark.leaseId === leaseId;
}
