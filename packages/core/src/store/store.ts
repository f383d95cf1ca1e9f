/**
 * `LeaseStore`: the port between the engine and the place where leases live.
 *
 * A store is the authority on who owns a resource, and nothing else: it does not keep leases alive, knows no handler and
 * starts no work. The engine trusts it for mutual exclusion only as far as the owner's clocks allow (see
 * `lease/term.ts`); what protects the data is the fence. `describeLeaseStore` in `@leasehold/core/testing` is this
 * contract as tests.
 *
 * ## Rules that hold for every operation
 *
 * 1. HELD(id) is the only test of ownership: the record's owner is not empty, its leaseId is `id`, and it expires later
 *    than now **by the store's own clock**. No caller sends its time of day.
 * 2. Each operation is one atomic step, and repeating it (a client resends, a proxy duplicates) changes nothing more.
 * 3. An expired lease is never revived, not even if nobody took it. An expired or released leaseId is spent, for as long as
 *    the record names it; what may come after that is what tombstones are for.
 * 4. Fencing tokens: `max(previous + 1, floor + 1, now in µs)`, a safe integer. They outlive release and expiry. A store
 *    that would have to issue one more than 24 h ahead of its own clock answers `out-of-range` instead.
 * 5. Shapes are checked before anything is decided, the record is written before side effects (notifications, history),
 *    and a failing side effect is not a failing operation. Something under our key that is not ours is `foreign`: it is
 *    refused and left alone.
 * 6. A deadline in the store that is farther ahead than its own maximum (the store's clock went back) is written back to
 *    now + that maximum by the next acquire or extend. Not those of tombstones: a later one only forbids for longer.
 * 7. A store that is full still extends, releases and cancels; only acquire may fail for lack of room.
 *
 * ## Rules for calls
 *
 * Every call settles by `call.timeoutMs` after it was sent (connecting comes before, with its own limit). It rejects only
 * with a `LeaseholdError`: `StoreUnavailableError` with `mayHaveRun` (no answer, or an answer that the store could not
 * serve), `StoreAuthError`, `StoreVersionError`, `ForeignKeyError`, `ConfigError`. `call.sent` is called right before the
 * bytes leave, once for each time they do: the caller reads its clocks there, so that a reply is measured from the very
 * request it answers.
 */

import type { Holder, LossReason, TickReason } from '../errors.ts';
import type { OwnerIdentity } from '../owner.ts';
import type { StoreEvidence } from './evidence.ts';
import type { StoreSurvey } from './survey.ts';
import type { ClaimedTick, TickRequest } from './tick-request.ts';

export interface StoreCall {
  /** Milliseconds from sending until the call must have settled. */
  readonly timeoutMs: number;
  /** Called synchronously right before the request is handed to the transport; again if it has to be sent again. */
  readonly sent?: (() => void) | undefined;
  /** Called with the store's clock, µs since 1970, before a reply that carries it is handed on: those of `extend` may. */
  readonly told?: ((nowUs: number) => void) | undefined;
}

/**
 * How the work under a tick ended. `not-started` gives the tick back, as if it had not been claimed. Written once, by the
 * leaseId that claimed it, while the tick's status is `claimed`.
 */
export type Outcome = 'done' | 'failed' | 'aborted' | 'not-started';

/**
 * `try`: the answer is yes or no. `wait`: enter the queue, or refresh the place in it (the same leaseId keeps its place).
 * `park`: a no also registers the caller's channel, to be told once when the resource is free and nobody waits.
 */
export type AcquireMode = 'try' | 'wait' | 'park';

/** What the resource's log keeps: the last 16 exceptional events, or the last 64 of all kinds. */
export type HistoryMode = 'exceptions' | 'all';

export interface AcquireRequest {
  readonly resource: string;
  /** Random, 128 bits, new for each acquisition, made before the request is sent. Sent again it answers the same grant. */
  readonly leaseId: string;
  readonly ttlMs: number;
  readonly mode: AcquireMode;
  /** One readable line and the identity behind it as JSON; kept in the record for people and for diagnosis. */
  readonly owner: { readonly line: string; readonly json: string };
  /**
   * Where this process hears about its turn, and as owner about a revocation; kept in the record. Empty if it does not
   * listen.
   */
  readonly channel: string;
  readonly history: HistoryMode;
  /** The token must be greater than this (what a fence has admitted). 0 for none. */
  readonly floor: number;
  /**
   * The caller's own leaseId that this one takes the place of, in the same step, and with its tick if it had claimed this
   * very one. Counts only while HELD(replaces) and not revoked; otherwise this is an acquire like any other. Empty for
   * none.
   */
  readonly replaces: string;
  /** How often a waiter asks again; its place lives three times as long. Milliseconds. */
  readonly waitRefreshMs: number;
  /** An absent record is `busy`, reason `quarantine`, for so long (0: no quarantine). Milliseconds. */
  readonly quarantineMs: number;
  readonly tick?: TickRequest | undefined;
  /** The tick is forgotten so long after the claim; without it never. As in `ReleaseRequest`. Milliseconds. */
  readonly retentionMs?: number | undefined;
  /**
   * So many tokens above the one that is granted are the owner's as well, for what it does under this lease one after the
   * other: the record has the highest of them, so that whoever comes later is above all of them. And whoever is refused
   * because the resource is held makes the store tell the owner, `wanted`. None with a tick, and none if others already
   * wait, or are parked. Default 0.
   */
  readonly spareTokens?: number | undefined;
}

/**
 * Decided in this order: foreign · cancelled (a tombstone) · granted again (HELD by this leaseId; the expiry does **not**
 * move) · spent · out-of-range · replaces · tick · quarantine · held by another · queue and turn · granted.
 *
 * A free resource with waiters belongs to the head of the queue: its *turn* lasts clamp(ttl/10, 50 ms, 500 ms) of the
 * last lease. While it runs everybody else is `busy` or `queued` with reason `turn`; a missed turn drops the head and the
 * next caller is granted; after a crash the first caller past expiry opens the head's turn.
 */
export type AcquireReply =
  | {
      readonly kind: 'granted';
      readonly fencingToken: number;
      /** Until expiry by the store's clock. For a repeated request less than the ttl. */
      readonly remainingMs: number;
      /** This leaseId had been granted before. */
      readonly again: boolean;
      /** The tick that the lease has claimed, if the request names one. */
      readonly tick: ClaimedTick | null;
      /** How many tokens above this one are the owner's as well. None if it was granted before: the token is the last of them. */
      readonly spareTokens?: number | undefined;
    }
  | {
      readonly kind: 'busy';
      readonly reason: 'held' | 'turn' | 'quarantine';
      readonly holder: Holder | null;
      readonly remainingMs: number;
    }
  | {
      readonly kind: 'queued';
      readonly reason: 'held' | 'turn' | 'quarantine';
      readonly holder: Holder | null;
      readonly remainingMs: number;
      /** 0 for the head of the queue. */
      readonly position: number;
    }
  | {
      readonly kind: 'tick';
      readonly reason: TickReason;
      /** How far the tick lies ahead of the store's clock, negative if behind; without a schedule the last tick. */
      readonly aheadMs: number;
      /** Until asking again can help; 0 if it cannot. */
      readonly remainingMs: number;
    }
  | { readonly kind: 'spent' }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'out-of-range'; readonly fencingToken: number };

export interface ExtendItem {
  readonly resource: string;
  readonly leaseId: string;
  readonly ttlMs: number;
  /** Takes the place of the record's, in the same step, if the lease is extended; without it that one stays. */
  readonly ownerJson?: string | undefined;
}

/**
 * The verdict on one lease of a batch. `revoked`: still held for `remainingMs`, not extended, the owner is to end its
 * run. `unknown`: this lease got no well-formed answer, the others may have; ask again.
 */
export type ExtendVerdict =
  | { readonly verdict: 'extended'; readonly remainingMs: number }
  | { readonly verdict: 'revoked'; readonly remainingMs: number }
  | { readonly verdict: 'lost'; readonly reason: LossReason }
  | { readonly verdict: 'foreign'; readonly key: string }
  | { readonly verdict: 'unknown' };

export interface ReleaseRequest {
  readonly resource: string;
  readonly leaseId: string;
  readonly outcome: Outcome;
  /**
   * The record's token is raised to this, so that the next acquisition begins above it. Counts only for the record's own
   * leaseId, and not if it is out of range. 0 for none.
   */
  readonly floor: number;
  /** The job whose tick this lease claimed. Its outcome is written even if the lease is no longer held. */
  readonly job?: string | undefined;
  readonly history: HistoryMode;
  /**
   * How long the store remembers the resource once nobody owns it, and the tick that this lease has claimed; its
   * tombstones are not forgotten before their time. Without it the store's own time for resources (a week in Redis), and
   * for ticks no end. Milliseconds.
   */
  readonly retentionMs?: number | undefined;
}

/**
 * `released`: others can acquire now. `lost`: it was not HELD any more (nothing of another owner was touched); with reason
 * `released` this leaseId had been released before.
 */
export type ReleaseReply = { readonly kind: 'released' } | { readonly kind: 'lost'; readonly reason: LossReason };

export interface CancelRequest extends ReleaseRequest {
  /**
   * Leave a tombstone for so long, so that a packet of this leaseId that is still under way cannot become owner; 0 for
   * a leaseId none of whose calls is unanswered. At most 8 tombstones a resource, the oldest goes first. Milliseconds.
   */
  readonly tombstoneMs: number;
}

/**
 * `ended`: it was HELD and is no more. `nothing`: it was not; an expired record of it is freed all the same. In both cases
 * it never will be the owner.
 */
export interface CancelReply {
  readonly kind: 'ended' | 'nothing';
}

/** The ticket of a hand-over turned into a lease of the caller's own. */
export interface AdoptRequest extends Pick<
  AcquireRequest,
  'resource' | 'leaseId' | 'ttlMs' | 'owner' | 'channel' | 'floor' | 'history'
> {
  /** The leaseId that is handed over. */
  readonly from: string;
  /** The job whose tick goes over with it. */
  readonly job?: string | undefined;
}

/** `lost`: HELD(from) no longer, so there is nothing to adopt: `superseded` for the second adopter, `expired` after the ttl. */
export type AdoptReply =
  | Extract<AcquireReply, { readonly kind: 'granted' | 'spent' | 'cancelled' | 'out-of-range' }>
  | { readonly kind: 'lost'; readonly reason: LossReason };

export interface RevokeRequest {
  readonly resource: string;
  readonly leaseId: string;
  /** Who asks, and why; kept in the log. */
  readonly operator: string;
  readonly reason: string;
}

/** `revoked`: the owner ends its run, or is out in `remainingMs`. `lost`: this leaseId is not HELD; nothing was changed. */
export type RevokeReply =
  | { readonly kind: 'revoked'; readonly remainingMs: number }
  | { readonly kind: 'lost'; readonly reason: LossReason };

/**
 * A break-glass release. Whether it is safe has been decided before (`diagnosis/force-release.ts`); the store checks, in
 * one step, that what was decided on is still what is there.
 */
export interface ForceReleaseRequest {
  readonly resource: string;
  /** Compared with the record, both: what was found when it was decided. */
  readonly leaseId: string;
  readonly fencingToken: number;
  /** How often it had been extended by then: one extension more, and the owner lives. */
  readonly extensions: number;
  /** The record must have run out so long ago by the store's clock; null for a release while it still runs. Milliseconds. */
  readonly elapsedMs: number | null;
  /** The record's token is raised to this (what the fences were sealed with). 0 for none. */
  readonly floor: number;
  /** Who releases, and why; kept in the log. */
  readonly operator: string;
  readonly reason: string;
}

/**
 * `released`: others can acquire now; the owner's next extend answers `force-released`, and its channel is told.
 * `running`: not run out for long enough by the store's clock. `changed`: owned by that leaseId, but extended since.
 * `lost`: that leaseId no longer is in the record. Of these three nothing was changed.
 */
export type ForceReleaseReply =
  | { readonly kind: 'released' }
  | { readonly kind: 'running'; readonly remainingMs: number }
  | { readonly kind: 'changed' }
  | { readonly kind: 'lost'; readonly reason: LossReason };

/** That fences of a resource were sealed, by whom and why; for the log. */
export interface NoteSealRequest {
  readonly resource: string;
  /** What they were raised to: every grant up to it is refused there. */
  readonly fencingToken: number;
  readonly operator: string;
  readonly reason: string;
}

/** One line of a resource's log. */
export interface HistoryEvent {
  /** By the store's clock, µs since 1970. */
  readonly atUs: number;
  /**
   * Exceptional: `expired` (taken over after its lease ran out), `lost` (released too late), `revoked`, `adopted`,
   * `refused` (replaced after a fence refused it), `forced` (force-released), `sealed` (its fences, by hand). With history `all` also `acquired` and
   * `released`.
   */
  readonly event:
    | 'expired'
    | 'lost'
    | 'revoked'
    | 'adopted'
    | 'refused'
    | 'forced'
    | 'sealed'
    | 'acquired'
    | 'released';
  /** The owner's line; empty for `sealed`, which is about everybody up to the token. */
  readonly owner: string;
  readonly fencingToken: number;
  /** For `released` and `lost` the outcome; for `revoked`, `forced` and `sealed` `<operator>: <reason>`; else empty. */
  readonly detail: string;
  /** The job and its tick (epoch ms), if the lease claimed one and the event is one of its own. */
  readonly job: string | null;
  readonly tickAt: number | null;
}

/** The last tick that a job claimed on a resource. */
export interface TickRecord extends ClaimedTick {
  readonly status: 'claimed' | 'done' | 'failed' | 'aborted';
  readonly fencingToken: number;
  /** The owner's line. */
  readonly owner: string;
}

/**
 * What a process is told on its channel: `go` (the waiter `leaseId` has its turn), `look` (it is second: ask again in
 * `afterMs`), `free` (parked: the resource is free and nobody waits; no leaseId), `revoked` (the owner `leaseId` is to
 * end), `wanted` (somebody else asked for what the owner `leaseId` has, if that may have spare tokens).
 */
export interface StoreMessage {
  readonly kind: 'go' | 'look' | 'free' | 'revoked' | 'wanted';
  readonly resource: string;
  readonly leaseId: string;
  readonly afterMs: number;
}

/** What the store knows of a resource. All times are the store's, in µs since 1970. */
export interface LeaseRecord {
  readonly state: 'held' | 'expired' | 'free';
  /** Empty when free. */
  readonly owner: string;
  /** The identity as JSON, as the owner wrote it; empty when free. */
  readonly ownerJson: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly ttlMs: number;
  readonly acquiredUs: number;
  readonly extendedUs: number;
  readonly expiresUs: number;
  readonly extensions: number;
  readonly revoked: boolean;
  /** How the tenure before this one ended; null if there was none. */
  readonly previous: {
    readonly owner: string;
    readonly fencingToken: number;
    readonly endUs: number;
    readonly reason: string;
  } | null;
  readonly waiting: number;
  /** The store's clock at the time of the answer. */
  readonly nowUs: number;
}

export interface LeaseStore {
  /** `<namespace>/<resource>` is the qualified name, which is what fences know. One namespace has one store. */
  readonly namespace: string;
  /** For messages: `redis 127.0.0.1:6379`, without credentials. */
  readonly description: string;

  /** Throws `ConfigError` for a resource or job name that this store cannot hold. Synchronous, sends nothing. */
  checkName(option: string, name: string): void;

  /** Connects, as the first call would; for those who need to know `server` before it. */
  connect(): Promise<void>;

  /**
   * How long the server had been up, whether this store has seen it restart, and what it calls this run of its process
   * (letters, digits and `_`, at most 64), if that is known. Undefined before the first connection. A server that restarted without persistence may have lost a
   * lease that its owner still trusts.
   */
  readonly server:
    | { readonly ageMs: number; readonly restarted: boolean; readonly runId?: string | undefined }
    | undefined;

  /** The only way to become owner, but for `adopt`. */
  acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply>;

  /**
   * One verdict for each item, in the order of the items. The batch itself is not atomic. It never rejects because of one
   * item; if it rejects, every item is unknown. An extended lease expires its ttl after now, never earlier than before.
   */
  extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]>;

  /** Ends this leaseId's tenure if it is the owner, even an expired one (answers `lost` then); opens the next turn. */
  release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply>;

  /** Withdraws an acquisition that did not come to a run: owner, waiter or packet under way. */
  cancel(request: CancelRequest, call: StoreCall): Promise<CancelReply>;

  /** Reads; changes nothing. Null when no lease of the resource is known. */
  read(resource: string, call: StoreCall): Promise<LeaseRecord | null>;

  /**
   * Calls `listener` each time the store can be reached again after it could not. An accelerator for retries, never the
   * only cause of one. Returns a function that ends it.
   */
  onReconnect(listener: () => void): () => void;

  /** Ends the connections that the store itself opened. Calls after it reject. */
  close(): Promise<void>;

  /**
   * One compare-and-set for a hand-over: HELD(from) and not revoked becomes HELD(leaseId) with a new, greater token, the
   * new owner and the tick of `job`. Sent again with the same leaseId it answers the same grant.
   */
  adopt(request: AdoptRequest, call: StoreCall): Promise<AdoptReply>;

  /**
   * Marks HELD(leaseId) so that its next extend answers `revoked`, and tells the owner's channel. Moves no expiry: nobody
   * enters before release or expiry, so it needs no fence.
   */
  revoke(request: RevokeRequest, call: StoreCall): Promise<RevokeReply>;

  /** A break-glass release: one compare-and-set on what was decided on. Opens the next turn, as `release` does. */
  forceRelease(request: ForceReleaseRequest, call: StoreCall): Promise<ForceReleaseReply>;

  /** Writes into the log that fences were sealed. Changes no record, and needs none. */
  noteSeal(request: NoteSealRequest, call: StoreCall): Promise<void>;

  /**
   * The resources that have a record, in no order, each at least once while it exists throughout; records of other kinds
   * are left out. Rejects in mid-iteration if the store can no longer be asked.
   */
  list(call: StoreCall): AsyncIterable<{ readonly resource: string; readonly record: LeaseRecord }>;

  /**
   * What the store can say beyond the record; reads only. Settles by `call.timeoutMs` with what is known by then: what was
   * not permitted or not answered is a reading that is not known. Rejects only once the store is closed.
   */
  evidence?(resource: string, owner: OwnerIdentity | null, call: StoreCall): Promise<StoreEvidence>;

  /** What the store is as a whole; reads only. Settles, and rejects, as `evidence` does. */
  survey?(call: StoreCall): Promise<StoreSurvey>;

  /** The resource's log, the newest first, at most `limit` events. */
  history(resource: string, limit: number, call: StoreCall): Promise<readonly HistoryEvent[]>;

  /** The last tick of a job and the one before it, the newest first; empty if it never claimed one. */
  ticks(resource: string, job: string, call: StoreCall): Promise<readonly TickRecord[]>;

  /**
   * Listens to a channel for as long as the store is open, through reconnections. Messages may be lost, late or doubled: a
   * listener asks the store, it never believes the message. Resolves once it listens for the first time; rejects if it may
   * not. Returns what ends it.
   */
  subscribe(channel: string, listener: (message: StoreMessage) => void): Promise<() => Promise<void>>;
}
