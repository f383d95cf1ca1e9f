import type { Reading } from './reading.ts';

/** What a server says of itself. Times of the server in µs since 1970 or ms; sizes in bytes. */
export interface ServerEvidence {
  /** `127.0.0.1:6379`, without credentials. */
  readonly endpoint: string;
  readonly version: Reading<string>;
  /** `standalone`, `cluster` or `sentinel`, as the server names it. */
  readonly mode: Reading<string>;
  readonly role: Reading<'master' | 'replica'>;
  /** New with each start of the process. */
  readonly runId: Reading<string>;
  /** The replication id; a promoted replica begins a new one and keeps the old as `previousReplicationId`. */
  readonly replicationId: Reading<string>;
  readonly previousReplicationId: Reading<string>;
  readonly uptimeMs: Reading<number>;
  readonly loading: Reading<boolean>;
  /** For a replica: is the link to its master up? Null for a master. */
  readonly linkUp: Reading<boolean | null>;
  /** For a master: its replicas, each with how far it is behind. */
  readonly replicas: Reading<
    readonly { readonly endpoint: string; readonly lagMs: number; readonly lagBytes: number }[]
  >;
  readonly evictionPolicy: Reading<string>;
  readonly evictedKeys: Reading<number>;
  readonly usedBytes: Reading<number>;
  /** 0: no limit. */
  readonly maxBytes: Reading<number>;
  readonly persistence: Reading<{
    readonly appendOnly: boolean;
    /** `always`, `everysec`, `no`; empty without append-only file or where CONFIG is not permitted. */
    readonly fsync: string;
    /** `3600 1 300 100`; empty for none, or where CONFIG is not permitted. */
    readonly snapshots: string;
    /** What the last write of either kind failed with; empty if it did not. */
    readonly error: string;
  }>;
  /** True where the server tells its settings, without which `fsync` and `snapshots` say nothing. */
  readonly settings: Reading<true>;
  /** Writes need so many replicas in reach; 0 for none. */
  readonly minReplicas: Reading<number>;
  /** The server's clock minus this process's wall clock, ms, and half the round trip, which bounds its error. */
  readonly clockOffset: Reading<{ readonly offsetMs: number; readonly errorMs: number }>;
}

/** A connection that an owner's process has to the store. */
export interface OwnerConnection {
  readonly address: string;
  readonly ageMs: number;
  readonly idleMs: number;
}

/** What lies at the key of a resource's record. */
export type RecordShape =
  | { readonly kind: 'absent' }
  | { readonly kind: 'record' }
  /** Not ours. `type` as the server names it; `preview`: at most 512 characters of the value, escaped. */
  | { readonly kind: 'foreign'; readonly type: string; readonly preview: string; readonly ttlMs: number | null };

/** What the store can say beyond the record, for diagnosis. Reads only. */
export interface StoreEvidence {
  readonly shape: Reading<RecordShape>;
  /** The key of the record, for commands by hand; empty for a store without keys. */
  readonly key: string;
  /** The server that answers for the resource first, then all other known endpoints (replicas, Sentinels' view, Cluster nodes). */
  readonly servers: readonly ServerEvidence[];
  /** Of the owner's process; unknown where CLIENT LIST is not permitted. */
  readonly connections: Reading<readonly OwnerConnection[]>;
}
