import type { AcquireOptions, LeaseManagerOptions } from '../../src/options.ts';
import type { diagnose } from '../../src/diagnosis/diagnose.ts';
import type { Fence, Grant } from '../../src/fence/fence.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';
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
  /** In what a process has in its hands to reach the resource. */
  readonly reach?: (fence: Fence<MemoryTx>) => Fence<MemoryTx>;
  /** How long it waits for an answer of the resource. Milliseconds. */
  readonly fenceTimeoutMs?: number;
  /** In how the manager is set up. */
  readonly manager?: Partial<LeaseManagerOptions>;
  /** In how leases are asked for. */
  readonly acquire?: AcquireOptions;
  /** In what a body writes with. */
  readonly holder?: (lease: Lease, manager: LeaseManager) => Promise<Grant> | undefined;
  /** In how the engine waits for a body. */
  readonly body?: (settled: Promise<void>, lease: Lease) => Promise<void>;
  /** In the engine, for as long as a run takes. Returns what repairs it. */
  readonly engine?: () => () => void;
  /** In how somebody looks at a lease. */
  readonly diagnose?: typeof diagnose;
  /** In the release by force: without the seal. */
  readonly forcesUnsealed?: boolean;
}

/** An error that people make, and the rule that must find it. */
export interface SeededBug extends Bug {
  readonly does: string;
  /** Which of the errors it is that every such library must be proof against. */
  readonly mutation?: Mutation;
  readonly foundBy: InvariantId;
  /** The first seed to try, of one that is rarely met: those before it do not find it, and would be played in vain. Default 0. */
  readonly from?: number;
}

/** Errors that other libraries have, or that a change of ours could bring. Each has a seeded bug. */
export const MUTATIONS = {
  counted: 'tokens from a counter (`INCR`)',
  'token alone': 'a fence that compares tokens with ≥, without the leaseId',
  'check outside': 'a fence that checks outside the transaction of the write',
  'no activation': 'no activation before the body',
  'from the reply': 'a deadline that is counted from the reply',
  'wall clock': 'an owner that goes by its wall clock alone',
  flag: 'a flag that says held, instead of a check that computes it',
  'by owner': 'a release by the id of the owner',
  'token deleted': 'a release that deletes the token',
  'by name': 'an extend by the name alone',
  resurrection: 'an extend that makes a lost lease again',
  'revoked goes on': 'a revoked lease that is extended',
  'body left': 'a run that does not wait for its body',
  'no tombstones': 'no tombstones',
  'no settler': 'acquisitions without an answer that nobody takes back',
  'equal seal': 'a seal that lets the equal token through',
  'no drift': 'drift that is ignored',
  'no margin': 'a margin of 0',
  'expired again': 'an expired leaseId that is granted again',
  'offline queue': 'a client with an offline queue',
  'no seal': 'a release by force without a seal',
  're-read': 'a token that is read again from the store',
} as const;

export type Mutation = keyof typeof MUTATIONS;

export const NO_BUG: Bug = {};
