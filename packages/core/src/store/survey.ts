import type { ServerEvidence } from './evidence.ts';
import type { Reading } from './reading.ts';

/** What a store is as a whole, for who asks whether it is fit to be one. Reads only. */
export interface StoreSurvey {
  /** Whether leases can be asked for here, by this connection; else why not. */
  readonly usable: Reading<true>;
  /** Whether the connection is one to a Cluster: its primaries have different data. */
  readonly isCluster: boolean;
  /** How many sentinels were named; null where there is none. */
  readonly sentinels: number | null;
  /** Those that answer for leases first, then the others in reach, each once. */
  readonly servers: readonly ServerEvidence[];
  readonly rights: Reading<StoreRights>;
}

/** What the user of the connection may do, against what is needed. */
export interface StoreRights {
  /** What owners need and this user lacks. */
  readonly missing: readonly MissingRight[];
  /** What people who look need and this user lacks: `+client|list`. */
  readonly missingToLook: readonly string[];
  /** It may write nothing: a user of people who look, not of owners. */
  readonly onlyLooks: boolean;
  /** It may delete everything in the server. */
  readonly mayFlush: boolean;
  /** Commands that make users with just the rights that are needed, without a password. */
  readonly smallest: { readonly own: string; readonly look: string };
}

export interface MissingRight {
  /** As an ACL has it: `+hset`, `~shop:{*`. */
  readonly right: string;
  /** Whether something fails without it; else something is slower, or not told. */
  readonly isNeeded: boolean;
}
