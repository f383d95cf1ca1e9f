import type { Tenure } from './tenure.ts';

/** A lease as its owner sees it. */
export interface HeldLease {
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  /** False: it is lost or being released, and its body has not settled. */
  readonly held: boolean;
  readonly ttlMs: number;
  /** How often it is extended. */
  readonly refreshMs: number;
  /** How long its owner trusts it after a confirmation. */
  readonly windowMs: number;
  /** Since the last confirmation by the store was asked for. */
  readonly extensionAgeMs: number;
  readonly heldMs: number;
}

export function describeTenure(tenure: Tenure): HeldLease {
  const { resource, grant, timing } = tenure;
  return {
    resource,
    leaseId: grant.leaseId,
    fencingToken: grant.fencingToken,
    held: tenure.isHeld(),
    ttlMs: timing.ttlMs,
    refreshMs: timing.refreshMs,
    windowMs: timing.windowMs,
    ...tenure.ages(),
  };
}
