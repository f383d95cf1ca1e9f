import { expect } from 'vitest';

import { LeaseholdError, LeaseLostError, type ErrorCode, type StaleTokenError } from '../../errors.ts';
import type { Fence, Grant, Holding } from '../../fence/fence.ts';
import { newLeaseId, unique } from '../unique.ts';

/** What a fence's own test can do beside the fence. Each hook unlocks the cases that need it. */
export interface FenceHooks<Tx> {
  /** Another fence before the same data, over its own connection. Closed with the subject. */
  second(): Promise<Fence<Tx>>;
  /** How many entries the log has, read inside a write. Not every fence can read there. */
  count(tx: Tx, resource: string): number | Promise<number>;
  /** Arranges that the resource carries out the next write of `fence` and its answer is lost, as when a connection breaks. */
  loseAnswer(): Promise<void>;
  /** Arranges that the next write of `fence` never reaches the resource; where the commit goes apart, that one. */
  loseRequest(): Promise<void>;
  /**
   * A write of `entry` in a process or over a connection of its own, which dies or stops for good when the guard has let it
   * pass and the entry is on its way, before the commit. Resolves when it has come to that.
   */
  abandon(grant: Grant, entry: string): Promise<void>;
}

export type FenceHook = keyof FenceHooks<unknown>;

/**
 * A fence to be examined, made anew for each case, before a log for each resource: `append` writes to it inside a write,
 * `entries` reads it from outside. Resources are qualified names; cases use names of their own.
 */
export interface FenceSubject<Tx> extends Partial<FenceHooks<Tx>> {
  readonly fence: Fence<Tx>;
  /** The fence's clock, in µs since 1970. */
  nowUs(): number | Promise<number>;
  append(tx: Tx, resource: string, entry: string): unknown;
  entries(resource: string): Promise<readonly string[]>;
  /** Set if a write whose answer or request was lost may be reported as `unknown`. By default the fence has to find out. */
  readonly outcomeUnknown?: boolean | undefined;
  /** For so long an abandoned write may hold up a later grant. @default 5000 */
  readonly abandonedMs?: number | undefined;
  close(): Promise<void>;
}

/** One thing that every fence must do. */
export interface FenceCase {
  readonly name: string;
  readonly needs: readonly FenceHook[];
  run(context: FenceContext<unknown>): Promise<void>;
}

/** What a lease saw of its fence. */
export interface Held extends Holding {
  readonly refusals: readonly StaleTokenError[];
}

export class FenceContext<Tx> {
  readonly fence: Fence<Tx>;
  readonly resource: string = `suite/${unique('resource')}`;
  readonly subject: FenceSubject<Tx>;
  #lastToken = 0;

  constructor(subject: FenceSubject<Tx>) {
    this.subject = subject;
    this.fence = subject.fence;
  }

  /** The same words for another fence before the same data, and the same resource. */
  async second(): Promise<FenceContext<Tx>> {
    const fence = await this.#hook('second')();
    return Object.assign(new FenceContext({ ...this.subject, fence }), { resource: this.resource });
  }

  /** The same words for another resource. */
  of(resource: string): FenceContext<Tx> {
    return Object.assign(new FenceContext(this.subject), { resource });
  }

  count(tx: Tx): number | Promise<number> {
    return this.#hook('count')(tx, this.resource);
  }

  loseAnswer(): Promise<void> {
    return this.#hook('loseAnswer')();
  }

  loseRequest(): Promise<void> {
    return this.#hook('loseRequest')();
  }

  abandon(grant: Grant, entry: string): Promise<void> {
    return this.#hook('abandon')(grant, entry);
  }

  /** A grant later than all before it, as the store would give it. */
  async grant(more: Partial<Grant> = {}): Promise<Grant> {
    this.#lastToken = Math.max(this.#lastToken + 1, await this.subject.nowUs());
    return { resource: this.resource, fencingToken: this.#lastToken, leaseId: newLeaseId(), ...more };
  }

  append(grant: Grant | Holding, entry: string): Promise<void> {
    const { resource } = 'grant' in grant ? grant.grant : grant;
    return this.fence.write(grant, async (tx) => {
      await this.subject.append(tx, resource, entry);
    });
  }

  entries(resource: string = this.resource): Promise<readonly string[]> {
    return this.subject.entries(resource);
  }

  /** A lease, as a fence sees it. */
  lease(grant: Grant, state: { held?: boolean; activated?: boolean } = {}): Held {
    const { held = true, activated = true } = state;
    const refusals: StaleTokenError[] = [];
    const { resource, leaseId, fencingToken } = grant;
    return {
      grant,
      refusals,
      assertHeld() {
        if (!held) throw new LeaseLostError(resource, { reason: 'expired', leaseId, fencingToken });
      },
      holding: { mayWrite: () => activated, refused: (error) => void refusals.push(error) },
    };
  }

  /** `work` must reject with a Leasehold error of this code. */
  async refused(code: ErrorCode, work: Promise<unknown>): Promise<LeaseholdError> {
    const error: unknown = await work.then(
      (value) => new Error(`expected ${code}, but it resolved: ${JSON.stringify(value)}`),
      (reason: unknown) => reason,
    );
    if (!LeaseholdError.is(error, code)) throw error;
    return error as LeaseholdError;
  }

  /** `work` must be refused as stale, by a fence that has admitted `highest`. */
  async stale(work: Promise<unknown>, highest: { fencingToken: number; leaseId: string | null }): Promise<void> {
    const error = (await this.refused('STALE_TOKEN', work)) as StaleTokenError;
    const { fencingToken, leaseId } = highest;
    expect(error).toMatchObject({ resource: this.resource, highest: { fencingToken, leaseId } });
  }

  #hook<Name extends FenceHook>(name: Name): FenceHooks<Tx>[Name] {
    const hook = this.subject[name];
    if (hook === undefined) throw new Error(`this case does not say that it needs ${name}`);
    return hook.bind(this.subject) as FenceHooks<Tx>[Name];
  }
}
