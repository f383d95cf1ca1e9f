import type { AcquireOptions } from '../../src/options.ts';
import type { Grant } from '../../src/fence/fence.ts';
import type { Lease } from '../../src/lease/lease.ts';
import type { LeaseManager } from '../../src/lease/manager.ts';
import type { LeaseStore } from '../../src/store/store.ts';
import type { InvariantId } from '../../src/testing/history/finding.ts';
import type { StoreMutant } from '../testing/store-mutant.ts';
import type { FenceServer } from './remote-fence.ts';
import type { ServerClock } from './server.ts';

/** One error, or a few that only together do harm, in a simulated world. */
export interface Bug {
  /** In the store. */
  readonly store?: StoreMutant['change'];
  /** In what a process has in its hands to reach the store. */
  readonly client?: (store: LeaseStore) => LeaseStore;
  /** In how the engine uses it. */
  readonly hand?: (store: LeaseStore) => LeaseStore;
  /** In the fence. */
  readonly fence?: (clock: ServerClock) => FenceServer['fence'];
  /** In how leases are asked for. */
  readonly acquire?: AcquireOptions;
  /** In what a body writes with. */
  readonly holder?: (lease: Lease, manager: LeaseManager) => Promise<Grant> | undefined;
  /** In the engine, for as long as a run takes. Returns what repairs it. */
  readonly engine?: () => () => void;
  /** In the release by force: without the seal. */
  readonly forcesUnsealed?: boolean;
}

/** An error that people make, and the rule that must find it. */
export interface SeededBug extends Bug {
  readonly does: string;
  readonly foundBy: InvariantId;
}

export const NO_BUG: Bug = {};
