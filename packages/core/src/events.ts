import { channel, type Channel } from 'node:diagnostics_channel';
import { EventEmitter } from 'node:events';
import type {
  BusyReason,
  CancelReason,
  Holder,
  LeaseLostError,
  LeaseholdError,
  StaleTokenError,
  TickReason,
} from './errors.ts';
import { safely, type Logger } from './log.ts';

/** What every event about a lease carries. */
export interface LeaseEvent {
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
}

/** The events of a `LeaseManager`, one payload object each. Contention is an event, not an error. */
export interface ManagerEvents {
  /** `waitedMs`: from the first question until the fences were activated. */
  acquired: [LeaseEvent & { readonly ttlMs: number; readonly waitedMs: number }];
  /** An acquisition that came to neither a lease nor a refusal: the store, a fence or the caller's signal ended it. */
  acquireFailed: [{ readonly resource: string; readonly error: LeaseholdError; readonly waitedMs: number }];
  busy: [
    {
      readonly resource: string;
      readonly reason: BusyReason;
      readonly holder: Holder | null;
      readonly remainingMs: number;
    },
  ];
  /** A resource asked for with `park` is free and nobody waits. An accelerator: it may be lost, or untrue by now. */
  free: [{ readonly resource: string }];
  /** `aheadMs`: how far the tick lies ahead of the store's clock, negative if behind. */
  tickRefused: [
    {
      readonly resource: string;
      readonly job: string;
      readonly reason: TickReason;
      readonly aheadMs: number;
      readonly remainingMs: number;
    },
  ];
  extended: [LeaseEvent & { readonly remainingMs: number }];
  /** An extend had no usable answer. The lease is still trusted for `remainingMs`; it is tried again until then. */
  extendFailed: [LeaseEvent & { readonly remainingMs: number; readonly error: LeaseholdError | null }];
  /** The run was asked to end; the lease is still held. */
  cancelled: [LeaseEvent & { readonly reason: CancelReason }];
  /** Exactly once for each lease that is lost. */
  lost: [LeaseEvent & { readonly error: LeaseLostError }];
  released: [LeaseEvent & { readonly heldMs: number }];
  /** The store did not confirm the release: others can acquire at the latest when the ttl has passed. */
  releaseUnconfirmed: [LeaseEvent & { readonly error: LeaseholdError }];
  /** A fence refused this lease. */
  rejected: [LeaseEvent & { readonly error: StaleTokenError }];
  /**
   * Somebody's lease was to be released by force through this manager: once each time, whatever came of it. `refused`: it
   * was not safe. `failed`: nothing is known to be released. The token is 0 as long as it is not known.
   */
  forceReleased: [
    LeaseEvent & {
      readonly outcome: 'released' | 'declined' | 'changed' | 'refused' | 'failed';
      readonly operator: string;
      readonly reason: string;
      readonly sealed: readonly string[];
      /** On what it was decided, in one line; empty if it did not come to that. */
      readonly evidence: string;
    },
  ];
  /**
   * Fences of a resource were sealed by hand through this manager, or one of them could not be: once each time that
   * anything was asked of a fence. `fencingToken`: every grant up to it is refused at `fences`.
   */
  sealed: [
    {
      readonly resource: string;
      readonly fencingToken: number;
      readonly operator: string;
      readonly reason: string;
      readonly fences: readonly string[];
      /** The fence that could not be sealed, or did not say so. */
      readonly failed: string | null;
    },
  ];
  /** A question to the store and its answer, for instruments. */
  operation: [StoreOperation];
}

export interface StoreOperation {
  readonly operation: 'acquire' | 'extend' | 'release' | 'cancel' | 'adopt';
  /** The kind of the store's answer; `failed` if there was none. */
  readonly outcome: string;
  /** How many leases it was about: extends go together. */
  readonly leases: number;
  readonly durationMs: number;
}

/**
 * `leasehold:<event>` of `node:diagnostics_channel`, for tracers: each event of every manager of the process, its payload
 * with `namespace` and `owner` (the instance). By Node's own rule an error that a subscriber throws is an uncaught exception.
 */
const channels = new Map<keyof ManagerEvents, Channel>();

function channelOf(event: keyof ManagerEvents): Channel {
  let found = channels.get(event);
  if (found === undefined) channels.set(event, (found = channel(`leasehold:${event}`)));
  return found;
}

/**
 * A node `EventEmitter` whose listeners cannot break a run: what they throw, or reject with, is logged. None of its
 * events is called `error`, which would end the process when nobody listens.
 */
export class ManagerEmitter extends EventEmitter<ManagerEvents> {
  /** Whether anybody wants to hear of it. */
  protected listens(event: keyof ManagerEvents): boolean {
    return this.listenerCount(event) > 0 || channelOf(event).hasSubscribers;
  }

  protected announce<K extends keyof ManagerEvents>(logger: Logger, event: K, payload: ManagerEvents[K][0]): void {
    const tracers = channelOf(event);
    if (tracers.hasSubscribers) tracers.publish({ ...payload, ...this.origin() });
    if (this.listenerCount(event) === 0) return;
    for (const listener of this.rawListeners(event)) {
      safely(logger, `a listener of '${event}' failed`, () =>
        (listener as (payload: unknown) => unknown).call(this, payload),
      );
    }
  }

  /** What tells this manager's events from those of others, where both are heard. */
  protected origin(): object {
    return {};
  }
}
