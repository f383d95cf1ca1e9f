import { trustedMs } from '../../src/lease/term.ts';
import {
  decideAcquire,
  decideAdopt,
  decideCancel,
  decideExtend,
  decideForceRelease,
  decideRelease,
} from '../../src/store/decisions.ts';
import { isHeld, type Decision, type ResourceState } from '../../src/store/state.ts';
import { explore, type Finding } from './explore.ts';
import type { PropertyName } from './properties.ts';
import { productionRules, type Rules } from './rules.ts';
import { NOW_US, UNIT_MS, type Bounds } from './world.ts';

/** An error that people make, the property that must find it, and the bounds within which it does. */
export interface Bug {
  readonly does: string;
  readonly foundBy: PropertyName;
  readonly rules: Partial<Rules>;
  readonly bounds: Pick<Bounds, 'leaseIds' | 'crashes' | 'ghosts'> & Partial<Bounds>;
}

/** The head of the queue is made the owner by whoever opens its turn. */
function grantedDirectly<Reply>(decision: Decision<Reply>): Decision<Reply> {
  const { leaseId } = decision.messages.find(({ kind }) => kind === 'go') ?? {};
  if (leaseId === undefined) return decision;
  const { lease } = decision.state;
  const { state } = decideAcquire(
    decision.state,
    {
      resource: 'r',
      leaseId,
      ttlMs: lease?.ttlMs ?? UNIT_MS,
      mode: 'wait',
      owner: { line: 'o', json: '' },
      channel: 'c',
      history: 'exceptions',
      floor: 0,
      replaces: '',
      waitRefreshMs: UNIT_MS,
      quarantineMs: 0,
    },
    NOW_US,
  );
  return { ...decision, state };
}

function withoutTurn(state: ResourceState, nowUs: number): ResourceState {
  const held = state.lease !== null && isHeld(state.lease, nowUs);
  return held ? state : { ...state, turn: null, queue: [] };
}

export const bugs: readonly Bug[] = [
  {
    does: 'barging: whoever asks first gets a free resource, turn or no turn',
    foundBy: 'turn-is-kept',
    bounds: { leaseIds: 3, crashes: 0, ghosts: 0 },
    rules: { acquire: (state, request, nowUs) => decideAcquire(withoutTurn(state, nowUs), request, nowUs) },
  },
  {
    does: 'extend revives a lease that has expired, if nobody took it',
    foundBy: 'turn-is-kept',
    bounds: { leaseIds: 3, crashes: 0, ghosts: 1 },
    rules: {
      extend(state, item, nowUs) {
        const { lease } = state;
        if (lease === null || lease.leaseId !== item.leaseId || lease.owner === '')
          return decideExtend(state, item, nowUs);
        return decideExtend({ ...state, lease: { ...lease, expiresUs: nowUs + 1 } }, item, nowUs);
      },
    },
  },
  {
    does: 'a waiter is made owner by the one before it, and trusts from when the message says so',
    foundBy: 'one-trusting-owner',
    bounds: { leaseIds: 3, crashes: 0, ghosts: 0 },
    rules: {
      believesMessages: true,
      acquire: (...args) => grantedDirectly(decideAcquire(...args)),
      release: (...args) => grantedDirectly(decideRelease(...args)),
      cancel: (...args) => grantedDirectly(decideCancel(...args)),
    },
  },
  {
    does: 'an acquire that is answered again is trusted for a whole ttl',
    foundBy: 'one-trusting-owner',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0 },
    rules: {
      trustMs: (_, elapsedMs, ttlMs) => trustedMs(ttlMs, { driftRate: 0, marginMs: 0 }) - elapsedMs,
    },
  },
  {
    does: 'the trust window begins when the reply arrives, not before the request is sent',
    foundBy: 'one-trusting-owner',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0 },
    rules: {
      trustMs: (remainingMs, _, ttlMs) => trustedMs(Math.min(remainingMs, ttlMs), { driftRate: 0, marginMs: 0 }),
    },
  },
  {
    does: 'the trust window begins when the reply arrives, though nobody else comes',
    foundBy: 'trust-inside-lease',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0 },
    rules: {
      trustMs: (remainingMs, _, ttlMs) => trustedMs(Math.min(remainingMs, ttlMs), { driftRate: 0, marginMs: 0 }),
    },
  },
  {
    does: 'no tombstones: a request that was given up and cancelled arrives and becomes owner',
    foundBy: 'spent-stays-spent',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 1 },
    rules: { buriesWithdrawn: false, buriesReleased: false },
  },
  {
    does: 'no tombstone for a released leaseId of which one request has had no answer',
    foundBy: 'spent-stays-spent',
    bounds: { leaseIds: 3, crashes: 0, ghosts: 1 },
    rules: { buriesReleased: false },
  },
  {
    does: 'whoever has the ticket of a hand-over may adopt, once more too',
    foundBy: 'one-trusting-owner',
    bounds: { leaseIds: 3, crashes: 0, ghosts: 0, handsOver: true },
    rules: {
      adopt: (state, request, nowUs) =>
        decideAdopt(state, { ...request, from: state.lease?.leaseId ?? request.from }, nowUs),
    },
  },
  {
    does: 'who hands over goes on believing in the lease',
    foundBy: 'one-trusting-owner',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0, handsOver: true },
    rules: { endsAtHandOver: false },
  },
  {
    does: 'a release by force does not look whether the lease has run out',
    foundBy: 'trust-inside-lease',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0, forces: true },
    rules: {
      forceRelease: (state, request, nowUs) => decideForceRelease(state, { ...request, elapsedMs: null }, nowUs),
    },
  },
  {
    does: 'a release by force lets the next one in beside an owner that still trusts',
    foundBy: 'one-trusting-owner',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0, forces: true },
    rules: {
      forceRelease: (state, request, nowUs) => decideForceRelease(state, { ...request, elapsedMs: null }, nowUs),
    },
  },
  {
    does: 'turns never lapse and waiters never go stale',
    foundBy: 'served',
    bounds: { leaseIds: 3, crashes: 1, ghosts: 0 },
    rules: { lapses: false },
  },
  {
    does: 'tokens come from the clock alone',
    foundBy: 'tokens-grow',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0 },
    rules: {
      acquire(state, request, nowUs) {
        const decision = decideAcquire(state, request, nowUs);
        if (decision.reply.kind !== 'granted' || decision.reply.again || decision.state.lease === null) return decision;
        return { ...decision, state: { ...decision.state, lease: { ...decision.state.lease, fencingToken: nowUs } } };
      },
    },
  },
  {
    does: 'the store counts a lease as expired one step too early',
    foundBy: 'held-is-kept',
    bounds: { leaseIds: 2, crashes: 0, ghosts: 0 },
    rules: {
      acquire(state, request, nowUs) {
        const { lease } = state;
        if (lease === null || lease.leaseId === request.leaseId) return decideAcquire(state, request, nowUs);
        // Expiry is off by one step.
        const early = lease.expiresUs - nowUs <= UNIT_MS * 1000 ? { ...lease, expiresUs: nowUs } : lease;
        return decideAcquire({ ...state, lease: early }, request, nowUs);
      },
    },
  },
];

/** Looks for the shortest way in which the error does harm. */
export function findBug({ rules, bounds, foundBy }: Bug): Finding {
  const small = { processes: 2, ttl: 2, refresh: 1, tries: false, drops: true, states: 1_000_000, probeEvery: 1 };
  const plain = { handsOver: false, forces: false, writes: 0, diagnoses: 0, revokes: 0 };
  return explore({ ...productionRules, ...rules }, { ...small, ...plain, ...bounds }, [foundBy]);
}
