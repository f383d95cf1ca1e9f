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
 * `open-fence`: a fence that admits everybody. `deaf`: a run that does not hear of the loss, and writes by a lease that it believes
 * to have for ever. `no-fence`: it writes past the fence. `false-token`: it makes its token larger until the fence lets it in.
 */
export type BugName = 'open-fence' | 'deaf' | 'no-fence' | 'false-token';

/** How long an owner may stand still in its transaction; how long a successor waits for it; how long a COMMIT may take. */
export const FENCE_TIMES = { idleTimeout: 1000, lockTimeout: 2500, timeout: 2500 } as const;

/** No operation of such a fence takes longer: an activation, the body, COMMIT, and the question what became of it. */
export const FENCE_SETTLES_MS = 15_000;
