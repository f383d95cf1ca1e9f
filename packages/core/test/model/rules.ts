import { trustedMs } from '../../src/lease/term.ts';
import {
  decideAcquire,
  decideAdopt,
  decideCancel,
  decideExtend,
  decideForceRelease,
  decideRelease,
} from '../../src/store/decisions.ts';

/** What is under examination: the store's decisions, and how an owner reckons. Seeded errors are other rules. */
export interface Rules {
  readonly acquire: typeof decideAcquire;
  readonly adopt: typeof decideAdopt;
  readonly extend: typeof decideExtend;
  readonly release: typeof decideRelease;
  readonly cancel: typeof decideCancel;
  readonly forceRelease: typeof decideForceRelease;
  /**
   * How long an owner believes a reply that says `remainingMs` and comes `elapsedMs` after its request was sent, if it had
   * asked for `ttlMs`.
   */
  readonly trustMs: (remainingMs: number, elapsedMs: number, ttlMs: number) => number;
  /** Whether a leaseId with an unanswered call is buried when its acquisition is given up, and when its lease is released. */
  readonly buriesWithdrawn: boolean;
  readonly buriesReleased: boolean;
  /** Whether who hands over a lease no longer believes in it. */
  readonly endsAtHandOver: boolean;
  /** Whether the entries of waiters go stale and turns lapse. */
  readonly lapses: boolean;
  /** Whether a waiter that is told `go` takes itself for the owner from then on. */
  readonly believesMessages: boolean;
}

/** Those of production. No drift and no margin: nothing but the rule itself keeps the windows apart. */
export const productionRules: Rules = {
  acquire: decideAcquire,
  adopt: decideAdopt,
  extend: decideExtend,
  release: decideRelease,
  cancel: decideCancel,
  forceRelease: decideForceRelease,
  trustMs: (remainingMs, elapsedMs, ttlMs) =>
    trustedMs(Math.min(ttlMs, remainingMs), { driftRate: 0, marginMs: 0 }) - elapsedMs,
  buriesWithdrawn: true,
  buriesReleased: true,
  endsAtHandOver: true,
  lapses: true,
  believesMessages: false,
};
