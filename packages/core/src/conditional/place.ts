import { ConfigError, FenceUnavailableError, LeaseholdError } from '../errors.ts';
import { show } from '../show.ts';
import { messageOf } from '../thrown.ts';
import type { Budget } from './budget.ts';
import { cellProblem, fateOf, type ConditionalCell } from './cell.ts';

/** A cell as it was found, and its version: whatever `compareAndSet` compares. */
export interface Versioned<V, Version> {
  readonly version: Version;
  readonly cell: ConditionalCell<V>;
}

/** The two calls that a place must have; `ConditionalOptions` says what they promise. */
export interface PlaceCalls<V, Version> {
  read(resource: string, signal: AbortSignal): Promise<Versioned<V, Version> | null>;
  compareAndSet(
    resource: string,
    version: Version | null,
    cell: ConditionalCell<V>,
    signal: AbortSignal,
  ): Promise<boolean>;
}

export type Found<V> = Versioned<V, unknown> | null;

/** One place with all its cells, as the fence named `fence` uses it: what it cannot make certain it says. */
export class Place<V> {
  readonly #fence: string;
  readonly #calls: PlaceCalls<V, unknown>;
  /** Which false conditions this place has been seen to refuse. */
  readonly #refuses = { absent: false, changed: false };
  #flaw: ConfigError | undefined;

  constructor(fence: string, calls: PlaceCalls<V, unknown>) {
    for (const each of ['read', 'compareAndSet'] as const) {
      if (typeof calls[each] !== 'function') throw new ConfigError(each, `is ${show(calls[each])}: must be a function`);
    }
    this.#fence = fence;
    this.#calls = calls;
  }

  /** What is there, for somebody who has sent nothing so far. */
  async read(resource: string, budget: Budget): Promise<Found<V>> {
    if (this.#flaw !== undefined) throw this.#flaw;
    try {
      return await this.#look(resource, budget);
    } catch (error) {
      if (isCertain(error)) throw error;
      throw this.unavailable(resource, `could not be read: ${messageOf(error)}`, error, 'not-written');
    }
  }

  /**
   * Replaces `base` by `next`, and rejects unless it is certain what became of that: written, or nothing and never will
   * be, because something else is there instead. `check` is called before each request, with nothing awaited in between.
   */
  async replace(
    resource: string,
    base: Found<V>,
    next: ConditionalCell<V>,
    check: () => void,
    budget: Budget,
  ): Promise<'written' | { readonly instead: Found<V> }> {
    let at = base;
    for (let round = 0; ; round++) {
      if (round === 0) check();
      else this.#checkAgain(resource, check);
      const sent = await this.#send(resource, at, next, budget, round);
      if (sent === 'set') {
        await this.#prove(resource, at, next, budget);
        return 'written';
      }
      // Also after a conflict: some clients send again by themselves, and the second request meets what the first one did.
      const now = await this.#find(resource, budget, sent.cause);
      switch (fateOf(next.writeId, base?.cell ?? null, now?.cell ?? null)) {
        case 'written':
          return 'written';
        case 'passed':
          return { instead: now };
        case 'unknown':
          throw this.unavailable(
            resource,
            now === null
              ? 'its cell is gone: somebody has deleted it, and with it what the fence knew'
              : `no certain answer: ${messageOf(sent.cause)}, and too much has changed since to tell`,
            sent.cause,
          );
        case 'open':
          // A late request may still arrive. The same cell once more: whichever wins, it is the same write.
          at = now;
      }
      await budget.pause(round);
      if (budget.isOver) throw this.unavailable(resource, `no certain answer: ${messageOf(sent.cause)}`, sent.cause);
    }
  }

  unavailable(
    resource: string,
    detail: string,
    cause?: unknown,
    outcome: 'not-written' | 'unknown' = 'unknown',
  ): FenceUnavailableError {
    return new FenceUnavailableError(resource, this.#fence, detail, cause, outcome);
  }

  async #send(
    resource: string,
    at: Found<V>,
    next: ConditionalCell<V>,
    budget: Budget,
    round: number,
  ): Promise<'set' | { readonly cause: unknown }> {
    try {
      if (await this.#compareAndSet(resource, at, next, budget)) return 'set';
      return { cause: new Error('compareAndSet met another version than the one that was read') };
    } catch (cause) {
      if (!isCertain(cause)) return { cause };
      if (round === 0) throw cause;
      throw this.unavailable(resource, `no certain answer, and then: ${messageOf(cause)}`, cause);
    }
  }

  async #compareAndSet(resource: string, at: Found<V>, next: ConditionalCell<V>, budget: Budget): Promise<boolean> {
    const answer: unknown = await budget.within(budget.totalMs / 3, (signal) =>
      this.#calls.compareAndSet(resource, at === null ? null : at.version, next, signal),
    );
    if (typeof answer === 'boolean') return answer;
    throw new ConfigError('compareAndSet', `gave ${show(answer)}: must give true, or false for a conflict`);
  }

  /** Before the same is sent again. What was sent before may still arrive, whatever stops us now. */
  #checkAgain(resource: string, check: () => void): void {
    try {
      check();
    } catch (lost) {
      throw this.unavailable(resource, 'its answer was lost, and then the lease', lost);
    }
  }

  /** Looks until there is an answer. */
  async #find(resource: string, budget: Budget, cause: unknown): Promise<Found<V>> {
    let why = '';
    for (let round = 0; !budget.isOver; round++) {
      try {
        return await this.#look(resource, budget);
      } catch (error) {
        why = `, and it could not be read: ${messageOf(error)}`;
        if (isCertain(error)) break;
      }
      await budget.pause(round);
    }
    throw this.unavailable(resource, `no certain answer: ${messageOf(cause)}${why}`, cause);
  }

  async #look(resource: string, budget: Budget): Promise<Found<V>> {
    const found = await budget.within(budget.totalMs / 3, (signal) => this.#calls.read(resource, signal));
    if (found === null) return null;
    if (typeof found !== 'object') {
      throw new ConfigError('read', `gave ${show(found)}: must give { version, cell }, or null if there is none`);
    }
    const problem = cellProblem(found.cell, resource);
    if (problem === null) return found;
    throw this.unavailable(resource, `its place ${problem}`, undefined, 'not-written');
  }

  /**
   * Tries, once in the life of a fence, two conditions that do not hold: a place that ignores conditions, or whose version
   * stays the same when only the mark has changed, would admit everybody. What it would write is what is there.
   */
  async #prove(resource: string, before: Found<V>, cell: ConditionalCell<V>, budget: Budget): Promise<void> {
    if (!this.#refuses.absent) this.#refuses.absent = await this.#isRefused(resource, null, cell, budget);
    if (this.#refuses.changed || before === null) return;
    this.#refuses.changed = await this.#isRefused(resource, before, cell, budget);
  }

  async #isRefused(resource: string, at: Found<V>, cell: ConditionalCell<V>, budget: Budget): Promise<boolean> {
    if (budget.isOver) return false;
    try {
      if (!(await this.#compareAndSet(resource, at, cell, budget))) return true;
    } catch {
      // No answer proves nothing: the next change tries again.
      return false;
    }
    const how = at === null ? 'as if nothing were there (version null)' : 'with a version that has passed';
    this.#flaw = new ConfigError(
      'compareAndSet',
      `was called ${how}, and replaced what is there: it ignores its condition, or versions do not change with every part of a cell; it protects nothing`,
    );
    throw this.#flaw;
  }
}

/** Whether nothing was written, for certain, or asking again is no use. */
function isCertain(error: unknown): boolean {
  const known = LeaseholdError.of(error);
  return known?.code === 'CONFIG' || (known as FenceUnavailableError | undefined)?.outcome === 'not-written';
}
