import type { WorkloadName } from '../nemesis.ts';

/** What a child process is told, as JSON in CHAOS_OWNER. */
export interface OwnerSetup {
  /** One life of one process, in the history. */
  readonly process: string;
  readonly workload: WorkloadName;
  /** Where its history goes, a line at a time. */
  readonly file: string;
  /** Of the leases. */
  readonly redisUrl: string;
  readonly postgresUrl: string;
  readonly prefix: string;
  readonly resources: readonly string[];
  readonly ttlMs: number;
  readonly seed: number;
  /** For BullMQ: where its queue is, which no nemesis strikes. */
  readonly queue: { readonly url: string; readonly name: string; readonly scope: 'job' | 'worker' } | null;
  /** A seeded bug, which the suite must catch. */
  readonly bug: BugName | null;
}

/**
 * `open-fence`: a fence that admits everybody. `deaf`: a run that does not hear of the loss, and says of its writes that it had
 * looked. `immortal`: an engine for which a lease that the store calls lost goes on. `no-fence`: it writes past the fence.
 */
export type BugName = 'open-fence' | 'deaf' | 'immortal' | 'no-fence';

/** How long an owner may stand still in its transaction; how long a successor waits for it; how long a COMMIT may take. */
export const FENCE_TIMES = { idleTimeout: 1000, lockTimeout: 2500, timeout: 2500 } as const;

/** No operation of such a fence takes longer: an activation, the body, COMMIT, and the question what became of it. */
export const FENCE_SETTLES_MS = 15_000;
