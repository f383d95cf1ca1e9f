import type { StaleTokenError } from '../errors.ts';
import { ReleaseInBodyError } from '../errors.ts';
import type { Fence, Grant, Holding } from '../fence/fence.ts';
import type { OwnerIdentity } from '../owner.ts';
import type { ReleaseResult, Tenure } from './tenure.ts';
import type { Ticket } from './ticket.ts';

/** What a lease needs of the manager that made it. */
export interface LeaseKeeping {
  readonly owner: OwnerIdentity;
  release(tenure: Tenure): Promise<ReleaseResult>;
  handOver(tenure: Tenure): Promise<Ticket>;
}

/**
 * The right to act on a resource, as a handler sees it. `isHeld`, `remainingMs`, `assertHeld` and `signal` compute from
 * the clocks at each call, so they are right even after the event loop was blocked, the process stopped or the wall clock
 * stepped; no call asks the store.
 */
export class Lease implements Holding, AsyncDisposable {
  readonly #tenure: Tenure;
  readonly #keeping: LeaseKeeping;

  /** Made by `LeaseManager`. */
  constructor(tenure: Tenure, keeping: LeaseKeeping) {
    this.#tenure = tenure;
    this.#keeping = keeping;
  }

  /** The resource as it was given. */
  get resource(): string {
    return this.#tenure.resource;
  }

  /** What fences take: the qualified resource, the token and the leaseId. */
  get grant(): Grant {
    return this.#tenure.grant;
  }

  /** Larger for each later acquisition of the resource. A safe integer. */
  get fencingToken(): number {
    return this.#tenure.grant.fencingToken;
  }

  get leaseId(): string {
    return this.#tenure.grant.leaseId;
  }

  get owner(): OwnerIdentity {
    return this.#keeping.owner;
  }

  get ttlMs(): number {
    return this.#tenure.timing.ttlMs;
  }

  /**
   * What it has claimed together with the resource: the job, the instant (without a schedule the store's at the claim) and
   * which attempt at this tick it is, from 1. Null if it was acquired without a tick.
   */
  get tick(): { readonly job: string; readonly at: Date; readonly attempt: number } | null {
    const { tick, job } = this.#tenure;
    return tick === null || job === undefined ? null : { job, at: new Date(tick.at), attempt: tick.attempt };
  }

  /**
   * Aborts once: with a `RunCancelledError` when the run is to end while the lease is still held, or with a
   * `LeaseLostError`. Between the two only `assertHeld` tells the difference.
   */
  get signal(): AbortSignal {
    return this.#tenure.signal();
  }

  /** Milliseconds for which the lease may still be trusted; 0 when it is not held. */
  remainingMs(): number {
    return this.#tenure.remainingMs();
  }

  isHeld(): boolean {
    return this.#tenure.isHeld();
  }

  /** Throws `LeaseLostError` unless the lease is held now. A cancelled run still holds it. */
  assertHeld(): void {
    this.#tenure.assertHeld();
  }

  /**
   * Gives the resource back. Never hides an error of the work: it does not reject, except with `ReleaseInBodyError`
   * inside the body of `run`. Called again it answers the same.
   */
  release(): Promise<ReleaseResult> {
    if (this.#tenure.inBody) return Promise.reject(new ReleaseInBodyError(this.resource, this.fencingToken));
    return this.#keeping.release(this.#tenure);
  }

  /**
   * Extends it no more: it runs out, unless it is released or handed over before. For whoever stops waiting for work that
   * may still go on under it. Aborts nothing before it is lost.
   */
  abandon(): void {
    this.#tenure.final = true;
  }

  /**
   * Gives the lease into other hands: a ticket that another process turns into a lease of its own with
   * `LeaseManager.adopt`, within the ttl. Ended here, without aborting anything: `run` still returns its value. Rejects with
   * `StoreUnavailableError`, and the lease goes on; with `LeaseLostError`; with `RunCancelledError` if it was revoked.
   */
  handOver(): Promise<Ticket> {
    return this.#keeping.handOver(this.#tenure);
  }

  /** Releases at the end of `await using`; does not throw. A loss shows in `assertHeld()`: end such a block with it. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#tenure.inBody) await this.#keeping.release(this.#tenure);
  }

  /**
   * The grant, so that another process can write through a fence on this lease's behalf while the holder goes on
   * extending it. It carries no right to extend or release.
   */
  toJSON(): Grant {
    return this.grant;
  }

  /** For fences: what this lease has activated, and where a refusal is reported. */
  get holding(): Holding['holding'] {
    const tenure = this.#tenure;
    return {
      mayWrite: (fence: Fence) => tenure.fences.includes(fence),
      refused: (error: StaleTokenError) => tenure.refuse(error),
    };
  }
}
