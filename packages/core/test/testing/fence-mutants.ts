import { StaleTokenError } from '../../src/errors.ts';
import { grantForWrite, grantOf, reportRefusal, type Fence, type Grant, type Holding } from '../../src/fence/fence.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';

type Highest = { readonly fencingToken: number; readonly leaseId: string | null };

/** A fence as plain as can be: it does not look at the range, nor keep the writes of one grant apart. */
export class PlainFence implements Fence<MemoryTx> {
  readonly name = 'plain';
  readonly enforcing = true;
  readonly values = new Map<string, unknown>();
  readonly rule: FenceRule;
  readonly #highest = new Map<string, Highest>();

  constructor(rule: FenceRule) {
    this.rule = rule;
  }

  async activate(grant: Grant | Holding): Promise<void> {
    this.#admit(grantOf(grant), grant);
  }

  async write<T>(grant: Grant | Holding, body: (tx: MemoryTx) => T | Promise<T>): Promise<T> {
    const asked = this.rule.asksTheLease === false ? grantOf(grant) : grantForWrite(this, grant);
    this.#admit(asked, grant);
    const staged = new Map(this.values);
    const target = this.rule.isAtomic === false ? this.values : staged;
    const value = await body(target);
    if (this.rule.checksAgain !== false) this.#admit(asked, grant);
    for (const [key, entry] of staged) if (target === staged) this.values.set(key, entry);
    return value;
  }

  async seal(resource: string, fencingToken: number): Promise<void> {
    if (this.rule.seals?.(this.#highest.get(resource), fencingToken) === false) return;
    this.#highest.set(resource, { fencingToken, leaseId: null });
  }

  async highest(resource: string): Promise<Highest | null> {
    return this.#highest.get(resource) ?? null;
  }

  #admit(asked: Grant, grant: Grant | Holding): void {
    const { resource, fencingToken, leaseId } = asked;
    const highest = this.#highest.get(resource);
    if (highest !== undefined && !this.rule.admits(highest, asked)) {
      const error = new StaleTokenError(resource, { fence: this.name, fencingToken, highest });
      throw this.rule.reports === false ? error : reportRefusal(grant, error);
    }
    this.#highest.set(resource, { fencingToken, leaseId });
  }
}

export interface FenceRule {
  readonly admits: (highest: Highest, grant: Grant) => boolean;
  readonly seals?: (highest: Highest | undefined, fencingToken: number) => boolean;
  readonly asksTheLease?: false;
  readonly isAtomic?: false;
  readonly checksAgain?: false;
  readonly reports?: false;
}

export const sound: FenceRule = {
  admits: (highest, grant) =>
    grant.fencingToken > highest.fencingToken ||
    (grant.fencingToken === highest.fencingToken && grant.leaseId === highest.leaseId),
  seals: (highest, fencingToken) => highest === undefined || highest.fencingToken <= fencingToken,
};

/** Each with one error, and the case that must find it. */
export const fenceMutants: readonly { readonly does: string; readonly foundBy: string; readonly rule: FenceRule }[] = [
  {
    does: 'compares the number alone',
    foundBy: 'the same token of another lease is refused: the number alone proves nothing',
    rule: { ...sound, admits: (highest, grant) => grant.fencingToken >= highest.fencingToken },
  },
  {
    does: 'refuses the equal token of the same lease',
    foundBy: 'the same grant is admitted again and again',
    rule: { ...sound, admits: (highest, grant) => grant.fencingToken > highest.fencingToken },
  },
  {
    does: 'admits everybody',
    foundBy: 'a later grant shuts out an earlier one, from its activation on',
    rule: { ...sound, admits: () => true },
  },
  {
    does: 'checks before the body, and not when it writes',
    foundBy: 'nothing of an earlier grant is written after a later one was activated, not even by a write under way',
    rule: { ...sound, checksAgain: false },
  },
  {
    does: 'writes what a failing body had written so far',
    foundBy: 'a body that throws writes nothing, and its own error comes out',
    rule: { ...sound, isAtomic: false },
  },
  {
    does: 'lets the writes of one grant run into one another',
    foundBy: 'bodies that read and write lose no update of their siblings',
    rule: sound,
  },
  {
    does: 'can be lowered by a seal',
    foundBy: 'a seal below the highest changes nothing',
    rule: { ...sound, seals: () => true },
  },
  {
    does: 'ignores seals',
    foundBy: 'a seal shuts out every grant up to it, and admits nobody',
    rule: { ...sound, seals: () => false },
  },
  {
    does: 'accepts any token',
    foundBy: 'a token more than a day ahead is out of range, and shuts out nobody',
    rule: sound,
  },
  {
    does: 'does not ask whether the lease is held',
    foundBy: 'a lease is asked whether it is held before anything is written',
    rule: { ...sound, asksTheLease: false },
  },
  {
    does: 'does not ask whether it was activated',
    foundBy: 'a lease that did not activate this fence does not write to it',
    rule: { ...sound, asksTheLease: false },
  },
  {
    does: 'keeps a refusal to itself',
    foundBy: 'a refusal is told to the lease',
    rule: { ...sound, reports: false },
  },
];
