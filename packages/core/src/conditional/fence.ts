import { systemClock, type Clock } from '../clock.ts';
import type { Duration } from '../duration.ts';
import { ConfigError, StaleTokenError, TokenOutOfRangeError } from '../errors.ts';
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
} from '../fence/fence.ts';
import { Turns } from '../fence/turns.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { Budget, callTimeoutMs } from './budget.ts';
import { nextCell, type ConditionalCell } from './cell.ts';
import { Place, type PlaceCalls, type Versioned } from './place.ts';
import { Run, type ConditionalTx } from './tx.ts';

/**
 * The place that is protected: one cell a resource, read and conditionally replaced as a whole. To be written for a
 * DynamoDB table, objects with generations, a MongoDB collection, etcd: docs/fences.md has some.
 *
 * Whatever a call throws means that its outcome is not known, and the fence finds out. Two errors are taken at their
 * word and end the call: `ConfigError`, and `FenceUnavailableError` with outcome `not-written`. The signal is aborted
 * when nobody waits for the answer any more.
 */
export interface ConditionalOptions<V, Version> extends PlaceCalls<V, Version> {
  /** Unique among the fences of one acquisition. Default `conditional`. */
  readonly name?: string | undefined;
  /**
   * Say `true` if `compareAndSet` compares and replaces in one atomic step for all clients there are, and no version ever
   * comes back (linearizable: not a replica, not a cache, not "last writer wins" between regions). It becomes `enforcing`.
   */
  readonly atomic: boolean;
  /**
   * The cell of a resource as the last `compareAndSet` made it, or null if there is none. Its version must be another one
   * after every change of anything in the cell; the cell's own `writeId` will do where conditions can name a field.
   */
  read(resource: string, signal: AbortSignal): Promise<Versioned<V, Version> | null>;
  /**
   * Puts `cell` in the place of `version`, or where nothing is if that is null. False if something else was there: then
   * nothing was changed.
   */
  compareAndSet(
    resource: string,
    version: Version | null,
    cell: ConditionalCell<V>,
    signal: AbortSignal,
  ): Promise<boolean>;
  /**
   * Within which every call settles, the time of its own body not counted but that of writes before it in this process; a
   * single request gets a third. @default '5s'
   */
  readonly timeout?: Duration | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * A fence over a place that can do nothing but replace a cell if it is still the one that was read. Mark and value are in
 * the same cell, so that every admission changes the version that a late write depends on.
 *
 * Throws `ConfigError` for options that cannot work.
 */
export function conditionalFence<V, Version = string>(options: ConditionalOptions<V, Version>): ConditionalFence<V> {
  refuseUnknown(options, ['name', 'atomic', 'read', 'compareAndSet', 'timeout', 'clock']);
  return new ConditionalFence<V>(options);
}

interface Proposal<V, T> {
  readonly value: T;
  /** Null if there is nothing to change. */
  readonly next: ConditionalCell<V> | null;
}

type Propose<V, T> = (cell: ConditionalCell<V> | null) => Proposal<V, T> | Promise<Proposal<V, T>>;

export class ConditionalFence<V> implements Fence<ConditionalTx<V>> {
  readonly name: string;
  /** Whether the options said `atomic: true`. */
  readonly enforcing: boolean;
  readonly #place: Place<V>;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #turns: Turns;

  // What a version is only the place knows.
  constructor(options: ConditionalOptions<V, unknown>) {
    const { name = 'conditional', atomic, timeout = '5s', clock = systemClock } = options;
    if (typeof atomic !== 'boolean') {
      throw new ConfigError('atomic', `is ${show(atomic)}: must be true if compareAndSet is one atomic step, or false`);
    }
    this.name = name;
    this.enforcing = atomic;
    this.#place = new Place(name, options);
    this.#timeoutMs = callTimeoutMs(timeout);
    this.#clock = clock;
    this.#turns = new Turns(name, clock, this.#timeoutMs);
  }

  async activate(grant: Grant | Holding): Promise<void> {
    const asked = grantOf(grant);
    this.#checkRange(asked.resource, asked.fencingToken);
    await this.#change(asked.resource, noCheck, (cell) => {
      this.#refuseStale(cell, grant);
      if (isAdmitted(cell, asked)) return unchanged;
      return { value: undefined, next: nextCell(cell, { ...asked, value: cell?.value ?? null }) };
    });
  }

  /**
   * Runs `body` over the current value, then puts mark and value in place with one `compareAndSet`. If another write of the
   * same grant was faster the body **runs again**, over the fresh value, as in every compare-and-set loop: what it does
   * besides `tx.set` must bear that. A body that sets nothing writes nothing but the admission.
   *
   * A reply that was lost is never guessed: the fence reads what is there, and either finds this write, or knows that it can
   * never arrive, or sends the same again. `FenceUnavailableError` has outcome `unknown` only if that took too long.
   */
  async write<T>(grant: Grant | Holding, body: (tx: ConditionalTx<V>) => T | Promise<T>): Promise<T> {
    checkBody(body);
    const asked = grantForWrite(this, grant);
    this.#checkRange(asked.resource, asked.fencingToken);
    const check = (): void => void grantForWrite(this, grant);
    const budget = this.#budget();
    const propose: Propose<V, T> = async (cell) => {
      check();
      this.#refuseStale(cell, grant);
      const run = new Run<V>(cell?.value ?? null);
      const value = await budget.outside(() => run.run(body));
      if (!run.isChanged && isAdmitted(cell, asked)) return { value, next: null };
      return { value, next: nextCell(cell, { ...asked, value: run.value }) };
    };
    return this.#turns.run(asked, () => this.#change(asked.resource, check, propose, budget));
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    checkQualified(resource);
    checkToken(fencingToken);
    this.#checkRange(resource, fencingToken);
    const sealed = { resource, fencingToken, leaseId: null };
    await this.#change(resource, noCheck, (cell) => {
      const isHigher = cell !== null && cell.fencingToken > fencingToken;
      if (isHigher || isAdmitted(cell, sealed)) return unchanged;
      return { value: undefined, next: nextCell(cell, { ...sealed, value: cell?.value ?? null }) };
    });
  }

  async highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null> {
    checkQualified(resource);
    const found = await this.#place.read(resource, this.#budget());
    if (found === null) return null;
    const { fencingToken, leaseId } = found.cell;
    return { fencingToken, leaseId };
  }

  /** The loop: read, propose, compare and set; once more if somebody else was faster. */
  async #change<T>(
    resource: string,
    check: () => void,
    propose: Propose<V, T>,
    budget: Budget = this.#budget(),
  ): Promise<T> {
    const checkTime = (round: number): void => {
      if (!budget.isOver) return;
      const why = round === 0 ? 'reading took too long' : `other writes were faster, ${round} times`;
      throw this.#place.unavailable(resource, `${why}; ${this.#timeoutMs} ms are over`, undefined, 'not-written');
    };
    let base = await this.#place.read(resource, budget);
    for (let round = 0; ; round++) {
      // The first time there is something newer at hand already. After that, others are given room.
      if (round > 1) {
        await budget.pause(round);
        checkTime(round);
        base = await this.#place.read(resource, budget);
      }
      const { value, next } = await propose(base?.cell ?? null);
      if (next === null) {
        check();
        return value;
      }
      checkTime(round);
      const outcome = await this.#place.replace(resource, base, next, check, budget);
      if (outcome === 'written') return value;
      base = outcome.instead;
    }
  }

  #budget(): Budget {
    return new Budget(this.#clock, this.#timeoutMs);
  }

  #refuseStale(cell: ConditionalCell<V> | null, grant: Grant | Holding): void {
    const asked = grantOf(grant);
    if (cell === null || admits(cell, asked)) return;
    const highest = { fencingToken: cell.fencingToken, leaseId: cell.leaseId };
    const { resource, fencingToken } = asked;
    throw reportRefusal(grant, new StaleTokenError(resource, { fence: this.name, fencingToken, highest }));
  }

  #checkRange(resource: string, fencingToken: number): void {
    if (fencingToken <= this.#clock.wallUs() + MAX_TOKEN_AHEAD_US) return;
    throw new TokenOutOfRangeError(resource, fencingToken, `fence ${this.name}`);
  }
}

const unchanged = { value: undefined, next: null };

function noCheck(): void {}

function isAdmitted<V>(
  cell: ConditionalCell<V> | null,
  { fencingToken, leaseId }: Pick<ConditionalCell<V>, 'fencingToken' | 'leaseId'>,
): boolean {
  return cell !== null && cell.fencingToken === fencingToken && cell.leaseId === leaseId;
}
