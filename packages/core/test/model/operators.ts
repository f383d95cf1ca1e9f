import type { FenceFact, Facts } from '../../src/diagnosis/verdict.ts';
import { readState } from '../../src/store/state.ts';
import type { Rules } from './rules.ts';
import { NOW_US, settleStore, type Bounds, type Packet, type World } from './world.ts';

/** What operators do to a lease that is in the way. Steps return null where they cannot happen. */
export class Operators {
  readonly #rules: Rules;
  readonly #bounds: Bounds;

  constructor(rules: Rules, bounds: Bounds) {
    this.#rules = rules;
    this.#bounds = bounds;
  }

  /** The message to the store, which may come when somebody else has the lease. */
  revoke(world: World): World | null {
    const { lease } = world.store;
    if (world.revokes === 0 || lease === null || lease.owner === '') return null;
    const packet: Packet = { kind: 'revoke', leaseId: lease.leaseId, mode: 'wait', buries: false, floor: 0 };
    return { ...world, revokes: world.revokes - 1, packets: [...world.packets, packet] };
  }

  /** At once and without a fence. What it was decided on is what is there. */
  force(world: World): World | null {
    const { lease } = world.store;
    if (!this.#bounds.forces || lease === null || lease.owner === '') return null;
    return this.#release(world, lease, lease.extensions, 0);
  }

  /** Nobody who may release by force finds out more than this. */
  diagnose(world: World): World | null {
    const { store, guarded, diagnoses, operator } = world;
    if (guarded === null || diagnoses === 0 || operator !== null || store.lease === null) return null;
    const { highest } = guarded;
    const fence: FenceFact = {
      ...{ name: 'f', enforcing: true, highest: highest?.fencingToken ?? null },
      sealed: highest !== null && highest.leaseId === null,
    };
    if (!this.#rules.judge(factsOf(world, fence)).allowed.forceRelease.allowed) return null;
    const { leaseId, fencingToken } = store.lease;
    const sealToken = this.#rules.sealToken({ lease: store.lease, fences: [fence] });
    return { ...world, diagnoses: diagnoses - 1, operator: { stage: 'looked', leaseId, fencingToken, sealToken } };
  }

  seal(world: World): World | null {
    const { guarded, operator } = world;
    if (guarded === null || operator?.stage !== 'looked') return null;
    const { leaseId, fencingToken, sealToken } = operator;
    const highest = this.#rules.sealed(guarded.highest, sealToken);
    const isShut = !this.#rules.admits(highest, { resource: 'r', leaseId, fencingToken });
    // What admits the old grant is no seal.
    const goesOn = isShut || !this.#rules.triesOldGrant;
    return { ...world, guarded: { ...guarded, highest }, operator: goesOn ? { ...operator, stage: 'sealed' } : null };
  }

  release(world: World): World | null {
    const { operator } = world;
    if (operator === null || (operator.stage !== 'sealed' && this.#rules.sealsFirst)) return null;
    const released = this.#release({ ...world, operator: null }, operator, 0, operator.sealToken);
    return released ?? { ...world, operator: null };
  }

  /** Or it was ended, or declined: what has been sealed stays so. */
  giveUp(world: World): World | null {
    return world.operator?.stage === 'sealed' ? { ...world, operator: null } : null;
  }

  #release(
    world: World,
    { leaseId, fencingToken }: { readonly leaseId: string; readonly fencingToken: number },
    extensions: number,
    floor: number,
  ): World | null {
    const about = { resource: 'r', leaseId, fencingToken, extensions, operator: 'o', reason: 'r' };
    const { state, reply } = this.#rules.forceRelease(world.store, { ...about, elapsedMs: 0, floor }, NOW_US);
    if (reply.kind !== 'released') return null;
    const did = { what: 'force', leaseId, fencingToken, accepted: false, fresh: false } as const;
    return { ...world, store: settleStore(state, 0, this.#rules.lapses, false), did };
  }
}

/** All is well with store and fence, the record was watched for long enough, and nothing is known of the owner. */
function factsOf({ store }: World, fence: FenceFact): Facts {
  return {
    ...{ resource: 'r', storeTrouble: '', masters: 1, shape: 'record', evictionPolicy: 'noeviction', evictedKeys: 0 },
    ...{ restarted: false, connections: undefined, marginMs: 0, trustedMs: 0, ageMs: Infinity, quarantined: false },
    record: readState(store, NOW_US),
    fences: [fence],
    loggedSeals: fence.sealed && typeof fence.highest === 'number' ? [fence.highest] : [],
    observation: { state: 'unchanged', forMs: 1, neededMs: 1 },
    owner: { state: 'unverifiable', probe: 'none', detail: '', caveat: '', byHand: [] },
  };
}
