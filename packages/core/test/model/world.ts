import type { Mark } from '../../src/fence/fence.ts';
import { EMPTY, type ResourceState } from '../../src/store/state.ts';

/**
 * A state of the model: the store's record of one resource, the processes, and what is under way between them.
 *
 * Time is counted in units of the shortest turn. The store's clock always says `NOW_US`: when time passes, the deadlines
 * come closer instead, so that states which differ only in the hour are one.
 */
export interface World {
  readonly store: ResourceState;
  readonly processes: readonly Process[];
  readonly packets: readonly Packet[];
  /** Crashes and leaseIds that are left. */
  readonly crashes: number;
  readonly fresh: number;
  /** The leaseId that was handed over, or empty. Its ticket may be used by anybody, any number of times. */
  readonly ticket: string;
  /** Null where nothing is written. */
  readonly guarded: Guarded | null;
  /** The operator who is about to release by force, or null. */
  readonly operator: Operator | null;
  /** Diagnoses and revocations that are left. */
  readonly diagnoses: number;
  readonly revokes: number;
  /** What was last done to the store or the resource. Another object each time. */
  readonly did: Deed | null;
}

/** What is written by those who have the lease, behind its fence. */
export interface Guarded {
  readonly highest: Mark | null;
  /** Of which something took effect: each once, the latest last. */
  readonly accepted: readonly Holder[];
  /** What is under way to it. May arrive at any time. */
  readonly operations: readonly Operation[];
}

export interface Holder {
  readonly leaseId: string;
  readonly fencingToken: number;
}

/** `landing`: the fence has let a write pass, which is still to come. */
export interface Operation extends Holder {
  readonly kind: 'activate' | 'write' | 'landing';
  /** What it was made from is still what is there. */
  readonly fresh: boolean;
}

/** What an operator goes by. */
export interface Operator extends Holder {
  readonly stage: 'looked' | 'sealed';
  readonly sealToken: number;
}

/** What came to the store or the resource, and in whose name. */
export interface Deed {
  readonly what: Packet['kind'] | Operation['kind'] | 'force';
  readonly leaseId: string;
  readonly fencingToken: number;
  /** By the fence. */
  readonly accepted: boolean;
  readonly fresh: boolean;
}

/** `asking`: an acquisition goes on. `holding`: it had a grant that it could believe, and its body has not settled. */
export interface Process {
  readonly phase: 'idle' | 'asking' | 'holding' | 'gone';
  readonly mode: Mode;
  /** Which of its leaseIds is the present one. */
  readonly attempt: number;
  /** A call of this leaseId has had no answer. */
  readonly dirty: boolean;
  readonly call: Call | null;
  /** How long it goes on believing that it is the owner, in units. */
  readonly trust: number;
  /** By attempt: whether a release or cancel of it has reached the store. */
  readonly spent: readonly boolean[];
  /** It has heard that it is revoked, and extends no more. */
  readonly final: boolean;
  /** Of its grant. */
  readonly fencingToken: number;
  /** Where it is with the resource. */
  readonly access: Access;
  /** Writes of its grant that are left. */
  readonly writes: number;
  /** What a refusal has told it. */
  readonly floor: number;
}

/** `stale`: what it has read has been overwritten since, which it does not know. */
export type Access = 'none' | 'activating' | 'fresh' | 'stale' | 'writing' | 'done' | 'refused';

/** `adopt`: it asks for the lease that was handed over. */
export type Mode = 'try' | 'wait' | 'adopt';

export interface Call {
  readonly kind: 'acquire' | 'extend';
  /** Units since it was sent. */
  readonly elapsed: number;
  /** Null while the request is on its way; then the reply is. */
  readonly reply: Answer | null;
}

export interface Answer {
  readonly kind: 'granted' | 'queued' | 'busy' | 'over' | 'extended' | 'revoked' | 'lost';
  /** Units. */
  readonly remaining: number;
  readonly fencingToken: number;
}

/** What nobody waits for any more and may still arrive; withdrawals, which are sent until they have; messages. */
export interface Packet {
  readonly kind: 'acquire' | 'extend' | 'release' | 'cancel' | 'go' | 'revoke';
  readonly leaseId: string;
  readonly mode: Mode;
  readonly buries: boolean;
  readonly floor: number;
}

export interface Bounds {
  readonly processes: number;
  /** LeaseIds in all; any process may use them up. */
  readonly leaseIds: number;
  readonly crashes: number;
  /** Whether there are processes that try and do not wait. */
  readonly tries: boolean;
  /** Whether a lease is handed over, once. */
  readonly handsOver: boolean;
  /** Whether somebody releases leases by force that have run out. */
  readonly forces: boolean;
  /** Writes of each grant to a resource behind a fence; 0 for no resource. */
  readonly writes: number;
  /** Diagnoses, each of which may come to a seal and a release by force. For these there must be a resource. */
  readonly diagnoses: number;
  readonly revokes: number;
  /** Whether calls are given up that have had no answer. */
  readonly drops: boolean;
  /** Requests that were given up and may arrive later. */
  readonly ghosts: number;
  /** In units. A waiter's place lasts for three refreshes. */
  readonly ttl: number;
  readonly refresh: number;
  /** No more states than this are visited. */
  readonly states: number;
  /** From every so many states, what is left must be served. */
  readonly probeEvery: number;
}

/** The shortest turn, and so the step of time. */
export const UNIT_MS = 50;
export const UNIT_US: number = UNIT_MS * 1000;
export const NOW_US = 1_800_000_000_000_000;

export function leaseIdOf(process: number, attempt: number): string {
  return `${process}.${attempt}`;
}

export function whose(leaseId: string): { readonly process: number; readonly attempt: number } {
  const dot = leaseId.indexOf('.');
  return { process: Number(leaseId.slice(0, dot)), attempt: Number(leaseId.slice(dot + 1)) };
}

export function beginning(bounds: Bounds): World {
  const idle: Process = {
    phase: 'idle',
    mode: 'wait',
    attempt: -1,
    dirty: false,
    call: null,
    trust: 0,
    spent: [],
    final: false,
    fencingToken: 0,
    access: 'none',
    writes: 0,
    floor: 0,
  };
  const { crashes, leaseIds: fresh, diagnoses, revokes } = bounds;
  return {
    ...{ store: EMPTY, processes: Array.from({ length: bounds.processes }, () => idle), packets: [] },
    ...{ crashes, fresh, ticket: '', operator: null, diagnoses, revokes, did: null },
    guarded: bounds.writes === 0 ? null : { highest: null, accepted: [], operations: [] },
  };
}

export function at({ processes }: World, index: number): Process {
  const process = processes[index];
  if (process === undefined) throw new Error(`there is no process ${index}`);
  return process;
}

export function put(world: World, index: number, process: Process): World {
  return { ...world, processes: world.processes.with(index, process) };
}

/**
 * What is left to come of a store's state when `units` have passed, and nothing of what no decision looks at. The clock has
 * no part in the tokens: it may have been set back.
 */
export function settleStore(state: ResourceState, units: number, lapses: boolean, counts = false): ResourceState {
  const passedUs = units * UNIT_US;
  const { lease, turn, queue } = state;
  const kept = lapses ? passedUs : 0;
  return {
    lease: lease && {
      ...lease,
      acquiredUs: NOW_US,
      extendedUs: NOW_US,
      expiresUs: Math.max(NOW_US, lease.expiresUs - passedUs),
      // Of interest to an operator who has looked, and then only whether there was one.
      extensions: counts ? Math.min(1, lease.extensions) : 0,
      previous: null,
    },
    turn: units === 0 ? turn : turn && { ...turn, untilUs: Math.max(NOW_US, turn.untilUs - kept) },
    queue:
      units === 0
        ? queue
        : queue.map((waiter) => ({ ...waiter, liveUntilUs: Math.max(NOW_US, waiter.liveUntilUs - kept) })),
    parked: [],
    // They outlive every packet.
    tombstones: state.tombstones,
    ticks: EMPTY.ticks,
    log: EMPTY.log,
    keptUntilUs: null,
  };
}
