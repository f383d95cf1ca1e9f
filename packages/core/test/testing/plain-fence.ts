import { FenceUnavailableError, StaleTokenError, TokenOutOfRangeError } from '../../src/errors.ts';
import {
  admits,
  checkQualified,
  checkToken,
  grantForWrite,
  grantOf,
  MAX_TOKEN_AHEAD_US,
  reportRefusal,
  type Fence,
  type Grant,
  type Holding,
} from '../../src/fence/fence.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';
import type { ManualClock } from '../../src/testing/manual-clock.ts';

export interface Mark {
  readonly fencingToken: number;
  readonly leaseId: string | null;
}

/** The resource: what is there, and what several fences have in common. */
export class Ground {
  readonly values = new Map<string, unknown>();
  readonly marks = new Map<string, Mark>();
  /** The writes that were carried out. */
  readonly done = new Set<number>();
  /** What becomes of the next commit on its way there. */
  trouble: 'none' | 'loses the answer' | 'loses the request' = 'none';
}

/** What a body sees: what is there, under its own changes. */
class Draft implements MemoryTx {
  readonly changes = new Map<string, unknown>();
  readonly #values: ReadonlyMap<string, unknown>;

  constructor(values: ReadonlyMap<string, unknown>) {
    this.#values = values;
  }

  get(key: string): unknown {
    return this.changes.has(key) ? this.changes.get(key) : this.#values.get(key);
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  set(key: string, value: unknown): void {
    this.changes.set(key, value);
  }

  delete(key: string): void {
    this.changes.set(key, undefined);
  }
}

class Lost extends Error {}

let writes = 0;

/**
 * A fence as plain as can be, in parts that can be replaced by wrong ones. It reaches its resource over a line that can
 * lose a request or an answer, and asks afterwards what became of it.
 */
export class PlainFence implements Fence<MemoryTx> {
  readonly name = 'plain';
  readonly enforcing = true;
  readonly ground: Ground;
  readonly clock: ManualClock;
  readonly #turns = new Map<string, Promise<void>>();

  constructor(clock: ManualClock, ground: Ground = new Ground()) {
    this.clock = clock;
    this.ground = ground;
  }

  get values(): ReadonlyMap<string, unknown> {
    return this.ground.values;
  }

  async activate(grant: Grant | Holding): Promise<void> {
    this.admit(this.asked(grant), grant);
  }

  async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
    const end = await this.turn(grantOf(grant));
    try {
      const asked = this.askedToWrite(grant);
      this.admit(asked, grant);
      const draft = new Draft(this.values);
      const value = await this.run(body, draft);
      await this.commit(asked, grant, draft.changes);
      return value;
    } finally {
      end();
    }
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    this.checkRange(resource, fencingToken);
    await this.sealOver(this.mark(resource), resource, fencingToken);
  }

  async highest(resource: string): Promise<Mark | null> {
    checkQualified(resource);
    return this.mark(resource);
  }

  // What follows is what the seeded errors replace.

  keyOf(resource: string): string {
    return resource;
  }

  mark(resource: string): Mark | null {
    return this.ground.marks.get(this.keyOf(resource)) ?? null;
  }

  put(resource: string, mark: Mark): void {
    this.ground.marks.set(this.keyOf(resource), mark);
  }

  asked(grant: Grant | Holding): Grant {
    return grantOf(grant);
  }

  askedToWrite(grant: Grant | Holding): Grant {
    return grantForWrite(this, grant);
  }

  admits(highest: Mark | null, grant: Grant): boolean {
    return admits(highest, grant);
  }

  admit(asked: Grant, grant: Grant | Holding): void {
    const { resource, fencingToken, leaseId } = asked;
    this.checkRange(resource, fencingToken);
    const highest = this.mark(resource);
    if (!this.admits(highest, asked) && highest !== null) throw this.refuse(asked, grant, highest);
    this.put(resource, { fencingToken, leaseId });
  }

  refuse({ resource, fencingToken }: Grant, grant: Grant | Holding, highest: Mark): unknown {
    return reportRefusal(grant, new StaleTokenError(resource, { fence: this.name, fencingToken, highest }));
  }

  checkRange(resource: string, fencingToken: number): void {
    if (fencingToken <= this.clock.wallUs() + MAX_TOKEN_AHEAD_US) return;
    throw new TokenOutOfRangeError(resource, fencingToken, `fence ${this.name}`);
  }

  async sealOver(highest: Mark | null, resource: string, fencingToken: number): Promise<void> {
    if (highest === null || highest.fencingToken <= fencingToken) this.put(resource, { fencingToken, leaseId: null });
  }

  /** Siblings write one after the other. Resolves with what ends this turn. */
  async turn(grant: Grant): Promise<() => void> {
    const before = this.#turns.get(grant.leaseId);
    let end = (): void => {};
    this.#turns.set(grant.leaseId, new Promise((resolve) => (end = resolve)));
    await before;
    return end;
  }

  async run<T>(body: (tx: MemoryTx) => T | Promise<T>, draft: MemoryTx): Promise<T> {
    return body(draft);
  }

  /** The commit and its answer, or what can be found out when there was none. */
  async commit(asked: Grant, grant: Grant | Holding, changes: ReadonlyMap<string, unknown>): Promise<void> {
    const id = ++writes;
    try {
      this.send(() => this.store(id, asked, grant, changes));
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
      if (!this.ground.done.has(id)) throw this.unavailable(asked, 'not-written');
    }
  }

  /** What the resource does. */
  store(id: number, asked: Grant, grant: Grant | Holding, changes: ReadonlyMap<string, unknown>): void {
    this.admit(asked, grant);
    for (const [key, entry] of changes) this.ground.values.set(key, entry);
    this.ground.done.add(id);
  }

  /** Over the line. */
  send(carryOut: () => void): void {
    const { trouble } = this.ground;
    this.ground.trouble = 'none';
    if (trouble === 'loses the request') throw new Lost();
    carryOut();
    if (trouble === 'loses the answer') throw new Lost();
  }

  unavailable({ resource }: Grant, outcome: 'not-written' | 'unknown'): FenceUnavailableError {
    return new FenceUnavailableError(resource, this.name, 'the line broke', undefined, outcome);
  }
}
