import { systemClock, type Clock } from '../clock.ts';
import { ConfigError, StaleTokenError, TokenOutOfRangeError } from '../errors.ts';
import {
  checkBody,
  checkQualified,
  checkToken,
  admits,
  grantForWrite,
  grantOf,
  MAX_TOKEN_AHEAD_US,
  reportRefusal,
  sealedAt,
  type Fence,
  type Grant,
  type Holding,
  type Mark,
} from './fence.ts';
import { Turns } from './turns.ts';

export interface MemoryFenceOptions {
  /** Default `memory`. */
  readonly name?: string | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * What the body of a write sees of the protected data: what is stored, under its own changes. They are stored when the
 * body has settled, all of them or, if a later grant was admitted in the meantime, none.
 */
export interface MemoryTx {
  get(key: string): unknown;
  has(key: string): boolean;
  set(key: string, value: unknown): void;
  delete(key: string): void;
}

/** So long a write waits for those of its own lease, in milliseconds. */
const TURN_MS = 5000;

/**
 * A protected resource in the memory of this process: a map of values behind a guard. For tests, and for programs of a
 * single process.
 *
 * Writes of one grant run one after the other, so a body that reads and writes loses no update of its siblings. A newer
 * grant never waits for an older one's body: it is admitted at once, and the older write is refused when it would commit.
 * A write that has waited 5 s for the body of another rejects with `FenceUnavailableError` (`not-written`).
 */
export class MemoryFence implements Fence<MemoryTx> {
  readonly name: string;
  readonly enforcing = true;
  readonly #clock: Clock;
  readonly #values = new Map<string, unknown>();
  readonly #highest = new Map<string, Mark>();
  readonly #turns: Turns;

  constructor(options: MemoryFenceOptions = {}) {
    const { name = 'memory', clock = systemClock } = options;
    this.name = name;
    this.#clock = clock;
    this.#turns = new Turns(name, clock, TURN_MS);
  }

  /** What is stored now. */
  get values(): ReadonlyMap<string, unknown> {
    return this.#values;
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    try {
      this.#admit(asked);
    } catch (error) {
      throw reportRefusal(grant, error);
    }
  }

  async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
    checkBody(body);
    return this.#turns.run(grantOf(grant), async () => {
      const admit = (): void => {
        try {
          this.#admit(asked);
        } catch (error) {
          throw reportRefusal(grant, error);
        }
      };
      const asked = grantForWrite(this, grant);
      admit();
      const tx = new View(this.#values);
      const value = await tx.run(body);
      // The check and the changes, with nothing awaited in between.
      admit();
      for (const [key, change] of tx.changes) {
        if (change === null) this.#values.delete(key);
        else this.#values.set(key, change.value);
      }
      return value;
    });
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    this.#checkRange(resource, fencingToken);
    this.#highest.set(resource, sealedAt(this.#highest.get(resource) ?? null, fencingToken));
  }

  async highest(resource: string): Promise<Mark | null> {
    checkQualified(resource);
    return this.#highest.get(resource) ?? null;
  }

  #admit(grant: Grant): void {
    const { resource, fencingToken, leaseId } = grant;
    this.#checkRange(resource, fencingToken);
    const highest = this.#highest.get(resource) ?? null;
    if (highest !== null && !admits(highest, grant)) {
      throw new StaleTokenError(resource, { fence: this.name, fencingToken, highest });
    }
    this.#highest.set(resource, { fencingToken, leaseId });
  }

  #checkRange(resource: string, fencingToken: number): void {
    if (fencingToken > this.#clock.wallUs() + MAX_TOKEN_AHEAD_US) {
      throw new TokenOutOfRangeError(resource, fencingToken, `fence ${this.name}`);
    }
  }
}

type Change = { readonly value: unknown } | null;

/** One write: the values as they are stored, under the changes of its body. */
class View implements MemoryTx {
  readonly changes: Map<string, Change> = new Map();
  readonly #values: ReadonlyMap<string, unknown>;
  #over = false;

  constructor(values: ReadonlyMap<string, unknown>) {
    this.#values = values;
  }

  async run<T>(body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } finally {
      this.#over = true;
    }
  }

  get(key: string): unknown {
    const change = this.#change(key);
    return change === undefined ? this.#values.get(key) : change?.value;
  }

  has(key: string): boolean {
    const change = this.#change(key);
    return change === undefined ? this.#values.has(key) : change !== null;
  }

  set(key: string, value: unknown): void {
    this.#change(key);
    this.changes.set(key, { value });
  }

  delete(key: string): void {
    this.#change(key);
    this.changes.set(key, null);
  }

  #change(key: string): Change | undefined {
    if (this.#over) throw new ConfigError('tx', 'this write is over; use tx only inside its body, and await all of it');
    return this.changes.get(key);
  }
}
