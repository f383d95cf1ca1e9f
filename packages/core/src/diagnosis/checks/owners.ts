/** The owners that are on the store now, with what they have measured of themselves. */

import { describeRecord } from '../../lease/info.ts';
import type { OwnerVitals } from '../../owner.ts';
import type { LeaseStore, StoreCall } from '../../store/store.ts';
import { messageOf } from '../../thrown.ts';
import { plain } from '../probes/words.ts';

export interface FoundOwner {
  /** The owner's line. */
  readonly line: string;
  readonly resource: string;
  readonly ttlMs: number;
  readonly vitals: OwnerVitals;
}

export interface FoundOwners {
  readonly owners: readonly FoundOwner[];
  /** How many leases somebody has; those of owners that say nothing of themselves as well. */
  readonly leases: number;
  /** Why there may be more; empty if all were seen. */
  readonly trouble: string;
}

/** Of a store with many more, these are enough to judge by. */
const MOST = 1000;

const LEAST_TTL_MS = 100;
const MOST_TTL_MS = 86_400_000;

export async function findOwners(store: LeaseStore, call: StoreCall, signal?: AbortSignal): Promise<FoundOwners> {
  const owners: FoundOwner[] = [];
  let leases = 0;
  try {
    for await (const { resource, record } of store.list(call)) {
      signal?.throwIfAborted();
      if (record.state === 'free') continue;
      leases++;
      const vitals = describeRecord(resource, record).identity?.vitals;
      // What no manager would have written is not judged.
      if (vitals !== undefined && record.ttlMs >= LEAST_TTL_MS && record.ttlMs <= MOST_TTL_MS) {
        owners.push({ line: plain(record.owner), resource: plain(resource), ttlMs: record.ttlMs, vitals });
      }
      if (leases >= MOST) return { owners, leases, trouble: `only the first ${MOST} leases were looked at` };
    }
  } catch (error) {
    signal?.throwIfAborted();
    return { owners, leases, trouble: `not all leases could be read: ${messageOf(error)}` };
  }
  return { owners, leases, trouble: '' };
}
