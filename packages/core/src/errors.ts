/**
 * Every error that Leasehold throws. Each class has one stable `code`; `docs/errors.md` lists them with cause and remedy,
 * and a test keeps the two equal. A message is one line that stands alone, because queues and log pipelines often keep
 * nothing else of an error: `CODE resource: what happened; what to do`.
 */

import { LeaseholdError } from './leasehold-error.ts';
import type { BusyReason, CancelReason, Holder, LossReason, TickReason } from './reasons.ts';

export { LeaseholdError, type ErrorDetails } from './leasehold-error.ts';
export type { BusyReason, CancelReason, Holder, LossReason, TickReason };

/** The stable codes. Compare with `LeaseholdError.is(error, code)`, which also looks through `cause`. */
export type ErrorCode =
  | 'CONFIG'
  | 'RESOURCE_BUSY'
  | 'ACQUIRE_TIMEOUT'
  | 'TICK_REFUSED'
  | 'REENTRANT_ACQUIRE'
  | 'RELEASE_IN_BODY'
  | 'NOT_STARTED'
  | 'MANAGER_CLOSED'
  | 'LEASE_LOST'
  | 'RUN_CANCELLED'
  | 'STALE_TOKEN'
  | 'TOKEN_OUT_OF_RANGE'
  | 'FENCE_NOT_ACTIVATED'
  | 'FENCE_UNAVAILABLE'
  | 'FENCED_COMMAND'
  | 'FENCING_HEADER'
  | 'STORE_UNAVAILABLE'
  | 'STORE_AUTH'
  | 'STORE_VERSION'
  | 'FOREIGN_KEY'
  | 'UNSAFE_RELEASE';

/** An option, a name or a combination of options that cannot work. Names the option, the value and the rule. */
export class ConfigError extends LeaseholdError {
  readonly option: string;

  constructor(option: string, detail: string, cause?: unknown) {
    super('CONFIG', `${option}: ${detail}`, { cause });
    this.option = option;
  }
}

/** Somebody else has the resource. Not a fault: try later, skip, or wait. */
export class ResourceBusyError extends LeaseholdError {
  readonly reason: BusyReason;
  /** The holder, or null when nobody holds it (`turn`, `quarantine`). */
  readonly holder: Holder | null;
  /** Milliseconds until the obstacle ends if nobody prolongs it. */
  readonly remainingMs: number;

  constructor(
    resource: string,
    busy: { readonly reason: BusyReason; readonly holder: Holder | null; readonly remainingMs: number },
    code: 'RESOURCE_BUSY' | 'ACQUIRE_TIMEOUT' = 'RESOURCE_BUSY',
  ) {
    super(code, `${describeBusy(busy)}; try later or skip this run`, { resource });
    this.reason = busy.reason;
    this.holder = busy.holder;
    this.remainingMs = busy.remainingMs;
  }
}

/** The resource was not to be had within `wait`. */
export class AcquireTimeoutError extends ResourceBusyError {
  constructor(
    resource: string,
    busy: { readonly reason: BusyReason; readonly holder: Holder | null; readonly remainingMs: number },
  ) {
    super(resource, busy, 'ACQUIRE_TIMEOUT');
  }
}

function describeBusy(busy: {
  readonly reason: BusyReason;
  readonly holder: Holder | null;
  readonly remainingMs: number;
}): string {
  const left = `${Math.ceil(busy.remainingMs)} ms left`;
  switch (busy.reason) {
    case 'held':
      return `held by ${busy.holder?.owner ?? 'another owner'}, ${left}`;
    case 'turn':
      return `free, but kept for the next waiter, ${left}`;
    case 'quarantine':
      return `the store may have lost a live lease, ${left}`;
  }
}

/** The tick must not run here (any more), or not yet. */
export class TickRefusedError extends LeaseholdError {
  readonly reason: TickReason;
  /**
   * How far the tick lies ahead of the store's clock, milliseconds, negative if behind. Of a run without a schedule: the
   * beginning of the last one.
   */
  readonly aheadMs: number;
  /** Milliseconds until asking again can help: for `clock-ahead`, and `already-ran` under `minHold`. Otherwise 0. */
  readonly remainingMs: number;

  constructor(
    resource: string,
    refusal: { readonly reason: TickReason; readonly aheadMs: number; readonly remainingMs: number },
  ) {
    super('TICK_REFUSED', describeTick(refusal), { resource });
    this.reason = refusal.reason;
    this.aheadMs = refusal.aheadMs;
    this.remainingMs = refusal.remainingMs;
  }
}

function describeTick(refusal: {
  readonly reason: TickReason;
  readonly aheadMs: number;
  readonly remainingMs: number;
}): string {
  const { reason, aheadMs, remainingMs } = refusal;
  switch (reason) {
    case 'clock-ahead':
      return `the tick is ${Math.ceil(aheadMs)} ms ahead of the store's clock; ask again when it has passed`;
    case 'too-late':
      return `too-late: ${Math.floor(-aheadMs)} ms by the store's clock, past its startingDeadline; nothing is to be done here`;
    case 'already-ran':
    case 'superseded':
      if (remainingMs === 0) return `${reason}: this tick is done with; nothing is to be done here`;
      return `${reason}: the last run began ${Math.floor(-aheadMs)} ms ago, within minHold; ask again in ${Math.ceil(remainingMs)} ms`;
  }
}

/** The same asynchronous chain already holds the resource in a `run` body that has not settled: it would wait for itself. */
export class ReentrantAcquireError extends LeaseholdError {
  constructor(resource: string) {
    super(
      'REENTRANT_ACQUIRE',
      'an enclosing run body holds it and would wait for itself; use currentLease(), or detached: true for work that outlives the body',
      { resource },
    );
  }
}

/** `release()` was called inside the body of `run`, which releases by itself once the body has settled. */
export class ReleaseInBodyError extends LeaseholdError {
  constructor(resource: string, fencingToken: number) {
    super('RELEASE_IN_BODY', 'a lease is never released while its body runs; return from the body instead', {
      resource,
      fencingToken,
    });
  }
}

/**
 * For a body of `run` to throw when it did nothing at all: the tick that was claimed with the lease is given back, as if
 * nobody had claimed it.
 */
export class NotStartedError extends LeaseholdError {
  constructor(resource: string, detail: string, cause?: unknown) {
    super('NOT_STARTED', `${detail}; nothing was begun, its tick is given back`, { resource, cause });
  }
}

/** The manager is closing or closed. */
export class ManagerClosedError extends LeaseholdError {
  constructor(resource?: string) {
    super('MANAGER_CLOSED', 'this manager no longer acquires leases; create another one', { resource });
  }
}

/** What the body came to, when its lease was lost on the way. */
export type Settled = { readonly value: unknown } | { readonly error: unknown };

/** The lease is lost, for ever. Work done since may run beside a successor: only a fence keeps it harmless. */
export class LeaseLostError extends LeaseholdError {
  readonly reason: LossReason;
  readonly leaseId: string;
  /** Set by `run` when the body settled after the loss: its value, or its own error. */
  readonly settled: Settled | undefined;

  constructor(
    resource: string,
    loss: {
      readonly reason: LossReason;
      readonly leaseId: string;
      readonly fencingToken: number;
      readonly detail?: string | undefined;
      readonly settled?: Settled | undefined;
      readonly cause?: unknown;
    },
  ) {
    const detail = loss.detail === undefined ? loss.reason : `${loss.reason}, ${loss.detail}`;
    super('LEASE_LOST', `${detail}; this run's fence is ${loss.fencingToken}; stop, a successor may be at work`, {
      resource,
      fencingToken: loss.fencingToken,
      cause: loss.cause,
    });
    this.reason = loss.reason;
    this.leaseId = loss.leaseId;
    this.settled = loss.settled;
  }
}

/**
 * The run was asked to end. Its lease is still held: finish or roll back, then return. Without a `fencingToken` it was an
 * acquisition that was ended; nothing is held.
 */
export class RunCancelledError extends LeaseholdError {
  readonly reason: CancelReason;

  constructor(resource: string, reason: CancelReason, fencingToken?: number, cause?: unknown) {
    const detail =
      fencingToken === undefined ? 'nothing was acquired' : 'the lease is still held: finish up and return';
    super('RUN_CANCELLED', `${reason}; ${detail}`, {
      resource,
      fencingToken,
      cause,
    });
    this.reason = reason;
  }
}

/** A fence refused the grant: a later one was admitted. `resource` is the qualified name. */
export class StaleTokenError extends LeaseholdError {
  readonly fence: string;
  /** The highest grant the fence has admitted; `leaseId` is null when it was sealed by hand. */
  readonly highest: { readonly fencingToken: number; readonly leaseId: string | null };

  constructor(
    resource: string,
    refusal: {
      readonly fence: string;
      readonly fencingToken: number;
      readonly highest: { readonly fencingToken: number; readonly leaseId: string | null };
    },
  ) {
    super(
      'STALE_TOKEN',
      `fence ${refusal.fence} refused ${refusal.fencingToken}, it has admitted ${refusal.highest.fencingToken}; nothing was written: stop this run`,
      { resource, fencingToken: refusal.fencingToken },
    );
    this.fence = refusal.fence;
    this.highest = refusal.highest;
  }
}

/**
 * A fencing token (or a floor, or a seal) lies more than 24 h ahead of the checker's own clock. Accepting it would shut
 * out every later owner.
 */
export class TokenOutOfRangeError extends LeaseholdError {
  constructor(resource: string, fencingToken: number, checker: string) {
    super(
      'TOKEN_OUT_OF_RANGE',
      `${checker} does not accept ${fencingToken}, more than 24 h ahead of its clock (µs since 1970); check the clocks and where this number came from`,
      { resource, fencingToken },
    );
  }
}

/** A write through a fence that the lease did not activate before its body began. */
export class FenceNotActivatedError extends LeaseholdError {
  readonly fence: string;

  constructor(resource: string, fence: string, fencingToken: number) {
    super(
      'FENCE_NOT_ACTIVATED',
      `fence ${fence} was not activated before the body's first read; name it in fences: [${fence}], or use activate: 'on-write' if all reads happen inside the write`,
      { resource, fencingToken },
    );
    this.fence = fence;
  }
}

/** The refusal of a fence in `error` or its chain of `cause`. */
export function findStale(error: unknown): StaleTokenError | undefined {
  return LeaseholdError.find(error, 'STALE_TOKEN') as StaleTokenError | undefined;
}

/** What became of a write. `not-written` and `written` are certain, and stay so; `unknown`: it may have been, or may still be. */
type WriteOutcome = 'not-written' | 'written' | 'unknown';

const CONSEQUENCE: Readonly<Record<WriteOutcome, string>> = {
  'not-written': 'nothing was written',
  written: 'it was written, but its reply is lost',
  unknown: 'the run was not started or the write is unconfirmed',
};

/** A fence gave no answer, or could not give one. `outcome` tells what became of a write. */
export class FenceUnavailableError extends LeaseholdError {
  readonly fence: string;
  readonly outcome: WriteOutcome;

  constructor(resource: string, fence: string, detail: string, cause?: unknown, outcome: WriteOutcome = 'unknown') {
    super('FENCE_UNAVAILABLE', `fence ${fence}: ${detail}; ${CONSEQUENCE[outcome]}`, { resource, cause });
    this.fence = fence;
    this.outcome = outcome;
  }
}

/**
 * A command of a fenced write failed, or its Lua body did. The grant had been admitted; it is the command that is wrong.
 * What took effect before it stays: Redis does not roll back.
 */
export class FencedCommandError extends LeaseholdError {
  readonly fence: string;
  /** Of the command that failed, from 0; those after it were not run. Undefined for a Lua body. */
  readonly index: number | undefined;

  constructor(resource: string, fence: string, detail: string, index?: number) {
    super('FENCED_COMMAND', `fence ${fence}: ${detail}`, { resource });
    this.fence = fence;
    this.index = index;
  }
}

/**
 * A request without the `Fencing-*` headers of a grant that its route accepts. No fence was asked.
 * `resource` is what the route names, if it does.
 */
export class FencingHeaderError extends LeaseholdError {
  /** What to answer: 428 if all are missing, 401 for a signature, 400 for everything else. */
  readonly status: 400 | 401 | 428;
  readonly reason: 'missing' | 'incomplete' | 'malformed' | 'duplicated' | 'other-resource' | 'signature';
  /** The header at fault. */
  readonly header: string;

  constructor(resource: string | undefined, reason: FencingHeaderError['reason'], header: string, detail: string) {
    super('FENCING_HEADER', `${header} ${detail}; no fence was asked`, { resource });
    this.status = reason === 'missing' ? 428 : reason === 'signature' ? 401 : 400;
    this.reason = reason;
    this.header = header;
  }
}

/** The store gave no usable answer. Never to be mistaken for busy, and never for free. */
export class StoreUnavailableError extends LeaseholdError {
  /**
   * False when the request certainly changed nothing (never sent, or refused by the server); true when it may have been
   * carried out although no answer came.
   */
  readonly mayHaveRun: boolean;

  constructor(
    detail: string,
    details: { readonly resource?: string | undefined; readonly mayHaveRun: boolean; readonly cause?: unknown },
  ) {
    super('STORE_UNAVAILABLE', detail, details);
    this.mayHaveRun = details.mayHaveRun;
  }
}

/** The store refused our credentials, or the user lacks a right. Trying again does not help. */
export class StoreAuthError extends LeaseholdError {
  constructor(detail: string, cause?: unknown) {
    super('STORE_AUTH', detail, { cause });
  }
}

/** The server is too old. */
export class StoreVersionError extends LeaseholdError {
  constructor(detail: string, cause?: unknown) {
    super('STORE_VERSION', detail, { cause });
  }
}

/** A key of ours holds something that is not ours. It is never touched. */
export class ForeignKeyError extends LeaseholdError {
  readonly key: string;

  constructor(resource: string, key: string, detail: string) {
    const whose = `find out whose it is first (leasehold diagnose ${resource})`;
    const rest = 'do not remove it while its owner may live, which lets both run, as another prefix or name does';
    super('FOREIGN_KEY', `${key} ${detail}; ${whose}, and ${rest}`, { resource });
    this.key = key;
  }
}

/** A release by force that would not be safe. Nothing was released; `missing` says what stands in its way. */
export class UnsafeReleaseError extends LeaseholdError {
  readonly missing: readonly string[];
  /** The fences that were sealed before it ended. That shuts out the owner, and nobody else. */
  readonly sealed: readonly string[];

  constructor(
    resource: string,
    missing: readonly string[],
    { sealed = [], cause }: { readonly sealed?: readonly string[]; readonly cause?: unknown } = {},
  ) {
    const seals = sealed.length === 0 ? '' : `; sealed by then, and it stays so: ${sealed.join(', ')}`;
    super('UNSAFE_RELEASE', `not released: ${missing.join('; ')}${seals}`, { resource, cause });
    this.missing = missing;
    this.sealed = sealed;
  }
}
