import type { Redis } from 'ioredis';

/** What an adapter is given, in the process of an owner. */
export interface Surroundings {
  /** Of the server that has the locks. */
  readonly storeUrl: string;
  /** The protected resource's own server, reached by another way. Only who has a guard for it needs to look. */
  readonly ledger: Redis;
  readonly resource: string;
  readonly leaseMs: number;
  readonly renewMs: number;
  /** For the client of the locks; undefined: as the client has it, which for ioredis is none. */
  readonly commandTimeoutMs: number | undefined;
}

/** What the library gives to whoever is in the section. */
export interface Held {
  /** Everything that the library says about a loss, in one word. Asked before each step. */
  isLost(): boolean;
  /** Undefined if the library has none. */
  readonly token?: number;
  /** The library's own way to write to the resource, if it has one. Otherwise the write is a plain one. */
  write?(command: readonly string[]): Promise<void>;
}

export interface Contender {
  /** Waits as long as it takes, runs the section once, gives the resource back. */
  run(section: (held: Held) => Promise<void>): Promise<void>;
}

/** One library in its best documented configuration. */
export interface Peer {
  readonly name: string;
  /** The package whose version is told, as it is named in the package.json of this folder. */
  readonly dependency: string;
  /** How it is used here, for the reader of the comparison. */
  readonly configuration: string;
  /** Patterns of what it keeps in the store about this resource. */
  keys(resource: string): readonly string[];
  /** How often a lock is extended. */
  renewMs(leaseMs: number): number;
  /** How long a successor may need when nothing is wrong with the library: a lease, or the next tick. */
  patienceMs(leaseMs: number): number;
  /** Whether a timeout of the client's commands is a setting for it: it is not, where the client blocks on purpose. */
  readonly takesCommandTimeout: boolean;
  readonly needsNode?: number;
  open(surroundings: Surroundings): Promise<Contender>;
}

/** What most have in common. */
export const ofALock = {
  renewMs: (leaseMs: number) => leaseMs / 3,
  patienceMs: (leaseMs: number) => leaseMs,
  takesCommandTimeout: true,
} as const;
