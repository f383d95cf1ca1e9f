/**
 * What a lease store decides, as pure functions: what is stored for one resource, a request and the store's time give
 * what is to be stored, the reply and whom to tell. The order of the checks is that of the port (`store.ts`).
 *
 * Nothing here reads a clock or keeps anything, so a model checker can drive these functions through every interleaving.
 */

import { MAX_TOKEN_AHEAD_US } from '../fence/fence.ts';
import { note, noteSeal } from './log.ts';
import { openTurn, stand, tell, withoutDeadHeads } from './queue.ts';
import {
  ending,
  isBuried,
  isHeld,
  leftMs,
  SILENCE,
  whyLost,
  writeBack,
  type Decision,
  type ResourceState,
  type StoredLease,
  type Tombstone,
} from './state.ts';
import type {
  AcquireReply,
  AcquireRequest,
  AdoptReply,
  AdoptRequest,
  CancelReply,
  CancelRequest,
  ExtendItem,
  ExtendVerdict,
  ForceReleaseReply,
  ForceReleaseRequest,
  NoteSealRequest,
  ReleaseReply,
  ReleaseRequest,
  RevokeReply,
  RevokeRequest,
} from './store.ts';
import type { ClaimedTick } from './tick-request.ts';
import {
  claimOf,
  claimTick,
  endTick,
  handOverTick,
  hasClaimed,
  keptUntil,
  nextClaim,
  refuseTick,
  writeBackTick,
} from './ticks.ts';

const MAX_TOMBSTONES = 8;

export function decideAcquire(before: ResourceState, request: AcquireRequest, nowUs: number): Decision<AcquireReply> {
  let state = writeBack(before, nowUs);
  const { lease } = state;
  const { leaseId } = request;

  const refuse = (reply: AcquireReply): Decision<AcquireReply> => ({ state, reply, messages: SILENCE });
  const known = decideKnown(state, leaseId, request.tick?.job, nowUs);
  if (known !== null) return refuse(known);
  const highest = Math.max(lease?.fencingToken ?? 0, request.floor);
  if (highest >= nowUs + MAX_TOKEN_AHEAD_US) return refuse({ kind: 'out-of-range', fencingToken: highest });

  const replacing =
    request.replaces !== '' &&
    lease !== null &&
    lease.leaseId === request.replaces &&
    isHeld(lease, nowUs) &&
    lease.revoked !== request.replaces;
  if (request.tick !== undefined && !(replacing && hasClaimed(state.ticks, request.tick, request.replaces))) {
    state = { ...state, ticks: writeBackTick(state.ticks, request.tick, nowUs) };
    const refusal = refuseTick(state.ticks, request.tick, nowUs);
    if (refusal !== null) return refuse({ kind: 'tick', ...refusal });
  }
  if (replacing) return grant(note(state, request.history, 'refused', lease, nowUs), request, nowUs, 'replaced');

  if (lease === null && request.quarantineMs > 0) {
    return stand(state, request, nowUs, { reason: 'quarantine', holder: null, remainingMs: request.quarantineMs });
  }
  if (lease !== null && isHeld(lease, nowUs)) {
    const holder = { owner: lease.owner, fencingToken: lease.fencingToken, job: lease.tick?.job ?? null };
    const obstacle = { reason: 'held', holder, remainingMs: leftMs(lease.expiresUs, nowUs) } as const;
    const decision = stand(state, request, nowUs, obstacle);
    return lease.hasSpareTokens ? { ...decision, messages: tell('wanted', lease, 0) } : decision;
  }
  return takeTurn({ ...state, queue: withoutDeadHeads(state.queue, nowUs) }, request, nowUs);
}

type Known = Extract<AcquireReply, { readonly kind: 'granted' | 'spent' | 'cancelled' }>;
type Grant = Extract<AcquireReply, { readonly kind: 'granted' }>;

/** The answer to a leaseId that the record knows, or null. */
function decideKnown(state: ResourceState, leaseId: string, job: string | undefined, nowUs: number): Known | null {
  const { lease } = state;
  if (isBuried(state, leaseId, nowUs)) return { kind: 'cancelled' };
  if (lease === null || lease.leaseId !== leaseId) return null;
  if (!isHeld(lease, nowUs)) return { kind: 'spent' };
  const { fencingToken } = lease;
  const remainingMs = leftMs(lease.expiresUs, nowUs);
  return { kind: 'granted', fencingToken, remainingMs, again: true, tick: claimOf(state.ticks, job, leaseId) };
}

/** The resource is free: whose turn is it? A missed turn opens it to whoever asks, so that turns never cascade. */
function takeTurn(state: ResourceState, request: AcquireRequest, nowUs: number): Decision<AcquireReply> {
  const [head, ...others] = state.queue;
  if (head === undefined || head.leaseId === request.leaseId) return grantFree(state, request, nowUs);
  if (state.turn?.leaseId === head.leaseId) {
    const remainingMs = leftMs(state.turn.untilUs, nowUs);
    if (remainingMs > 0) return stand(state, request, nowUs, { reason: 'turn', holder: null, remainingMs });
    return grantFree({ ...state, queue: others }, request, nowUs);
  }
  // The holder did not release (or the one before the head is dead), so nobody has opened this turn yet.
  const opened = openTurn(state, state.lease?.ttlMs ?? request.ttlMs, nowUs);
  const remainingMs = leftMs(opened.state.turn?.untilUs ?? nowUs, nowUs);
  const decision = stand(opened.state, request, nowUs, { reason: 'turn', holder: null, remainingMs });
  return { ...decision, messages: opened.messages };
}

function grantFree(state: ResourceState, request: AcquireRequest, nowUs: number): Decision<AcquireReply> {
  const { lease } = state;
  const lapsed = lease !== null && lease.owner !== '';
  const noted = lapsed ? note(state, request.history, 'expired', lease, lease.expiresUs) : state;
  return grant(noted, request, nowUs, 'expired');
}

function grant(
  state: ResourceState,
  request: AcquireRequest,
  nowUs: number,
  ended: 'expired' | 'replaced',
): Decision<AcquireReply> {
  const { tick, replaces, leaseId } = request;
  const isWanted = state.parked.length > 0 || state.queue.some((waiter) => waiter.leaseId !== leaseId);
  const spareTokens = tick !== undefined || isWanted ? 0 : (request.spareTokens ?? 0);
  const claimed = tick === undefined ? null : nextClaim(state.ticks, tick, replaces, nowUs);
  const claim = tick && claimed && { job: tick.job, at: claimed.at };
  const lease = newLease(state, { ...request, spareTokens }, claim, nowUs, ended);
  let granted = seat(state, lease);
  if (tick !== undefined && claimed !== null) {
    const claimant = { ...lease, replaces, keptUntilUs: keptUntil(request.retentionMs, nowUs) };
    granted = { ...granted, ticks: claimTick(state.ticks, tick, claimed, claimant) };
  }
  return {
    state: note(granted, request.history, 'acquired', lease, nowUs),
    reply: withSpareTokens(grantOf(lease, claimOf(granted.ticks, tick?.job, lease.leaseId)), spareTokens),
    messages: SILENCE,
  };
}

/** The record has the last of them, the owner begins with the first. */
function withSpareTokens(granted: Grant, spareTokens: number): Grant {
  if (spareTokens === 0) return granted;
  return { ...granted, fencingToken: granted.fencingToken - spareTokens, spareTokens };
}

function grantOf({ fencingToken, ttlMs }: StoredLease, tick: ClaimedTick | null): Grant {
  return { kind: 'granted', fencingToken, remainingMs: ttlMs, again: false, tick };
}

function newLease(
  state: ResourceState,
  request: Pick<AcquireRequest, 'leaseId' | 'ttlMs' | 'owner' | 'channel' | 'floor' | 'spareTokens'>,
  tick: StoredLease['tick'] | undefined,
  nowUs: number,
  ended: 'expired' | 'replaced' | 'handed-over',
): StoredLease {
  const { leaseId, ttlMs, owner, channel, spareTokens = 0 } = request;
  return {
    owner: owner.line,
    ownerJson: owner.json,
    channel,
    leaseId,
    fencingToken: Math.max((state.lease?.fencingToken ?? 0) + 1, request.floor + 1, nowUs) + spareTokens,
    hasSpareTokens: spareTokens > 0,
    ttlMs,
    acquiredUs: nowUs,
    extendedUs: nowUs,
    expiresUs: nowUs + ttlMs * 1000,
    extensions: 0,
    revoked: '',
    tick: tick ?? null,
    previous: state.lease === null ? null : ending(state.lease, ended, nowUs),
  };
}

function seat(state: ResourceState, lease: StoredLease): ResourceState {
  return {
    ...state,
    lease,
    turn: null,
    keptUntilUs: null,
    queue: state.queue.filter((waiter) => waiter.leaseId !== lease.leaseId),
  };
}

export function decideAdopt(state: ResourceState, request: AdoptRequest, nowUs: number): Decision<AdoptReply> {
  const { lease } = state;
  const { leaseId, from, job } = request;
  const refuse = (reply: AdoptReply): Decision<AdoptReply> => ({ state, reply, messages: SILENCE });
  const known = decideKnown(state, leaseId, job, nowUs);
  if (known !== null) return refuse(known);
  const lost = whyLost(lease, from, nowUs);
  if (lease === null || lost !== null) return refuse({ kind: 'lost', reason: lost ?? 'missing' });
  if (lease.revoked === from) return refuse({ kind: 'lost', reason: 'revoked' });
  const highest = Math.max(lease.fencingToken, request.floor);
  if (highest >= nowUs + MAX_TOKEN_AHEAD_US) return refuse({ kind: 'out-of-range', fencingToken: highest });

  const claim = job === undefined ? undefined : state.ticks.get(job);
  const tick = job !== undefined && claim?.leaseId === from ? { job, at: claim.at } : null;
  const adopted = newLease(state, request, tick, nowUs, 'handed-over');
  const next = { ...seat(state, adopted), ticks: handOverTick(state.ticks, job, from, adopted) };
  return {
    state: note(next, request.history, 'adopted', adopted, nowUs),
    reply: grantOf(adopted, claimOf(next.ticks, job, leaseId)),
    messages: SILENCE,
  };
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
  const ownerJson = item.ownerJson ?? lease.ownerJson;
  const extended = { ...lease, ...later, ownerJson, extendedUs: nowUs, extensions: lease.extensions + 1 };
  return {
    state: { ...state, lease: extended },
    reply: { verdict: 'extended', remainingMs: leftMs(extended.expiresUs, nowUs) },
    messages: SILENCE,
  };
}

export function decideRevoke(state: ResourceState, request: RevokeRequest, nowUs: number): Decision<RevokeReply> {
  const { lease } = state;
  const { leaseId, operator, reason } = request;
  const lost = whyLost(lease, leaseId, nowUs);
  if (lease === null || lost !== null) {
    return { state, reply: { kind: 'lost', reason: lost ?? 'missing' }, messages: SILENCE };
  }
  // Told again when asked again: the first message may have been lost.
  const messages = tell('revoked', lease, 0);
  const reply: RevokeReply = { kind: 'revoked', remainingMs: leftMs(lease.expiresUs, nowUs) };
  if (lease.revoked === leaseId) return { state, reply, messages };
  const marked = { ...state, lease: { ...lease, revoked: leaseId } };
  // Who revokes does not know what the log is to keep, so nothing that the owner wants kept may go.
  return { state: note(marked, 'all', 'revoked', lease, nowUs, `${operator}: ${reason}`), reply, messages };
}

export function decideForceRelease(
  state: ResourceState,
  request: ForceReleaseRequest,
  nowUs: number,
): Decision<ForceReleaseReply> {
  const { lease } = state;
  const { leaseId, fencingToken, extensions, elapsedMs, floor, operator, reason } = request;
  const refuse = (reply: ForceReleaseReply): Decision<ForceReleaseReply> => ({ state, reply, messages: SILENCE });
  const lost = whyLost(lease, leaseId, nowUs);
  if (lease === null || (lost !== null && lost !== 'expired')) {
    return refuse({ kind: 'lost', reason: lost ?? 'missing' });
  }
  if (lease.fencingToken !== fencingToken) return refuse({ kind: 'lost', reason: 'superseded' });
  if (lease.extensions !== extensions) return refuse({ kind: 'changed' });
  if (elapsedMs !== null) {
    const remainingMs = leftMs(lease.expiresUs + elapsedMs * 1000, nowUs);
    if (remainingMs > 0) return refuse({ kind: 'running', remainingMs });
  }
  const noted = note(state, 'all', 'forced', lease, nowUs, `${operator}: ${reason}`);
  const endUs = Math.min(lease.expiresUs, nowUs);
  const previous = { owner: lease.owner, fencingToken, endUs, reason: 'force-released' };
  const told = tell('revoked', lease, 0);
  const freed = { ...free(lease, floor, nowUs), previous };
  const opened = openTurn({ ...noted, lease: freed, keptUntilUs: null }, lease.ttlMs, nowUs);
  return { state: opened.state, reply: { kind: 'released' }, messages: [...told, ...opened.messages] };
}

/** An event of no lease: there may be none. */
export function decideNoteSeal(state: ResourceState, request: NoteSealRequest, nowUs: number): Decision<void> {
  const { fencingToken, operator, reason } = request;
  return { state: noteSeal(state, fencingToken, nowUs, `${operator}: ${reason}`), reply: undefined, messages: SILENCE };
}

export function decideRelease(before: ResourceState, request: ReleaseRequest, nowUs: number): Decision<ReleaseReply> {
  const state = { ...before, ticks: endTick(before.ticks, request, nowUs) };
  const lost = whyLost(state.lease, request.leaseId, nowUs);
  const reply: ReleaseReply = lost === null ? { kind: 'released' } : { kind: 'lost', reason: lost };
  if (lost !== null && lost !== 'expired') return { state, reply, messages: SILENCE };
  return { reply, ...endTenure(state, request, nowUs) };
}

export function decideCancel(before: ResourceState, request: CancelRequest, nowUs: number): Decision<CancelReply> {
  const { leaseId } = request;
  const state: ResourceState = {
    ...before,
    ticks: endTick(before.ticks, request, nowUs),
    tombstones: bury(before.tombstones, leaseId, request.tombstoneMs, nowUs),
    queue: before.queue.filter((waiter) => waiter.leaseId !== leaseId),
  };
  const lost = whyLost(state.lease, leaseId, nowUs);
  const reply: CancelReply = { kind: lost === null ? 'ended' : 'nothing' };
  if (lost === null || lost === 'expired') return { reply, ...endTenure(state, request, nowUs) };
  if (state.turn?.leaseId !== leaseId) return { state, reply, messages: SILENCE };
  return { reply, ...openTurn({ ...state, turn: null }, state.lease?.ttlMs ?? 0, nowUs) };
}

/** Frees the resource, whose owner was asked for by its leaseId, and opens the next turn. */
function endTenure(state: ResourceState, request: ReleaseRequest, nowUs: number): Omit<Decision<never>, 'reply'> {
  const { lease } = state;
  if (lease === null) return { state, messages: SILENCE };
  const { floor, history, outcome } = request;
  const freed = { ...free(lease, floor, nowUs), previous: ending(lease, 'released', nowUs) };
  const event = lease.expiresUs > nowUs ? 'released' : 'lost';
  const noted = note(state, history, event, lease, freed.expiresUs, outcome);
  const keptUntilUs = keptUntil(request.retentionMs, nowUs);
  return openTurn({ ...noted, lease: freed, keptUntilUs }, lease.ttlMs, nowUs);
}

/** The lease without its owner. */
function free(lease: StoredLease, floor: number, nowUs: number): StoredLease {
  return {
    ...lease,
    owner: '',
    ownerJson: '',
    channel: '',
    revoked: '',
    expiresUs: Math.min(lease.expiresUs, nowUs),
    // A floor out of range would shut out every later owner: it is left to the next acquire, which says so.
    fencingToken: floor < nowUs + MAX_TOKEN_AHEAD_US ? Math.max(lease.fencingToken, floor) : lease.fencingToken,
  };
}

function bury(tombstones: readonly Tombstone[], leaseId: string, lastsMs: number, nowUs: number): readonly Tombstone[] {
  if (lastsMs <= 0) return tombstones;
  const others = tombstones.filter((tombstone) => tombstone.leaseId !== leaseId && tombstone.untilUs > nowUs);
  return [...others, { leaseId, untilUs: nowUs + lastsMs * 1000 }].slice(-MAX_TOMBSTONES);
}
