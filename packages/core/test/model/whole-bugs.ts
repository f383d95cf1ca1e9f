import {
  decideAcquire,
  decideExtend,
  decideForceRelease,
  decideRelease,
  decideRevoke,
} from '../../src/store/decisions.ts';
import { sealTokenOf } from '../../src/diagnosis/plan.ts';
import type { ResourceState } from '../../src/store/state.ts';
import { findBug, type Bug } from './bugs.ts';
import type { Finding } from './explore.ts';

/** An error in what the parts do together: lease, queue, fence, revocation and release by force. */
export interface WholeBug extends Omit<Bug, 'bounds'> {
  readonly bounds?: Partial<Bug['bounds']>;
  /** The shortest way to the harm. */
  readonly steps: number;
}

/** The leaseId of whoever is there by now, for a request that does not compare. */
function present({ lease }: ResourceState): string {
  return lease?.leaseId ?? '';
}

const oneDiagnosis = { diagnoses: 1 };
const threeWaits = { leaseIds: 3, writes: 0 };

export const wholeBugs: readonly WholeBug[] = [
  {
    does: 'grants are not activated before their owners read',
    foundBy: 'no-lost-update',
    rules: { activates: false },
    steps: 12,
  },
  {
    does: 'the fence checks in one step and writes in another: an older grant writes after a newer one',
    foundBy: 'fence-order',
    rules: { isAtomic: false },
    steps: 15,
  },
  {
    does: 'the fence admits everybody',
    foundBy: 'fence-order',
    rules: { admits: () => true },
    steps: 12,
  },
  {
    does: 'the fence admits everybody: runs are torn',
    foundBy: 'unbroken-runs',
    rules: { admits: () => true },
    steps: 14,
  },
  {
    does: 'a release deletes the record, so that tokens repeat, and the fence compares only tokens',
    foundBy: 'one-grant-a-token',
    rules: {
      release(state, request, nowUs) {
        const decision = decideRelease(state, request, nowUs);
        return decision.reply.kind === 'released'
          ? { ...decision, state: { ...decision.state, lease: null } }
          : decision;
      },
      admits: (highest, { fencingToken }) => highest === null || fencingToken >= highest.fencingToken,
    },
    steps: 12,
  },
  {
    does: 'a lease is released by force before the fence is sealed',
    foundBy: 'forced-is-shut-out',
    rules: { sealsFirst: false },
    bounds: oneDiagnosis,
    steps: 9,
  },
  {
    does: 'a seal changes nothing, and nobody tries whether the old grant is refused',
    foundBy: 'forced-is-shut-out',
    rules: { sealed: (highest) => highest ?? { fencingToken: 1, leaseId: null }, triesOldGrant: false },
    bounds: oneDiagnosis,
    steps: 10,
  },
  {
    does: 'a release by force takes whatever lease is there by then',
    foundBy: 'ends-its-own',
    rules: {
      areCompared: false,
      forceRelease(state, request, nowUs) {
        const { fencingToken = 0, extensions = 0 } = state.lease ?? {};
        const asked = { ...request, leaseId: present(state), fencingToken, extensions, elapsedMs: null };
        return decideForceRelease(state, asked, nowUs);
      },
    },
    bounds: oneDiagnosis,
    steps: 12,
  },
  {
    does: 'a release frees whoever has the lease by then',
    foundBy: 'ends-its-own',
    rules: {
      areCompared: false,
      release: (state, request, nowUs) => decideRelease(state, { ...request, leaseId: present(state) }, nowUs),
    },
    steps: 9,
  },
  {
    does: 'a revocation is of whoever has the lease by then',
    foundBy: 'ends-its-own',
    rules: {
      areCompared: false,
      revoke: (state, request, nowUs) => decideRevoke(state, { ...request, leaseId: present(state) }, nowUs),
    },
    bounds: { revokes: 1 },
    steps: 8,
  },
  {
    does: 'a revoked lease is extended like any other',
    foundBy: 'revoked-ends',
    rules: {
      extend(state, item, nowUs) {
        return decideExtend({ ...state, lease: state.lease && { ...state.lease, revoked: '' } }, item, nowUs);
      },
    },
    bounds: { revokes: 1 },
    steps: 8,
  },
  {
    does: 'an owner whose window has closed believes an extension that is confirmed later',
    foundBy: 'lost-stays-lost',
    rules: { revives: true },
    steps: 8,
  },
  {
    does: 'whoever comes last is first in the queue',
    foundBy: 'turns-in-order',
    rules: {
      acquire(state, request, nowUs) {
        const { reply, ...decision } = decideAcquire(state, request, nowUs);
        const { queue } = decision.state;
        const last = queue.at(-1);
        if (reply.kind !== 'queued' || last === undefined || queue.length === state.queue.length)
          return { ...decision, reply };
        return { ...decision, reply, state: { ...decision.state, queue: [last, ...queue.slice(0, -1)] } };
      },
    },
    bounds: threeWaits,
    steps: 7,
  },
  {
    does: 'a lease that has run out goes to whoever asks first',
    foundBy: 'turns-in-order',
    rules: {
      acquire(state, request, nowUs) {
        const { lease } = state;
        const ranOut = lease !== null && lease.owner !== '' && lease.expiresUs <= nowUs;
        return decideAcquire(ranOut ? { ...state, queue: [] } : state, request, nowUs);
      },
    },
    bounds: threeWaits,
    steps: 9,
  },
  {
    does: 'a seal far ahead, and whoever is refused does not tell the store of it',
    foundBy: 'served',
    rules: { sealToken: (seen) => sealTokenOf(seen) + 1000, learnsFloor: false },
    bounds: oneDiagnosis,
    steps: 10,
  },
];

/** Looks for the shortest way in which the error does harm. */
export function findWholeBug({ bounds, ...bug }: WholeBug): Finding {
  const small = { leaseIds: 2, crashes: 0, ghosts: 0, drops: false, writes: 1 };
  return findBug({ ...bug, bounds: { ...small, ...bounds } });
}
