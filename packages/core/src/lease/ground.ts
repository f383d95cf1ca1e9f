import type { Clock } from '../clock.ts';
import type { ManagerEvents } from '../events.ts';
import type { LeaseStore, StoreCall } from '../store/store.ts';

/** What diagnosis needs of a manager. */
export interface Ground {
  readonly store: LeaseStore;
  readonly clock: Clock;
  readonly call: StoreCall;
  /** Who releases by force, unless somebody else is named: the owner's line. */
  readonly operator: string;
  /** Tells of a release by force. */
  forced(event: ManagerEvents['forceReleased'][0]): void;
}
