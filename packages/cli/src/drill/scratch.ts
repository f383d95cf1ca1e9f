import { randomBytes } from 'node:crypto';

/** The namespace of all that a drill writes: no other key of a store is written. */
export const DRILL_PREFIX = 'leasehold-drill';

/** How long the store remembers what a drill could not remove, the shortest there is. */
export const DRILL_RETENTION = '1m';

/** A resource that nobody else has. `proof` as in `proofs`. */
export function scratchResource(proof: string): string {
  return `${proof}-${randomBytes(8).toString('hex')}`;
}

/** As fences know it. */
export function qualifiedScratch(resource: string): string {
  return `${DRILL_PREFIX}/${resource}`;
}

/** Of the fence that a drill brings itself: in the slot of the record. */
export function scratchFenceKey(resource: string): string {
  return `${DRILL_PREFIX}:{${resource}}:fence`;
}

/** What was written through a Redis fence, as a list; in the slot of the fence. */
export function ledgerKey(resource: string, isOwnFence: boolean): string {
  return `${DRILL_PREFIX}:{${isOwnFence ? resource : qualifiedScratch(resource)}}:ledger`;
}
