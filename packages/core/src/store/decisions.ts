/**
 * What a lease store decides, as pure functions: what is stored for one resource, a request and the store's time give
 * what is to be stored, the reply and whom to tell. The order of the checks is that of the port (`store.ts`).
 *
 * Nothing here reads a clock or keeps anything, so a model checker can drive these functions through every interleaving.
 */

import type { LossReason } from '../errors.ts';
import { MAX_TOKEN_AHEAD_US } from '../fence/fence.ts';
import type {
  AcquireReply,
  AcquireRequest,
  CancelReply,
  CancelRequest,
  ExtendItem,
  ExtendVerdict,
  LeaseRecord,
  ReleaseReply,
  ReleaseRequest,
} from './store.ts';
import { claimTick, endTick, hasClaimed, refuseTick, type Ticks } from './ticks.ts';

/** The lease of a resource, held or not. Times in µs. */
export interface StoredLease {
  /** Empty when free. The leaseId stays, so that it is known to be spent. */
  readonly owner: string;
  readonly ownerJson: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly ttlMs: number;
  readonly acquiredUs: number;
  readonly extendedUs: number;
  readonly expiresUs: number;
  readonly extensions: number;
  /** The leaseId that is to end its run, or empty. */
  readonly revoked: string;
  readonly previous: LeaseRecord['previous'];
}

/** Somebody in the queue, in the order of arrival. Stale once it has not asked for three refreshes. */
export interface Waiter {
  readonly leaseId: string;
  readonly channel: string;
  readonly liveMs: number;
  readonly liveUntilUs: number;
}

export interface Parked {
  readonly channel: string;
  readonly liveMs: number;
  readonly liveUntilUs: number;
}

export interface Tombstone {
  readonly leaseId: string;
  readonly untilUs: number;
}

/** All that is stored for one resource. */
export interface ResourceState {
  readonly lease: StoredLease | null;
  readonly queue: readonly Waiter[];
  /** The waiter for whom a free resource is kept for a moment. */
  readonly turn: { readonly leaseId: string; readonly claimMs: number; readonly untilUs: number } | null;
  readonly parked: readonly Parked[];
  readonly tombstones: readonly Tombstone[];
  readonly ticks: Ticks;
}

export interface Message {
  readonly channel: string;
  readonly kind: 'go' | 'look' | 'free';
}

export interface Decision<Reply> {
  readonly state: ResourceState;
  readonly reply: Reply;
  readonly messages: readonly Message[];
}

export const EMPTY: ResourceState = {
  lease: null,
  queue: [],
  turn: null,
  parked: [],
  tombstones: [],
  ticks: new Map(),
};

const MAX_TOMBSTONES = 8;
const MAX_DEAD_HEADS = 100;
const SILENCE: readonly Message[] = [];

export function decideAcquire(before: ResourceState, request: AcquireRequest, nowUs: number): Decision<AcquireReply> {
  const state = writeBack(before, nowUs);
  const { lease } = state;
  const { leaseId } = request;

  const refuse = (reply: AcquireReply): Decision<AcquireReply> => ({ state, reply, messages: SILENCE });
  if (state.tombstones.some((tombstone) => tombstone.leaseId === leaseId && tombstone.untilUs > nowUs)) {
    return refuse({ kind: 'cancelled' });
  }
  if (lease !== null && lease.leaseId === leaseId) {
    if (!isHeld(lease, nowUs)) return refuse({ kind: 'spent' });
    const { fencingToken } = lease;
    return refuse({ kind: 'granted', fencingToken, remainingMs: leftMs(lease.expiresUs, nowUs), again: true });
  }
  const highest = Math.max(lease?.fencingToken ?? 0, request.floor);
  if (highest >= nowUs + MAX_TOKEN_AHEAD_US) return refuse({ kind: 'out-of-range', fencingToken: highest });

  const replacing =
    request.replaces !== '' &&
    lease !== null &&
    lease.leaseId === request.replaces &&
    isHeld(lease, nowUs) &&
    lease.revoked !== request.replaces;
  if (request.tick !== undefined && !(replacing && hasClaimed(state.ticks, request.tick, request.replaces))) {
    const refusal = refuseTick(state.ticks, request.tick, nowUs);
    if (refusal !== null) return refuse({ kind: 'tick', ...refusal });
  }
  if (replacing) return grant(state, request, nowUs, 'replaced');

  if (lease === null && request.quarantineMs > 0) {
    return stand(state, request, nowUs, { reason: 'quarantine', holder: null, remainingMs: request.quarantineMs });
  }
  if (lease !== null && isHeld(lease, nowUs)) {
    const holder = { owner: lease.owner, fencingToken: lease.fencingToken };
    return stand(state, request, nowUs, { reason: 'held', holder, remainingMs: leftMs(lease.expiresUs, nowUs) });
  }
  return takeTurn({ ...state, queue: withoutDeadHeads(state.queue, nowUs) }, request, nowUs);
}

/** The resource is free: whose turn is it? A missed turn opens it to whoever asks, so that turns never cascade. */
function takeTurn(state: ResourceState, request: AcquireRequest, nowUs: number): Decision<AcquireReply> {
  const [head, ...others] = state.queue;
  if (head === undefined || head.leaseId === request.leaseId) return grant(state, request, nowUs, 'expired');
  if (state.turn?.leaseId === head.leaseId) {
    const remainingMs = leftMs(state.turn.untilUs, nowUs);
    if (remainingMs > 0) return stand(state, request, nowUs, { reason: 'turn', holder: null, remainingMs });
    return grant({ ...state, queue: others }, request, nowUs, 'expired');
  }
  // The holder did not release (or the one before the head is dead), so nobody has opened this turn yet.
  const opened = openTurn(state, state.lease?.ttlMs ?? request.ttlMs, nowUs);
  const remainingMs = leftMs(opened.state.turn?.untilUs ?? nowUs, nowUs);
  const decision = stand(opened.state, request, nowUs, { reason: 'turn', holder: null, remainingMs });
  return { ...decision, messages: opened.messages };
}

function grant(
  state: ResourceState,
  request: AcquireRequest,
  nowUs: number,
  ended: 'expired' | 'replaced',
): Decision<AcquireReply> {
  const { leaseId, ttlMs } = request;
  const fencingToken = Math.max((state.lease?.fencingToken ?? 0) + 1, request.floor + 1, nowUs);
  const lease: StoredLease = {
    owner: request.owner.line,
    ownerJson: request.owner.json,
    leaseId,
    fencingToken,
    ttlMs,
    acquiredUs: nowUs,
    extendedUs: nowUs,
    expiresUs: nowUs + ttlMs * 1000,
    extensions: 0,
    revoked: '',
    previous: state.lease === null ? null : ending(state.lease, ended, nowUs),
  };
  const { tick, replaces } = request;
  return {
    state: {
      ...state,
      lease,
      turn: null,
      queue: state.queue.filter((waiter) => waiter.leaseId !== leaseId),
      ticks: tick === undefined ? state.ticks : claimTick(state.ticks, tick, { leaseId, fencingToken, replaces }),
    },
    reply: { kind: 'granted', fencingToken, remainingMs: ttlMs, again: false },
    messages: SILENCE,
  };
}

type Obstacle = Omit<Extract<AcquireReply, { kind: 'busy' }>, 'kind'>;

/** A no, as the mode has it: `try` goes away, `wait` takes or keeps its place, `park` leaves its channel. */
function stand(
  state: ResourceState,
  request: AcquireRequest,
  nowUs: number,
  obstacle: Obstacle,
): Decision<AcquireReply> {
  const { leaseId, channel, mode } = request;
  const liveMs = 3 * request.waitRefreshMs;
  const life = { channel, liveMs, liveUntilUs: nowUs + liveMs * 1000 };
  if (mode === 'wait') {
    const queue = [...state.queue];
    let position = queue.findIndex((waiter) => waiter.leaseId === leaseId);
    if (position < 0) position = queue.length;
    queue[position] = { leaseId, ...life };
    return { state: { ...state, queue }, reply: { kind: 'queued', position, ...obstacle }, messages: SILENCE };
  }
  const reply: AcquireReply = { kind: 'busy', ...obstacle };
  if (mode === 'try' || channel === '') return { state, reply, messages: SILENCE };
  const parked = [...state.parked.filter((process) => process.channel !== channel), life];
  return { state: { ...state, parked }, reply, messages: SILENCE };
}

export function decideExtend(before: ResourceState, item: ExtendItem, nowUs: number): Decision<ExtendVerdict> {
  const state = writeBack(before, nowUs);
  const { lease } = state;
  const answer = (reply: ExtendVerdict): Decision<ExtendVerdict> => ({ state, reply, messages: SILENCE });
  const lost = whyLost(lease, item.leaseId, nowUs);
  if (lease === null || lost !== null) return answer({ verdict: 'lost', reason: lost ?? 'missing' });
  if (lease.revoked === item.leaseId) {
    return answer({ verdict: 'revoked', remainingMs: leftMs(lease.expiresUs, nowUs) });
  }
  const until = nowUs + item.ttlMs * 1000;
  // A shorter ttl than the one that the expiry came from: neither goes down, or write-back would cut off what was promised.
  const later = until >= lease.expiresUs ? { expiresUs: until, ttlMs: item.ttlMs } : {};
  const extended = { ...lease, ...later, extendedUs: nowUs, extensions: lease.extensions + 1 };
  return {
    state: { ...state, lease: extended },
    reply: { verdict: 'extended', remainingMs: leftMs(extended.expiresUs, nowUs) },
    messages: SILENCE,
  };
}

export function decideRelease(before: ResourceState, request: ReleaseRequest, nowUs: number): Decision<ReleaseReply> {
  const state = { ...before, ticks: endTick(before.ticks, request.job, request.leaseId, request.outcome) };
  const lost = whyLost(state.lease, request.leaseId, nowUs);
  const reply: ReleaseReply = lost === null ? { kind: 'released' } : { kind: 'lost', reason: lost };
  if (lost !== null && lost !== 'expired') return { state, reply, messages: SILENCE };
  return { reply, ...endTenure(state, request.floor, nowUs) };
}

export function decideCancel(before: ResourceState, request: CancelRequest, nowUs: number): Decision<CancelReply> {
  const { leaseId } = request;
  const state: ResourceState = {
    ...before,
    ticks: endTick(before.ticks, request.job, leaseId, request.outcome),
    tombstones: bury(before.tombstones, leaseId, request.tombstoneMs, nowUs),
    queue: before.queue.filter((waiter) => waiter.leaseId !== leaseId),
  };
  const lost = whyLost(state.lease, leaseId, nowUs);
  const reply: CancelReply = { kind: lost === null ? 'ended' : 'nothing' };
  if (lost === null || lost === 'expired') return { reply, ...endTenure(state, request.floor, nowUs) };
  if (state.turn?.leaseId !== leaseId) return { state, reply, messages: SILENCE };
  return { reply, ...openTurn({ ...state, turn: null }, state.lease?.ttlMs ?? 0, nowUs) };
}

export function readState(state: ResourceState, nowUs: number): LeaseRecord | null {
  const { lease } = state;
  if (lease === null) return null;
  const free = lease.owner === '';
  const { owner, ownerJson, leaseId, fencingToken, ttlMs, acquiredUs, extendedUs, expiresUs, extensions } = lease;
  return {
    state: free ? 'free' : expiresUs > nowUs ? 'held' : 'expired',
    owner,
    ownerJson,
    leaseId,
    fencingToken,
    ttlMs,
    acquiredUs,
    extendedUs,
    expiresUs,
    extensions,
    revoked: lease.revoked !== '' && lease.revoked === leaseId,
    previous: lease.previous,
    waiting: state.queue.filter((waiter) => waiter.liveUntilUs > nowUs).length,
    nowUs,
  };
}

function isHeld(lease: StoredLease, nowUs: number): boolean {
  return lease.owner !== '' && lease.expiresUs > nowUs;
}

/** Null while HELD(leaseId). */
function whyLost(lease: StoredLease | null, leaseId: string, nowUs: number): LossReason | null {
  if (lease === null) return 'missing';
  if (lease.leaseId !== leaseId) return 'superseded';
  if (lease.owner === '') return lease.previous?.reason === 'force-released' ? 'force-released' : 'released';
  return lease.expiresUs > nowUs ? null : 'expired';
}

function leftMs(untilUs: number, nowUs: number): number {
  return Math.max(0, (untilUs - nowUs) / 1000);
}

/** What is to be remembered of the tenure that ends here; one that has ended keeps its own ending. */
function ending(lease: StoredLease, reason: string, nowUs: number): LeaseRecord['previous'] {
  if (lease.owner === '') return lease.previous;
  const lapsed = lease.expiresUs <= nowUs;
  const { owner, fencingToken } = lease;
  return { owner, fencingToken, endUs: lapsed ? lease.expiresUs : nowUs, reason: lapsed ? 'expired' : reason };
}

/** Frees the resource, whose owner was asked for by its leaseId, and opens the next turn. */
function endTenure(state: ResourceState, floor: number, nowUs: number): Omit<Decision<never>, 'reply'> {
  const { lease } = state;
  if (lease === null) return { state, messages: SILENCE };
  const freed: StoredLease = {
    ...lease,
    owner: '',
    ownerJson: '',
    revoked: '',
    expiresUs: Math.min(lease.expiresUs, nowUs),
    // A floor out of range would shut out every later owner: it is left to the next acquire, which says so.
    fencingToken: floor < nowUs + MAX_TOKEN_AHEAD_US ? Math.max(lease.fencingToken, floor) : lease.fencingToken,
    previous: ending(lease, 'released', nowUs),
  };
  return openTurn({ ...state, lease: freed }, lease.ttlMs, nowUs);
}

/** Gives a free resource to the first live waiter for a moment; with none, one parked process is told that it is free. */
function openTurn(state: ResourceState, ttlMs: number, nowUs: number): Omit<Decision<never>, 'reply'> {
  const queue = withoutDeadHeads(state.queue, nowUs);
  const [head, second] = queue;
  if (head !== undefined) {
    // Opened before, after an expiry that this release comes too late for: it runs on.
    if (state.turn?.leaseId === head.leaseId) return { state: { ...state, queue }, messages: SILENCE };
    const claimMs = Math.min(Math.max(ttlMs / 10, 50), 500);
    const messages: Message[] = [];
    if (head.channel !== '') messages.push({ channel: head.channel, kind: 'go' });
    if (second !== undefined && second.liveUntilUs > nowUs && second.channel !== '')
      messages.push({ channel: second.channel, kind: 'look' });
    const turn = { leaseId: head.leaseId, claimMs, untilUs: nowUs + claimMs * 1000 };
    return { state: { ...state, queue, turn }, messages };
  }
  const [told, ...parked] = state.parked.filter((process) => process.liveUntilUs > nowUs);
  const messages: Message[] = told === undefined ? [] : [{ channel: told.channel, kind: 'free' }];
  return { state: { ...state, queue, turn: null, parked }, messages };
}

function withoutDeadHeads(queue: readonly Waiter[], nowUs: number): readonly Waiter[] {
  let dead = 0;
  for (const waiter of queue) {
    if (waiter.liveUntilUs > nowUs || dead === MAX_DEAD_HEADS) break;
    dead++;
  }
  return dead === 0 ? queue : queue.slice(dead);
}

function bury(tombstones: readonly Tombstone[], leaseId: string, lastsMs: number, nowUs: number): readonly Tombstone[] {
  if (lastsMs <= 0) return tombstones;
  const others = tombstones.filter((tombstone) => tombstone.leaseId !== leaseId && tombstone.untilUs > nowUs);
  return [...others, { leaseId, untilUs: nowUs + lastsMs * 1000 }].slice(-MAX_TOMBSTONES);
}

/**
 * A deadline farther ahead than it can have been set: the clock went back. It gets its full time, and no more. (Of
 * tombstones nobody minds how long they last.)
 */
function writeBack(state: ResourceState, nowUs: number): ResourceState {
  const clamp = (untilUs: number, maxMs: number): number => Math.min(untilUs, nowUs + maxMs * 1000);
  const { lease, turn } = state;
  return {
    ...state,
    lease: lease && { ...lease, expiresUs: clamp(lease.expiresUs, lease.ttlMs) },
    turn: turn && { ...turn, untilUs: clamp(turn.untilUs, turn.claimMs) },
    queue: state.queue.map((waiter) => ({ ...waiter, liveUntilUs: clamp(waiter.liveUntilUs, waiter.liveMs) })),
    parked: state.parked.map((parked) => ({ ...parked, liveUntilUs: clamp(parked.liveUntilUs, parked.liveMs) })),
  };
}
