/**
 * What a lease store keeps of one resource, and the questions that every decision asks of it. Pure, times in µs by the
 * store's clock unless their name ends in `Ms`.
 */

import type { LossReason } from '../errors.ts';
import type { HistoryEvent, LeaseRecord, StoreMessage } from './store.ts';
import { keptTicks, type Ticks } from './ticks.ts';

/** The lease of a resource, held or not. */
export interface StoredLease {
  /** Empty when free. The leaseId stays, so that it is known to be spent. */
  readonly owner: string;
  readonly ownerJson: string;
  /** Where the owner listens, or empty. */
  readonly channel: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly ttlMs: number;
  readonly acquiredUs: number;
  readonly extendedUs: number;
  readonly expiresUs: number;
  readonly extensions: number;
  /** The token above is the last of several: the owner is told when somebody else wants the resource. */
  readonly hasSpareTokens: boolean;
  /** The leaseId that is to end its run, or empty. */
  readonly revoked: string;
  /** The tick that this lease claimed, for its events in the log. */
  readonly tick: { readonly job: string; readonly at: number } | null;
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
  /** The newest first. */
  readonly log: readonly HistoryEvent[];
  /** When a free resource is forgotten; null for never. */
  readonly keptUntilUs: number | null;
}

/** For whom, and what. */
export interface Message extends Omit<StoreMessage, 'resource'> {
  readonly channel: string;
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
  log: [],
  keptUntilUs: null,
};

export const SILENCE: readonly Message[] = [];

export function isHeld(lease: StoredLease, nowUs: number): boolean {
  return lease.owner !== '' && lease.expiresUs > nowUs;
}

/** Null while HELD(leaseId). */
export function whyLost(lease: StoredLease | null, leaseId: string, nowUs: number): LossReason | null {
  if (lease === null) return 'missing';
  if (lease.leaseId !== leaseId) return 'superseded';
  if (lease.owner === '') return lease.previous?.reason === 'force-released' ? 'force-released' : 'released';
  return lease.expiresUs > nowUs ? null : 'expired';
}

export function isBuried(state: ResourceState, leaseId: string, nowUs: number): boolean {
  return state.tombstones.some((tombstone) => tombstone.leaseId === leaseId && tombstone.untilUs > nowUs);
}

export function leftMs(untilUs: number, nowUs: number): number {
  return Math.max(0, (untilUs - nowUs) / 1000);
}

/** What is to be remembered of the tenure that ends here; one that has ended keeps its own ending. */
export function ending(lease: StoredLease, reason: string, nowUs: number): LeaseRecord['previous'] {
  if (lease.owner === '') return lease.previous;
  const lapsed = lease.expiresUs <= nowUs;
  const { owner, fencingToken } = lease;
  return { owner, fencingToken, endUs: lapsed ? lease.expiresUs : nowUs, reason: lapsed ? 'expired' : reason };
}

/** What is still remembered now. */
export function remembered(state: ResourceState, nowUs: number): ResourceState {
  const { keptUntilUs, tombstones } = state;
  const ticks = state.ticks.size === 0 ? state.ticks : keptTicks(state.ticks, nowUs);
  const isKept = keptUntilUs === null || keptUntilUs > nowUs || tombstones.some(({ untilUs }) => untilUs > nowUs);
  if (isKept) return ticks === state.ticks ? state : { ...state, ticks };
  return { ...EMPTY, queue: state.queue, parked: state.parked, ticks };
}

/**
 * A deadline farther ahead than it can have been set: the clock went back. It gets its full time, and no more. (Of
 * tombstones nobody minds how long they last.)
 */
export function writeBack(state: ResourceState, nowUs: number): ResourceState {
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
