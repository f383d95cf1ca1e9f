import { isHeld, type ResourceState } from '../../src/store/state.ts';
import { leaseIdOf, NOW_US, UNIT_US, whose, type World } from './world.ts';

/** What must hold at every step. `served` is examined apart, see `Probe`. */
export type PropertyName =
  | 'one-trusting-owner'
  | 'trust-inside-lease'
  | 'held-is-kept'
  | 'turn-is-kept'
  | 'spent-stays-spent'
  | 'tokens-grow'
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
};

function heldBy({ lease }: ResourceState): string {
  return lease !== null && isHeld(lease, NOW_US) ? lease.leaseId : '';
}

/** Who became owner in this step, or empty. */
function newOwner(before: World, after: World): string {
  if (before.store === after.store) return '';
  const owner = heldBy(after.store);
  return owner === heldBy(before.store) ? '' : owner;
}
