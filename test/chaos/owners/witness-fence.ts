import { LeaseholdError, StaleTokenError, type Fence, type Grant, type Holding } from '@leasehold/core';

import { FENCE } from '../ledger.ts';
import { sharedMs, type Pen, type Refused } from '../pen.ts';

/** A fence, and a word about each refusal with what it says was the highest. It stands behind the recording one. */
export class WitnessFence<Tx> implements Fence<Tx> {
  readonly name: string;
  readonly enforcing: boolean;
  readonly #fence: Fence<Tx>;
  readonly #pen: Pen;

  constructor(fence: Fence<Tx>, pen: Pen) {
    this.name = fence.name;
    this.enforcing = fence.enforcing;
    this.#fence = fence;
    this.#pen = pen;
  }

  activate(grant: Grant | Holding): Promise<void> {
    return this.#watch('activate', grant, this.#fence.activate(grant));
  }

  write<T>(grant: Grant | Holding, body: (tx: Tx) => T | Promise<T>): Promise<T> {
    return this.#watch('write', grant, this.#fence.write(grant, body));
  }

  seal(resource: string, fencingToken: number): Promise<void> {
    return this.#fence.seal(resource, fencingToken);
  }

  highest(resource: string): ReturnType<Fence<Tx>['highest']> {
    return this.#fence.highest(resource);
  }

  async #watch<T>(act: Refused['act'], holder: Grant | Holding, work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      const own = LeaseholdError.of(error);
      const { resource, leaseId, fencingToken } = 'grant' in holder ? holder.grant : holder;
      if (own instanceof StaleTokenError) {
        const { highest } = own;
        this.#pen.write({ refused: { atMs: sharedMs(), fence: FENCE, resource, act, leaseId, fencingToken, highest } });
      }
      throw error;
    }
  }
}
