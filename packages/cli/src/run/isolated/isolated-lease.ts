import { LeaseLostError, type Fence, type Grant, type Holding, type StaleTokenError } from '@leasehold/core';

import { LeaseWindow, type Until } from './lease-window.ts';
import type { RunMessage } from './messages.ts';

/**
 * The lease of a run in a thread or process of its own: it tells whether it is held, and writes through fences. It is kept, extended and released
 * by the one that has started this one.
 */
export class IsolatedLease implements Holding {
  readonly resource: string;
  readonly grant: Grant;
  readonly ttlMs: number;
  readonly signal: AbortSignal;
  readonly holding: Holding['holding'];
  readonly #window: LeaseWindow;

  constructor(
    { resource, grant, ttlMs, window }: RunMessage['lease'],
    signal: AbortSignal,
    fences: ReadonlySet<Fence>,
    refused: (error: StaleTokenError) => void,
  ) {
    this.resource = resource;
    this.grant = grant;
    this.ttlMs = ttlMs;
    this.signal = signal;
    this.holding = { mayWrite: (fence) => fences.has(fence), refused };
    this.#window = new LeaseWindow(window);
  }

  get fencingToken(): number {
    return this.grant.fencingToken;
  }

  get leaseId(): string {
    return this.grant.leaseId;
  }

  remainingMs(): number {
    return this.#window.remainingMs();
  }

  isHeld(): boolean {
    return this.remainingMs() > 0;
  }

  assertHeld(): void {
    if (this.isHeld()) return;
    if (this.signal.aborted && this.signal.reason instanceof LeaseLostError) throw this.signal.reason;
    const { leaseId, fencingToken } = this.grant;
    throw new LeaseLostError(this.resource, { reason: 'expired', leaseId, fencingToken });
  }

  /** Where no memory is shared: the window has moved. */
  trustUntil(until: Until): void {
    this.#window.until = until;
  }

  toJSON(): Grant {
    return this.grant;
  }
}
