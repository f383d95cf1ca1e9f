import { LeaseLostError, type Lease } from '@leasehold/core';
import { causesOf, codeOf, isControlError, propertyOf } from './thrown.ts';

/**
 * The loss that ended a run: the manager's word; or a fence's, which the manager has not heard when the write was given the
 * bare grant.
 */
export function lossOf(lease: Lease, error: unknown): LeaseLostError | undefined {
  const { resource, grant, leaseId, fencingToken } = lease;
  const isOurs = propertyOf(error, 'leaseId') === leaseId && propertyOf(error, 'fencingToken') === fencingToken;
  if (codeOf(error) === 'LEASE_LOST' && isOurs) return error as LeaseLostError;
  // By its fields: what a fence said in another process or thread comes without its class.
  const isStale = (at: unknown): boolean =>
    propertyOf(at, 'code') === 'STALE_TOKEN' &&
    propertyOf(at, 'resource') === grant.resource &&
    propertyOf(at, 'fencingToken') === fencingToken;
  if (isControlError(error) || !causesOf(error).some(isStale)) return undefined;
  return new LeaseLostError(resource, { reason: 'fenced', leaseId, fencingToken, settled: { error }, cause: error });
}

/** The loss of a lease that is not held now. */
export function lossNow(lease: Lease): LeaseLostError | undefined {
  try {
    lease.assertHeld();
    return undefined;
  } catch (error) {
    return error as LeaseLostError;
  }
}
