import type { Clock } from '../clock.ts';
import type { ManagerSettings } from '../options.ts';
import type { LeaseStore } from '../store/store.ts';
import type { Announcer } from './announcer.ts';
import type { Engine } from './engine.ts';
import type { OwnerRecord } from './owner-record.ts';
import type { Spare } from './spare.ts';
import type { Tenure } from './tenure.ts';

/** What the parts of one manager share. */
export interface Context {
  readonly settings: ManagerSettings;
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly engine: Engine;
  readonly announcer: Announcer;
  readonly ownerRecord: OwnerRecord;
  /** Acquired and not yet released; lost ones as well, while their body runs. */
  readonly tenures: Set<Tenure>;
  /** Of the leases that are being asked for and may linger, by leaseId: the word that it is wanted may overtake the grant. */
  readonly asked: Map<string, Spare>;
  /** Whether the manager is closing: nothing is handed out any more. */
  closing: boolean;
  /** Ends what waits for a lease, when the manager closes. */
  readonly waiting: Set<() => void>;
}
