import type { ForceReleaseResult } from '../../src/diagnosis/force-release.ts';
import type { LeaseManager } from '../../src/lease/manager.ts';
import type { LeaseStore } from '../../src/store/store.ts';

/** Somebody who looks on at a run. `process`: one life of one process, as its lines are signed. */
export interface Witness {
  /** Between a manager and its store. */
  store(process: string, store: LeaseStore): LeaseStore;
  manager(process: string, manager: LeaseManager): void;
  /** An operator releases by force. */
  forces(process: string, release: Promise<ForceReleaseResult>): void;
}
