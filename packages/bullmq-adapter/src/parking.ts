import type { LeaseManager } from '@leasehold/core';
import { propertyOf } from './thrown.ts';

/** Beyond this nobody is woken, and the delay alone brings a job back. */
const MAX_OF_RESOURCE = 10_000;
const MAX_IN_ALL = 100_000;
const SWEEP_EVERY_MS = 30_000;
/** After a job was brought back: when to look whether it has begun, in whatever process. */
const FIRST_LOOK_MS = 8;
const LAST_LOOK_MS = 2000;

// BullMQ's answers for "not delayed (any more)": gone, in another state.
const NOT_DELAYED: ReadonlySet<unknown> = new Set([-1, -3]);

/** A job as it is woken. */
export interface Parkable {
  readonly id?: string | undefined;
  /** When it was added, ms since 1970: the oldest is woken first. */
  readonly timestamp: number;
  /** It has just been put back. */
  moved(): void;
  /** Rejects with BullMQ's code for "not delayed" if it does not stand any more as it was put back. */
  promote(): Promise<void>;
}

/** Where a job stands that is being put back. */
export interface Spot {
  /** It is delayed, for so long. */
  moved(forMs: number): void;
  /** It was not put back. */
  gone(): void;
  /** From now on it can be brought back. */
  ready(): void;
}

/** One question to the store, with `park`, that has no answer yet. */
export interface Question {
  /** We have the resource: whatever was heard of it meanwhile is done with. */
  granted(): void;
  /** It is busy, held with this token, and this job is being put back. */
  refused(job: Parkable, fencingToken?: number): Spot;
  /** No answer, or nothing to wake. To be called in the end, whatever happened; only the first of the three counts. */
  over(): void;
}

interface Entry {
  readonly job: Parkable;
  readonly lot: Lot;
  /** By the monotonic clock; Infinity while it is being moved. */
  untilMs: number;
  /** It can be brought back. */
  isReady: boolean;
  /** Told that the resource is free before it could be brought back. */
  woken: boolean;
}

interface Row {
  /** The oldest job first. */
  readonly entries: Entry[];
  questions: number;
  /** The resource was said to be free while nobody but questions was there. */
  woken: boolean;
  /** The highest that a holder was seen with. */
  fencingToken: number;
  /** Set while our name is not at the store although more of ours want the resource. */
  look: NodeJS.Timeout | undefined;
}

const registries = new WeakMap<LeaseManager, Parking>();

/**
 * Which jobs this process has put back because their resource was busy. The process waits for them: a refusal leaves its
 * name at the store, the store tells one of the processes when the resource is free (`free` of the manager), and that one
 * brings its oldest job back (`promote`). Being told takes the name away. If more of its jobs wait, it leaves its name again
 * when the job begins, behind the others; and as any process may have got that job, it looks for that to happen. All of it only
 * hurries: a job's own delay brings it back when nobody does.
 *
 * One for each manager, so that one message wakes one job, however many workers there are.
 */
export class Parking {
  readonly #manager: LeaseManager;
  readonly #rows = new Map<string, Row>();
  readonly #visits = new Set<Promise<unknown>>();
  #size = 0;
  #sweeping: NodeJS.Timeout | undefined;

  constructor(manager: LeaseManager) {
    this.#manager = manager;
    // For as long as there is a manager: what the store has of our name outlives the worker that left it.
    manager.on('free', ({ resource }) => this.#wake(resource));
  }

  static of(manager: LeaseManager): Parking {
    const its = registries.get(manager) ?? new Parking(manager);
    registries.set(manager, its);
    return its;
  }

  /** How many jobs are in it. */
  get size(): number {
    return this.#size;
  }

  /** Of how many resources anything is known. */
  get resources(): number {
    return this.#rows.size;
  }

  /** The part of one worker. */
  open(): Lot {
    return new Lot(this);
  }

  ask(resource: string, lot: Lot): Question {
    const row = this.#row(resource);
    row.questions++;
    let isOver = false;
    const end = (): boolean => {
      if (isOver) return false;
      isOver = true;
      row.questions--;
      return true;
    };
    return {
      granted: () => {
        if (end()) row.woken = false;
        this.#tidy(resource, row);
      },
      refused: (job, fencingToken = 0) => {
        if (!end()) return NO_SPOT;
        this.#nameIsLeft(row, fencingToken);
        return this.#park(resource, row, { job, lot, untilMs: Infinity, isReady: false, woken: false });
      },
      over: () => {
        if (!end()) return;
        // Nobody else is left to use what was heard.
        if (row.woken && row.questions === 0) {
          row.woken = false;
          this.#wake(resource);
        }
        this.#tidy(resource, row);
      },
    };
  }

  /** A job of ours begins: the store is to tell us of the end of it, if more of ours want the resource. */
  begins(resource: string): void {
    const row = this.#rows.get(resource);
    if (row === undefined) return;
    clearTimeout(row.look);
    row.look = undefined;
    if (row.entries.length > 0) void this.leaveName(resource);
  }

  /** Resolves when none of the resources is acquired for a moment any more because of what was heard until now. */
  async rest(): Promise<void> {
    await Promise.all(this.#visits);
  }

  /** Asks the store to tell us when the resource is free. Never rejects. */
  async leaveName(resource: string): Promise<void> {
    const holder = await this.#visit(resource, true);
    const row = this.#rows.get(resource);
    if (row === undefined || holder === 'unknown') return;
    if (holder !== 'nobody') this.#nameIsLeft(row, holder);
    else if (row.entries.length > 0) this.#wake(resource);
  }

  remove(resource: string, entry: Entry): void {
    const row = this.#rows.get(resource);
    const at = row?.entries.indexOf(entry) ?? -1;
    if (row === undefined || at < 0) return;
    row.entries.splice(at, 1);
    this.#size--;
    entry.lot.forget(entry.job);
    this.#tidy(resource, row);
  }

  #park(resource: string, row: Row, entry: Entry): Spot {
    const isFull = row.entries.length >= MAX_OF_RESOURCE || this.#size >= MAX_IN_ALL;
    if (!isFull) {
      let at = row.entries.length;
      while (at > 0 && isOlder(entry.job, (row.entries[at - 1] as Entry).job)) at--;
      row.entries.splice(at, 0, entry);
      this.#size++;
      entry.lot.remember(entry.job, () => this.remove(resource, entry));
      this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_EVERY_MS).unref();
    }
    if (row.woken) {
      row.woken = false;
      if (isFull) this.#wake(resource);
      else entry.woken = true;
    }
    if (isFull) return NO_SPOT;
    return {
      moved: (forMs) => {
        entry.untilMs = performance.now() + forMs;
        entry.job.moved();
      },
      gone: () => {
        this.remove(resource, entry);
        if (entry.woken) this.#wake(resource);
      },
      ready: () => {
        entry.isReady = entry.untilMs < Infinity;
        if (!entry.isReady || !entry.woken) return;
        this.remove(resource, entry);
        void this.#promote(resource, entry.job);
      },
    };
  }

  /** The resource is free: one job of ours is to come back, or the next process is to be told. */
  #wake(resource: string): void {
    const row = this.#rows.get(resource);
    if (row !== undefined) {
      this.#dropLate(resource, row);
      const next = row.entries.find(({ isReady }) => isReady) ?? row.entries.find(({ woken }) => !woken);
      if (next !== undefined) {
        if (!next.isReady) {
          next.woken = true;
          return;
        }
        this.remove(resource, next);
        void this.#promote(resource, next.job);
        return;
      }
      if (row.questions > 0) {
        row.woken = true;
        return;
      }
    }
    void this.#visit(resource, false);
  }

  async #promote(resource: string, job: Parkable): Promise<void> {
    const noted = this.#noteToken(resource);
    try {
      await job.promote();
      await noted;
      this.#lookLater(resource, FIRST_LOOK_MS);
    } catch (error) {
      // It came back by itself; or its queue is out of reach, so that it is for another process to go on.
      if (NOT_DELAYED.has(propertyOf(error, 'code'))) this.#wake(resource);
      else await this.#visit(resource, false);
    }
  }

  /**
   * How far the resource has come before our job gets it: whoever had it since our name was left is not our job come and
   * gone. Never rejects.
   */
  async #noteToken(resource: string): Promise<void> {
    const row = this.#rows.get(resource);
    if (row === undefined || row.entries.length === 0) return;
    try {
      const info = await this.#manager.inspect(resource);
      if (info?.state === 'free') row.fencingToken = Math.max(row.fencingToken, info.fencingToken);
    } catch {
      // The store is out of reach, or the manager closed; so it will be for the look.
    }
  }

  #lookLater(resource: string, afterMs: number): void {
    const row = this.#rows.get(resource);
    if (row === undefined || row.entries.length === 0) return;
    clearTimeout(row.look);
    row.look = setTimeout(() => void this.#look(resource, row, afterMs), afterMs).unref();
  }

  /** Whether the job that was brought back has begun. Seldomer and seldomer, because it may stand in line in its queue. */
  async #look(resource: string, row: Row, afterMs: number): Promise<void> {
    row.look = undefined;
    try {
      const info = await this.#manager.inspect(resource);
      if (row.look !== undefined || row.entries.length === 0) return;
      if (info?.state === 'held') {
        await this.leaveName(resource);
      } else if (info !== null && info.fencingToken > row.fencingToken) {
        // It has come and gone, and we were not told.
        row.fencingToken = info.fencingToken;
        this.#wake(resource);
      } else if (afterMs < LAST_LOOK_MS) {
        this.#lookLater(resource, 2 * afterMs);
      }
    } catch {
      // The store is out of reach, or the manager closed.
    }
  }

  #nameIsLeft(row: Row, fencingToken: number): void {
    row.fencingToken = Math.max(row.fencingToken, fencingToken);
    clearTimeout(row.look);
    row.look = undefined;
  }

  /**
   * Acquires and gives back at once, so that the store tells the next one; with `park` it leaves our name if it is refused.
   * The token of the holder, 0 for a waiter whose turn it is. Never rejects.
   */
  #visit(resource: string, park: boolean): Promise<number | 'nobody' | 'unknown'> {
    const visit = this.#callAt(resource, park).finally(() => this.#visits.delete(visit));
    this.#visits.add(visit);
    return visit;
  }

  async #callAt(resource: string, park: boolean): Promise<number | 'nobody' | 'unknown'> {
    try {
      await using visit = await this.#manager.tryAcquire(resource, { park, detached: true });
      return visit.acquired ? 'nobody' : (visit.holder?.fencingToken ?? 0);
    } catch {
      return 'unknown';
    }
  }

  #row(resource: string): Row {
    const row = this.#rows.get(resource) ?? {
      entries: [],
      questions: 0,
      woken: false,
      fencingToken: 0,
      look: undefined,
    };
    this.#rows.set(resource, row);
    return row;
  }

  #tidy(resource: string, row: Row): void {
    if (row.entries.length > 0) return;
    clearTimeout(row.look);
    row.look = undefined;
    if (row.questions === 0) this.#rows.delete(resource);
  }

  /** Whose delay is over comes back by itself; to promote it then could cut another delay short, that of a retry. */
  #dropLate(resource: string, row: Row): void {
    const nowMs = performance.now();
    for (const entry of row.entries.filter(({ untilMs }) => untilMs <= nowMs)) this.remove(resource, entry);
  }

  #sweep(): void {
    for (const [resource, row] of this.#rows) this.#dropLate(resource, row);
    if (this.#size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }
}

/** Added before: jobs of one bulk have one time, and ids that BullMQ counts. */
function isOlder(job: Parkable, other: Parkable): boolean {
  if (job.timestamp !== other.timestamp) return job.timestamp < other.timestamp;
  const [id = '', otherId = ''] = [job.id, other.id];
  return id.length === otherId.length ? id < otherId : id.length < otherId.length;
}

/** What one worker has parked. */
export class Lot {
  readonly #parking: Parking;
  readonly #jobs = new Map<string, { readonly job: Parkable; readonly remove: () => void }>();

  constructor(parking: Parking) {
    this.#parking = parking;
  }

  ask(resource: string): Question {
    return this.#parking.ask(resource, this);
  }

  begins(resource: string): void {
    this.#parking.begins(resource);
  }

  leaveName(resource: string): void {
    void this.#parking.leaveName(resource);
  }

  /** It has come back, whoever brought it. */
  arrived(job: Pick<Parkable, 'id'>): void {
    this.#jobs.get(job.id ?? '')?.remove();
  }

  remember(job: Parkable, remove: () => void): void {
    this.#jobs.set(job.id ?? '', { job, remove });
  }

  forget(job: Parkable): void {
    if (this.#jobs.get(job.id ?? '')?.job === job) this.#jobs.delete(job.id ?? '');
  }

  /** Nobody is left to wake its jobs: the oldest `most` come back at once, to be waited for by another process. */
  async close(most: number): Promise<void> {
    const all = [...this.#jobs.values()].toSorted((a, b) => (isOlder(a.job, b.job) ? -1 : 1));
    for (const { remove } of all) remove();
    await Promise.allSettled(all.slice(0, most).map(({ job }) => job.promote()));
  }
}

const NO_SPOT: Spot = { moved() {}, gone() {}, ready() {} };
