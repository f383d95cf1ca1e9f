import type { LeaseLostError, LeaseManager } from '@leasehold/core';

type Told = (error: LeaseLostError) => void;

const watches = new WeakMap<LeaseManager, LossWatch>();

/** Tells runs of the loss of their leases. One listener for each manager: one on the signal of each lease costs more. */
export class LossWatch {
  readonly #told = new Map<string, Told>();

  constructor(manager: LeaseManager) {
    manager.on('lost', ({ leaseId, error }) => this.#told.get(leaseId)?.(error));
  }

  static of(manager: LeaseManager): LossWatch {
    const its = watches.get(manager) ?? new LossWatch(manager);
    watches.set(manager, its);
    return its;
  }

  /** Until `end` is called, which is to be. */
  begin(leaseId: string, told: Told): void {
    this.#told.set(leaseId, told);
  }

  end(leaseId: string): void {
    this.#told.delete(leaseId);
  }
}
