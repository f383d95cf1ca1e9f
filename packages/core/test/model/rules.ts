import { sealTokenOf } from '../../src/diagnosis/plan.ts';
import { judge } from '../../src/diagnosis/verdict.ts';
import { admits, sealedAt } from '../../src/fence/fence.ts';
import { trustedMs } from '../../src/lease/term.ts';
import {
  decideAcquire,
  decideAdopt,
  decideCancel,
  decideExtend,
  decideForceRelease,
  decideRelease,
  decideRevoke,
} from '../../src/store/decisions.ts';

/** What is under examination: what the store, the fence and the diagnosis decide, and how an owner reckons. Seeded errors are other rules. */
export interface Rules {
  readonly acquire: typeof decideAcquire;
  readonly adopt: typeof decideAdopt;
  readonly extend: typeof decideExtend;
  readonly release: typeof decideRelease;
  readonly cancel: typeof decideCancel;
  readonly forceRelease: typeof decideForceRelease;
  readonly revoke: typeof decideRevoke;
  readonly judge: typeof judge;
  readonly sealToken: typeof sealTokenOf;
  readonly admits: typeof admits;
  readonly sealed: typeof sealedAt;
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
  /** Whether an owner whose window has closed believes an extension that is confirmed later. */
  readonly revives: boolean;
  /** Whether a grant is activated before its owner reads. */
  readonly activates: boolean;
  /** Whether the fence checks and writes in one step. */
  readonly isAtomic: boolean;
  /** Whether who was refused by the fence tells the store how far it is. */
  readonly learnsFloor: boolean;
  /** Whether a lease is released by force only when the fence is sealed, and only when it refuses the old grant then. */
  readonly sealsFirst: boolean;
  readonly triesOldGrant: boolean;
  /** Whether what is said of a lease does nothing to another. If not, more states are told apart. */
  readonly areCompared: boolean;
}

/** Those of production. No drift and no margin: nothing but the rule itself keeps the windows apart. */
export const productionRules: Rules = {
  acquire: decideAcquire,
  adopt: decideAdopt,
  extend: decideExtend,
  release: decideRelease,
  cancel: decideCancel,
  forceRelease: decideForceRelease,
  revoke: decideRevoke,
  judge,
  sealToken: sealTokenOf,
  admits,
  sealed: sealedAt,
  trustMs: (remainingMs, elapsedMs, ttlMs) =>
    trustedMs(Math.min(ttlMs, remainingMs), { driftRate: 0, marginMs: 0 }) - elapsedMs,
  buriesWithdrawn: true,
  buriesReleased: true,
  endsAtHandOver: true,
  lapses: true,
  believesMessages: false,
  revives: false,
  activates: true,
  isAtomic: true,
  learnsFloor: true,
  sealsFirst: true,
  triesOldGrant: true,
  areCompared: true,
};
