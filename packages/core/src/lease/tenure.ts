import {
  LeaseLostError,
  RunCancelledError,
  type CancelReason,
  type LeaseholdError,
  type LossReason,
  type StaleTokenError,
} from '../errors.ts';
import type { StoreOperation } from '../events.ts';
import type { AcquireSettings } from '../options.ts';
import type { OwnerRecord } from './owner-record.ts';
import type { Fence, Grant } from '../fence/fence.ts';
import type { ClaimedTick } from '../store/tick-request.ts';
import type { Slotted } from '../wheel.ts';
import type { Spare } from './spare.ts';
import { elapsedMs, reasonOfClosure, trustedMs, type OwnerClock, type Stamp, type Timing } from './term.ts';

/**
 * - `released`: others can acquire now.
 * - `kept`: it lingers in this process (`linger`); others get it as soon as they ask.
 * - `unconfirmed`: the store was silent; it is tried again in the background, and others can acquire at the latest when
 *   the ttl has passed.
 * - `lost`: it was no longer held.
 */
export type ReleaseResult = 'released' | 'kept' | 'unconfirmed' | 'lost';

/** What a tenure and its keeper tell the manager about. Must not throw. */
export interface TenureObserver {
  extended(tenure: Tenure, remainingMs: number): void;
  /** Begins to time a call to the store; the function returned is told its outcome. Undefined if nobody wants to know. */
  timing(operation: StoreOperation['operation']): ((outcome: string, leases?: number) => void) | undefined;
  extendFailed(tenure: Tenure, error: LeaseholdError | null): void;
  cancelled(tenure: Tenure, reason: CancelReason): void;
  lost(tenure: Tenure, error: LeaseLostError): void;
  refused(tenure: Tenure, error: StaleTokenError): void;
}

/** What all tenures of a manager have in common. One object, because 10,000 leases are held of it. */
export interface TenureOwner {
  readonly clock: OwnerClock;
  readonly observer: TenureObserver;
  readonly record: OwnerRecord;
}

/** What was asked for. */
export type TenureTerms = Pick<AcquireSettings, 'timing' | 'maxHoldMs' | 'job' | 'tick' | 'retentionMs'>;

/** What was granted. */
export interface TenureStart {
  readonly grant: Grant;
  /** When it began, by the monotonic clock. */
  readonly startedMs: number;
  /** When its last confirmation was asked for, and how long that may be trusted. */
  readonly stamp: Stamp;
  readonly windowMs: number;
  readonly dirty: boolean;
  readonly tick: ClaimedTick | null;
  /** What of the owner's record the store was given with the acquisition. */
  readonly ownerJson: string;
  readonly spare: Spare | undefined;
}

/** What was asked for or granted beyond a plain lease. */
interface Extras {
  readonly job: string | undefined;
  readonly tick: ClaimedTick | null;
  readonly retentionMs: number | undefined;
  readonly dirty: boolean;
  readonly spare: Spare | undefined;
}

/** Of every plain lease the same one. */
const NO_EXTRAS: Extras = { job: undefined, tick: null, retentionMs: undefined, dirty: false, spare: undefined };

/** What most leases never have. */
interface Trouble {
  floor?: number;
  /** For ever, also when it has ended since. */
  wasLost?: boolean;
  loss?: LeaseLostError;
  cancellation?: RunCancelledError;
  refusal?: StaleTokenError;
}

const NO_FENCES: readonly Fence[] = [];

/**
 * One lease from its grant to its end, on the owner's side:
 *
 *     held ──► cancelled (still held, the run is to end) ──► lost | releasing ──► ended
 *       └──────────────────────────────────────────────────► lost | releasing ──► ended
 *
 * Whether it is held is computed from the clocks at each question and never kept; what is kept is that it was lost, which
 * is for ever.
 */
export class Tenure implements Slotted {
  slot = -1;
  readonly resource: string;
  readonly grant: Grant;
  readonly timing: Timing;
  /** What the store has of the owner's record, as far as is known. */
  ownerJson: string;
  readonly startedMs: number;
  /** An extend is under way. */
  extending = false;
  /** The last extend had no usable answer. */
  unanswered = false;
  /** No more extends: revoked, or held long enough. */
  final = false;
  /** Inside the body of `run`, which releases by itself. */
  inBody = false;
  /** Fences that may be written to: activated before the body, or named with `activate: 'on-write'`. */
  fences: readonly Fence[] = NO_FENCES;
  /** Set once it is being released; asked again it answers the same. */
  releasing: Promise<ReleaseResult> | undefined;

  #phase: 'held' | 'cancelled' | 'lost' | 'releasing' | 'ended' = 'held';
  #stamp: Stamp;
  #windowMs: number;
  readonly #extras: Extras;
  #trouble: Trouble | undefined;
  #controller: AbortController | undefined;
  /** Undefined: it may be held for ever. */
  readonly #maxHoldMs: number | undefined;
  readonly #owner: TenureOwner;

  constructor(resource: string, asked: TenureTerms, start: TenureStart, owner: TenureOwner) {
    this.resource = resource;
    this.grant = start.grant;
    this.timing = asked.timing;
    this.ownerJson = start.ownerJson;
    this.startedMs = start.startedMs;
    this.#maxHoldMs = asked.maxHoldMs === Infinity ? undefined : asked.maxHoldMs;
    this.#stamp = start.stamp;
    this.#windowMs = start.windowMs;
    this.#extras = extrasOf(asked, start);
    this.#owner = owner;
  }

  get job(): string | undefined {
    return this.#extras.job;
  }

  /** What it has claimed of that job. */
  get tick(): ClaimedTick | null {
    return this.#extras.tick;
  }

  get retentionMs(): number | undefined {
    return this.#extras.retentionMs;
  }

  /** A call of its acquisition has no answer, so its leaseId needs a tombstone when it is over. */
  get dirty(): boolean {
    return this.#extras.dirty;
  }

  /** What is left for those who hold it next in this process, if it may linger. */
  get spare(): Spare | undefined {
    return this.#extras.spare;
  }

  /** The highest token a fence has shown; the next acquisition begins above it. */
  get floor(): number {
    return this.#trouble?.floor ?? 0;
  }

  get observer(): TenureObserver {
    return this.#owner.observer;
  }

  get ownerRecord(): OwnerRecord {
    return this.#owner.record;
  }

  /** When it has been held for as long as it may be, by the monotonic clock. */
  get endsMs(): number {
    return this.#maxHoldMs === undefined ? Infinity : this.startedMs + this.#maxHoldMs;
  }

  /** Neither lost nor being released: the keeper looks after it. */
  get live(): boolean {
    return this.#phase === 'held' || this.#phase === 'cancelled';
  }

  get lost(): boolean {
    return this.#phase === 'lost';
  }

  get loss(): LeaseLostError | undefined {
    return this.#trouble?.loss;
  }

  get cancellation(): RunCancelledError | undefined {
    return this.#trouble?.cancellation;
  }

  /** When the trust window closes by the monotonic clock alone: for timers, which only announce. */
  get closesMs(): number {
    return this.#stamp.monotonicMs + this.#windowMs;
  }

  /** When the next extend is due by the monotonic clock: a short grant earlier, in proportion. */
  get refreshMs(): number {
    const { timing } = this;
    const fullWindow = timing.windowMs;
    // A window too short for two calls is extended at once.
    if (this.#windowMs < 2 * timing.callTimeoutMs) return this.#stamp.monotonicMs;
    return this.#stamp.monotonicMs + timing.refreshMs * Math.min(1, this.#windowMs / fullWindow);
  }

  /** Held, and neither asked to end nor waiting for any answer. */
  isUndoubted(): boolean {
    const isQuiet = !this.extending && !this.unanswered && !this.final && !this.dirty && this.floor === 0;
    return isQuiet && this.#phase === 'held' && this.isHeld();
  }

  /** What the next holder of the same lease begins with: it is as trusted as it was here, and no more. */
  confirmation(): Pick<TenureStart, 'stamp' | 'windowMs'> {
    return { stamp: this.#stamp, windowMs: this.#windowMs };
  }

  /** Milliseconds for which its last confirmation may be trusted by the clocks now, whoever holds it. */
  trustedMs(): number {
    return this.#windowMs - elapsedMs(this.#owner.clock.since(this.#stamp));
  }

  /**
   * Milliseconds of trust left by the clocks now, 0 if not held. Marks the lease lost when the window has closed. Whoever asks
   * about many at one instant may have read the clocks once for all of them.
   */
  remainingMs(now?: Stamp): number {
    if (!this.live) return 0;
    const elapsed = this.#owner.clock.since(this.#stamp, now);
    const remaining = this.#windowMs - elapsedMs(elapsed);
    if (remaining > 0) return remaining;
    this.lose(
      reasonOfClosure(elapsed, this.#windowMs, this.unanswered),
      `last confirmed ${Math.round(elapsedMs(elapsed))} ms ago, trusted for ${Math.round(this.#windowMs)} ms`,
    );
    return 0;
  }

  /** How old it is, and its last confirmation. */
  ages(): { readonly extensionAgeMs: number; readonly heldMs: number } {
    const elapsed = this.#owner.clock.since(this.#stamp);
    return {
      extensionAgeMs: elapsedMs(elapsed),
      heldMs: this.#stamp.monotonicMs + elapsed.monotonicMs - this.startedMs,
    };
  }

  isHeld(now?: Stamp): boolean {
    return this.remainingMs(now) > 0;
  }

  assertHeld(): void {
    if (!this.isHeld()) throw this.lossError();
  }

  /** The error for whoever goes on with a lease that is not held. */
  lossError(): LeaseLostError {
    return (this.#its.loss ??= this.#makeLoss(this.#phase === 'lost' ? 'expired' : 'released', undefined, undefined));
  }

  signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      const reason = this.cancellation ?? (this.#trouble?.wasLost === true ? this.loss : undefined);
      if (reason !== undefined) this.#controller.abort(reason);
    }
    // Computes, and so aborts, before anyone looks at `aborted`.
    this.remainingMs();
    return this.#controller.signal;
  }

  /**
   * A confirmed extend that was sent at `stamp`. A reply never moves the base back. Returns how long after the one before
   * it was sent, in milliseconds awake and suspended.
   */
  confirm(stamp: Stamp, remainingMs: number): number {
    if (!this.live) return 0;
    this.unanswered = false;
    const before = this.#stamp;
    const sinceMs = stamp.monotonicMs - before.monotonicMs;
    const suspendedMs =
      stamp.offsetMs === undefined || before.offsetMs === undefined ? 0 : stamp.offsetMs - before.offsetMs;
    const windowMs = trustedMs(Math.min(this.timing.ttlMs, remainingMs), this.timing);
    if (stamp.monotonicMs + windowMs >= this.closesMs) {
      this.#stamp = stamp;
      this.#windowMs = windowMs;
    }
    return sinceMs + suspendedMs;
  }

  /** Asks the run to end; the lease stays held. Only the first cause aborts the signal. */
  cancel(reason: CancelReason, cause?: unknown): void {
    if (!this.isHeld()) return;
    if (reason === 'revoked' || reason === 'max-hold') this.final = true;
    if (this.#phase !== 'held') return;
    this.#phase = 'cancelled';
    this.#its.cancellation = new RunCancelledError(this.resource, reason, this.grant.fencingToken, cause);
    this.#controller?.abort(this.#its.cancellation);
    this.observer.cancelled(this, reason);
  }

  /** Terminal. The store may also say so in its answer to the release. */
  lose(reason: LossReason, detail?: string, cause?: unknown): void {
    if (!this.live && this.#phase !== 'releasing') return;
    this.#phase = 'lost';
    const loss = this.#makeLoss(reason, detail, cause);
    this.#its.wasLost = true;
    this.#its.loss = loss;
    // After a cancellation this changes nothing: a signal aborts once.
    this.#controller?.abort(loss);
    this.observer.lost(this, loss);
  }

  /** A body usually ends with the error that its write was refused with: told again, it is no second refusal. */
  refuse(error: StaleTokenError): void {
    if (error === this.#its.refusal) return;
    this.#its.refusal = error;
    this.raiseFloor(error.highest.fencingToken);
    this.observer.refused(this, error);
    this.lose('fenced', `by ${error.fence} at ${error.highest.fencingToken}`, error);
  }

  /** A fence has shown this token. */
  raiseFloor(fencingToken: number): void {
    this.#its.floor = Math.max(this.floor, fencingToken);
  }

  /** From now on nothing may extend it. False if it was not held, so that there is nothing to release. */
  beginRelease(): boolean {
    if (!this.isHeld()) return false;
    this.#phase = 'releasing';
    return true;
  }

  end(): void {
    this.#phase = 'ended';
  }

  /** It goes on in other hands: ended here, and nothing is aborted. */
  handOver(): void {
    this.#its.loss = this.#makeLoss('handed-over', undefined, undefined);
    this.#phase = 'ended';
  }

  get handedOver(): boolean {
    return this.loss?.reason === 'handed-over';
  }

  get #its(): Trouble {
    return (this.#trouble ??= {});
  }

  #makeLoss(reason: LossReason, detail: string | undefined, cause: unknown): LeaseLostError {
    const { leaseId, fencingToken } = this.grant;
    return new LeaseLostError(this.resource, { reason, leaseId, fencingToken, detail, cause });
  }
}

function extrasOf({ job: asked, tick: claim, retentionMs }: TenureTerms, { tick, dirty, spare }: TenureStart): Extras {
  const job = claim?.job ?? asked;
  const isPlain = job === undefined && tick === null && retentionMs === undefined && !dirty && spare === undefined;
  return isPlain ? NO_EXTRAS : { job, tick, retentionMs, dirty, spare };
}
