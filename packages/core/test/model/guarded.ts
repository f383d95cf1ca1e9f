import type { Rules } from './rules.ts';
import { at, leaseIdOf, put, whose, type Guarded, type Operation, type Process, type World } from './world.ts';

/**
 * What the owner of a lease does with the resource behind its fence, and what becomes of it. An owner may be paused anywhere
 * and never looks whether it still has the lease: these are writes by a bare grant. It reads as soon as it may, because what was
 * read later has been overwritten less often. Steps return null where they cannot happen.
 */
export class Access {
  readonly #rules: Rules;

  constructor(rules: Rules) {
    this.#rules = rules;
  }

  activate(world: World, index: number): World | null {
    const process = at(world, index);
    if (!this.#rules.activates || process.phase !== 'holding' || process.access !== 'none') return null;
    return send(world, index, 'activate', { ...process, access: 'activating' });
  }

  /** What is written is made from what was read. */
  write(world: World, index: number): World | null {
    const process = at(world, index);
    const { phase, access } = process;
    if (phase !== 'holding' || (access !== 'fresh' && access !== 'stale')) return null;
    return send(world, index, 'write', { ...process, access: 'writing', writes: process.writes - 1 });
  }

  arrive(world: World, number: number): World | null {
    const { guarded } = world;
    const operation = guarded?.operations[number];
    if (guarded === null || operation === undefined) return null;
    const { kind, leaseId, fencingToken, fresh } = operation;
    const rest: Guarded = { ...guarded, operations: guarded.operations.toSpliced(number, 1) };
    const did = { what: kind, leaseId, fencingToken, accepted: true, fresh };
    if (kind === 'landing') return take({ ...world, guarded: rest, did }, rest, operation);
    const grant = { resource: 'r', leaseId, fencingToken };
    if (!this.#rules.admits(rest.highest, grant)) {
      return this.#refuse({ ...world, guarded: rest, did: { ...did, accepted: false } }, rest, leaseId);
    }
    const raised: Guarded = { ...rest, highest: { fencingToken, leaseId } };
    if (kind === 'activate' || this.#rules.isAtomic) return take({ ...world, guarded: raised, did }, raised, operation);
    const landing: Operation = { ...operation, kind: 'landing' };
    return { ...world, guarded: { ...raised, operations: [...raised.operations, landing] } };
  }

  /** Who is told so has lost its lease. */
  #refuse(world: World, { highest }: Guarded, leaseId: string): World {
    const sender = senderOf(world, leaseId);
    if (sender === null) return world;
    const floor = this.#rules.learnsFloor ? (highest?.fencingToken ?? 0) : 0;
    return put(world, sender, { ...at(world, sender), access: 'refused', trust: 0, floor });
  }
}

function send(world: World, index: number, kind: 'activate' | 'write', process: Process): World | null {
  const { guarded } = world;
  if (guarded === null) return null;
  const { attempt, fencingToken } = process;
  const fresh = at(world, index).access === 'fresh';
  const operation: Operation = { kind, leaseId: leaseIdOf(index, attempt), fencingToken, fresh };
  return put({ ...world, guarded: { ...guarded, operations: [...guarded.operations, operation] } }, index, process);
}

/** It takes effect. */
function take(world: World, guarded: Guarded, { kind, leaseId, fencingToken }: Operation): World {
  const others = guarded.accepted.filter((each) => each.leaseId !== leaseId);
  const accepted = [...others, { leaseId, fencingToken }];
  const sender = senderOf(world, leaseId);
  if (kind === 'activate') {
    const next = { ...world, guarded: { ...guarded, accepted } };
    return sender === null ? next : put(next, sender, { ...at(next, sender), access: 'fresh' });
  }
  const operations = guarded.operations.map((each) => ({ ...each, fresh: false }));
  const processes = world.processes.map((process, index): Process => {
    if (index === sender) return { ...process, access: process.writes > 0 ? 'fresh' : 'done' };
    return process.access === 'fresh' ? { ...process, access: 'stale' } : process;
  });
  return { ...world, processes, guarded: { ...guarded, accepted, operations } };
}

/** Who waits for the answer to it, or null. */
function senderOf(world: World, leaseId: string): number | null {
  const { process: index, attempt } = whose(leaseId);
  const { phase, attempt: present, access } = at(world, index);
  const waits = phase === 'holding' && present === attempt && (access === 'activating' || access === 'writing');
  return waits ? index : null;
}
