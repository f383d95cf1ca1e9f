import type { Lease, LeaseLostError, LeaseManager } from '@leasehold/core';

interface Watched {
  readonly lease: Lease;
  told(error: LeaseLostError): void;
}

const watches = new WeakMap<LeaseManager, LossWatch>();

/** Tells runs of the loss of their leases. One listener for each manager: one on the signal of each lease costs more. */
export class LossWatch {
  readonly #watched = new Map<string, Watched>();

  constructor(manager: LeaseManager) {
    manager.on('lost', ({ leaseId, fencingToken, error }) => {
      const its = this.#watched.get(leaseId);
      if (its?.lease.fencingToken === fencingToken) its.told(error);
    });
  }

  static of(manager: LeaseManager): LossWatch {
    const its = watches.get(manager) ?? new LossWatch(manager);
    watches.set(manager, its);
    return its;
  }

  /** Until `end` is called, which is to be. */
  begin(lease: Lease, told: (error: LeaseLostError) => void): void {
    this.#watched.set(lease.leaseId, { lease, told });
  }

  /** The leaseId alone does not tell a lease from one that follows it. */
  end(lease: Lease): void {
    if (this.#watched.get(lease.leaseId)?.lease === lease) this.#watched.delete(lease.leaseId);
  }
}
