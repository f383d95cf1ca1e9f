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
}

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
  readonly kind: 'granted' | 'queued' | 'busy' | 'over' | 'extended' | 'lost';
  /** Units. */
  readonly remaining: number;
}

/** What nobody waits for any more and may still arrive; withdrawals, which are sent until they have; messages. */
export interface Packet {
  readonly kind: 'acquire' | 'extend' | 'release' | 'cancel' | 'go';
  readonly leaseId: string;
  readonly mode: Mode;
  readonly buries: boolean;
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
  };
  const processes = Array.from({ length: bounds.processes }, () => idle);
  return { store: EMPTY, processes, packets: [], crashes: bounds.crashes, fresh: bounds.leaseIds, ticket: '' };
}

/** What is left to come of a store's state when `units` have passed, and nothing of what no decision looks at. */
export function settleStore(state: ResourceState, units: number, lapses: boolean): ResourceState {
  const passedUs = units * UNIT_US;
  const { lease, turn, queue } = state;
  const kept = lapses ? passedUs : 0;
  return {
    lease: lease && {
      ...lease,
      // The clock may have been set back meanwhile, so that the next token cannot come from it.
      fencingToken: units === 0 ? lease.fencingToken : NOW_US,
      acquiredUs: NOW_US,
      extendedUs: NOW_US,
      expiresUs: Math.max(NOW_US, lease.expiresUs - passedUs),
      extensions: 0,
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

/**
 * Equal for worlds that differ only in which process is which, or in what can make no difference any more: how a leaseId
 * ended of which nothing can arrive.
 */
export function encode(world: World): string {
  const parts: string[] = [];
  for (const [index, process] of world.processes.entries()) {
    const { phase, mode, dirty, trust, call } = process;
    let part: string = phase[0] ?? '';
    if (phase === 'asking') part += mode[0];
    if (phase === 'asking' || phase === 'holding') part += `${dirty ? 'd' : '-'}${trust}`;
    if (call !== null) part += `${call.kind[0]}${call.elapsed}`;
    if (call !== null && call.reply !== null) part += `${call.reply.kind[0]}${call.reply.remaining}`;
    for (let attempt = 0; attempt <= process.attempt; attempt++) part += encodeLeaseId(world, process, index, attempt);
    parts.push(part);
  }
  return `${world.crashes}.${world.fresh}|${parts.toSorted().join('|')}`;
}

function encodeLeaseId(world: World, process: Process, index: number, attempt: number): string {
  const { store, packets } = world;
  const { lease, turn, queue, tombstones } = store;
  const leaseId = leaseIdOf(index, attempt);
  let asks = attempt === process.attempt && (process.phase === 'asking' || process.phase === 'holding');
  const arriving: string[] = [];
  for (const { leaseId: each, kind, mode, buries } of packets) {
    if (each !== leaseId) continue;
    arriving.push(`${kind[0]}${mode[0]}${buries ? 'b' : ''}`);
    if (kind === 'acquire') asks = true;
  }
  const handed = world.ticket === leaseId;
  asks ||= handed;
  let stored = handed ? 'K' : '';
  if (lease?.leaseId === leaseId) {
    const left = lease.owner === '' ? -1 : unitsTo(lease.expiresUs);
    if (asks || left > 0 || (left === 0 && arriving.length > 0)) stored += `L${left}`;
  }
  if (turn?.leaseId === leaseId) stored += `T${unitsTo(turn.untilUs)}`;
  for (const [place, waiter] of queue.entries()) {
    if (waiter.leaseId === leaseId) stored += `Q${place}.${unitsTo(waiter.liveUntilUs)}`;
  }
  if (!asks && stored === '') return '';
  if (asks) {
    if (process.spent[attempt] === true) stored += 's';
    for (const tombstone of tombstones) if (tombstone.leaseId === leaseId) stored += 'X';
  }
  return arriving.length === 0 ? `;${stored}` : `;${stored}${arriving.toSorted().join()}`;
}

function unitsTo(us: number): number {
  return (us - NOW_US) / UNIT_US;
}
