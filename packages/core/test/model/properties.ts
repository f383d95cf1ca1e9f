import { isHeld, type ResourceState } from '../../src/store/state.ts';
import { leaseIdOf, NOW_US, UNIT_US, whose, type Deed, type World } from './world.ts';

/** What must hold at every step. `served` is examined apart, see `Probe`. */
export type PropertyName =
  | 'one-trusting-owner'
  | 'trust-inside-lease'
  | 'held-is-kept'
  | 'turn-is-kept'
  | 'turns-in-order'
  | 'spent-stays-spent'
  | 'tokens-grow'
  | 'ends-its-own'
  | 'revoked-ends'
  | 'lost-stays-lost'
  | 'fence-order'
  | 'one-grant-a-token'
  | 'unbroken-runs'
  | 'no-lost-update'
  | 'forced-is-shut-out'
  | 'served';

type Property = (before: World, after: World) => boolean;

/** True if it holds. */
export const properties: Readonly<Record<Exclude<PropertyName, 'served'>, Property>> = {
  /** No two processes believe that they are the owner. */
  'one-trusting-owner': (_, { processes }) => processes.filter(({ trust }) => trust > 0).length <= 1,

  /** Who believes it is the owner by the store's word, and for no longer. */
  'trust-inside-lease': (_, { store, processes }) =>
    processes.every(
      ({ trust, attempt }, index) =>
        trust === 0 ||
        (heldBy(store) === leaseIdOf(index, attempt) &&
          store.lease !== null &&
          (store.lease.expiresUs - NOW_US) / UNIT_US >= trust),
    ),

  /** Nobody becomes owner while another is, unless that one has handed over. */
  'held-is-kept': (before, after) =>
    newOwner(before, after) === '' || heldBy(before.store) === '' || heldBy(before.store) === before.ticket,

  /** Nobody becomes owner inside the turn of another that still waits. */
  'turn-is-kept': (before, after) => {
    const owner = newOwner(before, after);
    const { turn, queue } = before.store;
    if (owner === '' || turn === null || turn.untilUs <= NOW_US || turn.leaseId === owner) return true;
    return !queue.some(({ leaseId, liveUntilUs }) => leaseId === turn.leaseId && liveUntilUs > NOW_US);
  },

  /** Whoever takes a free resource is the first that still waits, or that one's turn has passed; and nobody overtakes one who waits. */
  'turns-in-order': (before, after) => {
    if (before.store === after.store) return true;
    const waiters = new Map(before.store.queue.map((waiter, place) => [waiter.leaseId, { ...waiter, place }]));
    let last = -1;
    for (const { leaseId } of after.store.queue) {
      const { place = waiters.size, liveUntilUs = Infinity } = waiters.get(leaseId) ?? {};
      // Who had gone stale may have lost its place.
      if (liveUntilUs <= NOW_US) continue;
      if (place < last) return false;
      last = place;
    }
    const owner = newOwner(before, after);
    // What was handed over passes by the queue.
    if (owner === '' || heldBy(before.store) !== '') return true;
    const { turn, queue } = before.store;
    const first = queue.find(({ liveUntilUs }) => liveUntilUs > NOW_US)?.leaseId ?? owner;
    return first === owner || (turn?.leaseId === first && turn.untilUs <= NOW_US);
  },

  /**
   * A leaseId whose release or cancel has reached the store never becomes owner. (One that expired may, after another
   * owner, while its process still asks: the store knows the last leaseId only.)
   */
  'spent-stays-spent': (before, after) => {
    const owner = newOwner(before, after);
    if (owner === '') return true;
    const { process, attempt } = whose(owner);
    return before.processes[process]?.spent[attempt] !== true;
  },

  /** Each grant has a token above all before it. */
  'tokens-grow': (before, after) =>
    newOwner(before, after) === '' ||
    before.store.lease === null ||
    (after.store.lease?.fencingToken ?? 0) > before.store.lease.fencingToken,

  /** A lease that has not run out ends by what is said of that very lease, and so it comes to be revoked. */
  'ends-its-own': (before, after) => {
    const did = deed(before, after);
    const owner = heldBy(before.store);
    if (did === null || owner === '') return true;
    const mayEnd = did.leaseId === owner || before.ticket === owner;
    const isMarked = before.store.lease?.revoked === '' && after.store.lease?.revoked === owner;
    return (heldBy(after.store) === owner || mayEnd) && (!isMarked || did.leaseId === owner);
  },

  /** One that is revoked lasts no longer than it had to. */
  'revoked-ends': (before, after) => {
    const was = before.store.lease;
    const is = after.store.lease;
    if (was === null || was.revoked !== was.leaseId || is?.leaseId !== was.leaseId) return true;
    return is.expiresUs <= was.expiresUs;
  },

  /** Who has stopped believing in its lease does not believe in it again. */
  'lost-stays-lost': (before, after) =>
    before.processes.every(({ phase, attempt, trust }, index) => {
      const now = after.processes[index];
      return phase !== 'holding' || trust > 0 || now?.attempt !== attempt || now.trust === 0;
    }),

  /** Once something of a grant was accepted, nothing of one with a smaller token is. */
  'fence-order': (before, after) => {
    const did = accepted(before, after);
    return did === null || before.guarded?.accepted.every((each) => each.fencingToken <= did.fencingToken) !== false;
  },

  /** What is accepted with one token is of one grant. */
  'one-grant-a-token': (before, after) => {
    const did = accepted(before, after);
    const isOther = (leaseId: string, fencingToken: number): boolean =>
      leaseId !== did?.leaseId && fencingToken === did?.fencingToken;
    return before.guarded?.accepted.some((each) => isOther(each.leaseId, each.fencingToken)) !== true;
  },

  /** What is accepted of one grant comes in one unbroken run. */
  'unbroken-runs': (before, after) => {
    const did = accepted(before, after);
    const place = before.guarded?.accepted.findIndex(({ leaseId }) => leaseId === did?.leaseId) ?? -1;
    return place < 0 || place + 1 === before.guarded?.accepted.length;
  },

  /** Nobody overwrites what it has not read. */
  'no-lost-update': (before, after) => {
    const did = accepted(before, after);
    return did === null || did.what === 'activate' || did.fresh;
  },

  /** When an operator has released a lease by force, the fence is beyond it. */
  'forced-is-shut-out': (before, after) => {
    const did = deed(before, after);
    if (did?.what !== 'force' || after.guarded === null) return true;
    return (after.guarded.highest?.fencingToken ?? 0) > (before.store.lease?.fencingToken ?? 0);
  },
};

/** What this step did to the store or the resource, or null. */
function deed(before: World, after: World): Deed | null {
  return after.did === before.did ? null : after.did;
}

/** What took effect on the resource, or null. */
function accepted(before: World, after: World): Deed | null {
  const did = deed(before, after);
  return did?.accepted === true ? did : null;
}

function heldBy({ lease }: ResourceState): string {
  return lease !== null && isHeld(lease, NOW_US) ? lease.leaseId : '';
}

/** Who became owner in this step, or empty. */
function newOwner(before: World, after: World): string {
  if (before.store === after.store) return '';
  const owner = heldBy(after.store);
  return owner === heldBy(before.store) ? '' : owner;
}
