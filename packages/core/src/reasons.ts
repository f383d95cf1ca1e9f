/** The words that errors, events and results give as reasons. */

/** Why a lease is no longer held. Terminal: a lost lease never comes back. */
export type LossReason =
  /** The store said that it had run out, or the trust window closed before an extend was tried. */
  | 'expired'
  /** Another leaseId owns the resource. */
  | 'superseded'
  /** The store has no record of the resource (deleted, flushed, evicted, promoted from a lagging replica). */
  | 'missing'
  /** A fence refused it: a later grant was admitted there. */
  | 'fenced'
  | 'revoked'
  | 'force-released'
  /** The owner's wall clock alone stepped past the trust window. */
  | 'clock-step'
  /** The trust window closed after extends that had no answer. */
  | 'store-unreachable'
  | 'handed-over'
  | 'released';

/** Why a run was asked to end although its lease is still held. */
export type CancelReason = 'shutdown' | 'max-hold' | 'revoked' | 'caller';

/** Why an acquisition was refused as busy. `turn`: free, but kept for a moment for the waiter whose turn it is. */
export type BusyReason = 'held' | 'turn' | 'quarantine';

/** Why a tick was refused. See `TickRequest` in `store/store.ts`. */
export type TickReason = 'already-ran' | 'superseded' | 'too-late' | 'clock-ahead';

/** Who holds a resource, as far as the store tells: for people and for logs, never for a decision. */
export interface Holder {
  /** One readable line: `web-7f9c pid 4121 since 02:41:07Z v1.18.0`. */
  readonly owner: string;
  readonly fencingToken: number;
  /** The job whose tick the holder's lease has claimed; null if it has claimed none. */
  readonly job: string | null;
}
