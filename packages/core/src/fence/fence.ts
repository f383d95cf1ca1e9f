/**
 * `Fence`: the port to a protected resource. A fence admits a grant or refuses it as stale, in the same atomic step as
 * the data it protects. `describeFence` in `@leasehold/core/testing` is this contract as tests.
 *
 * A grant is admitted if its token is higher than every token admitted before, or equal with the same leaseId; only the
 * highest is kept. Comparing the token alone would admit two owners that drew the same number after a loss of the
 * store's data; comparing "lower is stale" without an activation before the first read would lose an update between the
 * successor's acquire and its first write.
 *
 * Every call rejects only with a `LeaseholdError` (`StaleTokenError`, `TokenOutOfRangeError`, `FenceUnavailableError`,
 * `FenceNotActivatedError`, `LeaseLostError`, `ConfigError`) or with what the caller's own body threw.
 */

import { ConfigError, FenceNotActivatedError, findStale, type StaleTokenError } from '../errors.ts';
import { checkLeaseId, checkQualifiedName } from '../names.ts';
import { show } from '../show.ts';

/** All that a fence needs to know of a lease. Plain data: it can travel to another process or over HTTP. */
export interface Grant {
  /** The qualified name, `<namespace>/<resource>`: at most 64 + 1 + 256 bytes, no control characters. */
  readonly resource: string;
  readonly fencingToken: number;
  /** 1 to 256 bytes, no control characters. */
  readonly leaseId: string;
}

/** The highest that a fence has admitted, or, with leaseId null, was sealed at. */
export interface Mark {
  readonly fencingToken: number;
  readonly leaseId: string | null;
}

/** A grant together with the lease behind it, in the process that holds it. */
export interface Holding {
  readonly grant: Grant;
  /** Throws `LeaseLostError` unless the lease is held, computed from the clocks at this call. */
  assertHeld(): void;
  /** How a lease talks with its fences; not for users. */
  readonly holding: {
    /** Whether this fence was activated before the body, or may be written to without (`activate: 'on-write'`). */
    mayWrite(fence: Fence): boolean;
    /** A fence refused this lease: it is lost. */
    refused(error: StaleTokenError): void;
  };
}

export interface Fence<Tx = unknown> {
  /** For messages, and the order of activation. Unique among the fences of one acquisition. */
  readonly name: string;
  /** Whether check and data are one atomic step here. If not, a paused owner's late write can still get in. */
  readonly enforcing: boolean;

  /** A grant's first, empty operation, before its body reads anything. Rejects with `StaleTokenError`. */
  activate(grant: Grant | Holding): Promise<void>;

  /** Runs `body` and its effects only if the grant is admitted, all in one atomic step. */
  write<T>(grant: Grant | Holding, body: (tx: Tx) => T | Promise<T>): Promise<T>;

  /**
   * Raises the fence to `fencingToken` without admitting anyone: every grant up to it is stale from now on. A seal below
   * the highest changes nothing. `resource` is the qualified name.
   */
  seal(resource: string, fencingToken: number): Promise<void>;

  /** The highest token admitted or sealed (then with leaseId null), or null if there never was one. */
  highest(resource: string): Promise<{ readonly fencingToken: number; readonly leaseId: string | null } | null>;

  /**
   * For fences whose guard can be sent by other clients: the refusal in an error of such a client. A run that ends with
   * one about its own grant has lost its lease, whoever sent the guard.
   */
  refusalOf?(error: unknown): StaleTokenError | undefined;
}

/** The refusal in an error that a body ended with: a fence's own error, or what a client made of it. */
export function refusalIn(error: unknown, fences: readonly Fence[]): StaleTokenError | undefined {
  const own = findStale(error);
  if (own !== undefined) return own;
  for (const fence of fences) {
    try {
      const refusal = fence.refusalOf?.(error);
      if (refusal !== undefined) return refusal;
    } catch {
      // A fence that cannot say is no reason to lose the body's own error.
    }
  }
  return undefined;
}

function isHolding(value: Grant | Holding): value is Holding {
  const { holding, assertHeld } = value as Partial<Holding>;
  return typeof holding?.mayWrite === 'function' && typeof assertHeld === 'function';
}

function requireGrant(value: unknown): asserts value is Grant {
  const grant = value as Partial<Grant> | null;
  if (
    typeof grant !== 'object' ||
    grant === null ||
    typeof grant.resource !== 'string' ||
    typeof grant.leaseId !== 'string' ||
    !Number.isSafeInteger(grant.fencingToken) ||
    (grant.fencingToken as number) < 1
  ) {
    throw new ConfigError(
      'grant',
      'a fence takes a lease or a grant { resource, fencingToken, leaseId }; pass the lease, not its token',
    );
  }
  checkQualifiedName('grant.resource', grant.resource);
  checkLeaseId('grant.leaseId', grant.leaseId);
}

/**
 * The grant of a lease, for `activate`. Throws `ConfigError` for anything that is neither a lease nor a grant: a bare
 * number cannot be told from a successor's.
 */
export function grantOf(grant: Grant | Holding): Grant {
  const asked: unknown = typeof grant === 'object' && grant !== null && isHolding(grant) ? grant.grant : grant;
  requireGrant(asked);
  return asked;
}

/**
 * What every fence does before a write, with nothing awaited between this and the send: checks that the lease is held,
 * by the clocks, and that it activated this fence. A bare grant (delegated to another process) is taken as it is.
 */
export function grantForWrite(fence: Fence, grant: Grant | Holding): Grant {
  if (typeof grant === 'object' && grant !== null && isHolding(grant)) {
    grant.assertHeld();
    if (!grant.holding.mayWrite(fence)) {
      throw new FenceNotActivatedError(grant.grant.resource, fence.name, grant.grant.fencingToken);
    }
  }
  return grantOf(grant);
}

/** Throws `ConfigError` unless it is the body of a write. */
export function checkBody(body: unknown): void {
  if (typeof body !== 'function') throw new ConfigError('body', `is ${show(body)}: must be a function of the write`);
}

/** Throws `ConfigError` unless it is a qualified name, for `seal` and `highest`. */
export function checkQualified(resource: unknown): void {
  checkQualifiedName('resource', resource);
}

/** Throws `ConfigError` unless it can be a fencing token, for `seal`. */
export function checkToken(fencingToken: unknown): void {
  if (Number.isSafeInteger(fencingToken) && (fencingToken as number) >= 1) return;
  throw new ConfigError('fencingToken', `is ${show(fencingToken)}: must be a fencing token, a safe integer above 0`);
}

/** Tells the lease that a fence refused it, if `error` says so and there is a lease; returns `error` for rethrowing. */
export function reportRefusal(grant: Grant | Holding, error: unknown): unknown {
  const stale = findStale(error);
  if (stale !== undefined && isHolding(grant)) grant.holding.refused(stale);
  return error;
}

/** Whether a fence admits a grant over what it has admitted before. The rule, for fences that compare in JavaScript. */
export function admits(highest: Mark | null, grant: Grant): boolean {
  if (highest === null || grant.fencingToken > highest.fencingToken) return true;
  return grant.fencingToken === highest.fencingToken && grant.leaseId === highest.leaseId;
}

/** What the highest is once a seal has come. One below it changes nothing. */
export function sealedAt(highest: Mark | null, fencingToken: number): Mark {
  return highest !== null && highest.fencingToken > fencingToken ? highest : { fencingToken, leaseId: null };
}

/** Nothing accepts a token farther ahead of its own clock than this: one typing error would shut out every owner. */
export const MAX_TOKEN_AHEAD_US: number = 24 * 60 * 60 * 1_000_000;
