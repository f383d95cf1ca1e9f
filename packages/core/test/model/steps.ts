import type { AcquireRequest, AdoptReply, AcquireReply, ReleaseRequest } from '../../src/store/store.ts';
import type { Decision, Message, ResourceState } from '../../src/store/state.ts';
import type { Rules } from './rules.ts';
import {
  leaseIdOf,
  NOW_US,
  settleStore,
  UNIT_MS,
  whose,
  type Answer,
  type Bounds,
  type Call,
  type Mode,
  type Packet,
  type Process,
  type World,
} from './world.ts';

/** One thing that happens. Steps return a new world, or null where they cannot happen. */
export class Steps {
  readonly #rules: Rules;
  readonly #bounds: Bounds;

  constructor(rules: Rules, bounds: Bounds) {
    this.#rules = rules;
    this.#bounds = bounds;
  }

  /** All that can happen next, with a label each. */
  all(world: World): readonly (readonly [string, World])[] {
    const steps: (readonly [string, World])[] = [['time passes', this.pass(world)]];
    const may = (who: number, does: string, next: World | null): void => {
      if (next !== null) steps.push([nameOf(who) + does, next]);
    };
    for (let index = 0; index < world.processes.length; index++) {
      may(index, ' begins to wait: sends acquire', this.begin(world, index, 'wait'));
      if (this.#bounds.tries) may(index, ' tries: sends acquire', this.begin(world, index, 'try'));
      may(index, ' adopts: sends adopt', this.begin(world, index, 'adopt'));
      may(index, ' hands over', this.handOver(world, index));
      may(index, ' asks again', this.ask(world, index));
      may(index, ' sends extend', this.extend(world, index));
      may(index, `'s request arrives`, this.arrive(world, index));
      may(index, ' gets its reply', this.receive(world, index));
      may(index, ' gives up waiting for its reply', this.timeOut(world, index));
      may(index, ' aborts: sends cancel', this.abort(world, index));
      may(index, ' ends its body: sends release', this.finish(world, index));
      may(index, ' crashes', this.crash(world, index));
    }
    const forced = this.force(world);
    if (forced !== null) steps.push(['an operator releases by force', forced]);
    for (const [index, { kind, leaseId }] of world.packets.entries()) {
      may(whose(leaseId).process, `'s ${kind} of ${leaseId} arrives`, this.late(world, index));
    }
    return steps;
  }

  pass(world: World): World {
    const { ttl } = this.#bounds;
    return {
      ...world,
      store: settleStore(world.store, 1, this.#rules.lapses),
      processes: world.processes.map((process) => {
        const { call, trust } = process;
        if (call === null && trust === 0) return process;
        return {
          ...process,
          trust: Math.max(0, trust - 1),
          // Later than a whole ttl is too late in any case.
          call: call && { ...call, elapsed: Math.min(ttl, call.elapsed + 1) },
        };
      }),
    };
  }

  begin(world: World, index: number, mode: Mode): World | null {
    const process = at(world, index);
    if (process.phase !== 'idle' || world.fresh === 0) return null;
    if (mode === 'adopt' && world.ticket === '') return null;
    const call: Call = { kind: 'acquire', elapsed: 0, reply: null };
    const asking: Process = { ...process, phase: 'asking', mode, attempt: process.attempt + 1, call };
    return { ...put(world, index, asking), fresh: world.fresh - 1 };
  }

  /** A waiter may ask at any time: woken by a message or not, by its timer or not. */
  ask(world: World, index: number): World | null {
    const process = at(world, index);
    if (process.phase !== 'asking' || process.call !== null) return null;
    return put(world, index, { ...process, call: { kind: 'acquire', elapsed: 0, reply: null } });
  }

  extend(world: World, index: number): World | null {
    const process = at(world, index);
    if (process.phase !== 'holding' || process.call !== null || process.trust === 0) return null;
    return put(world, index, { ...process, call: { kind: 'extend', elapsed: 0, reply: null } });
  }

  arrive(world: World, index: number): World | null {
    const process = at(world, index);
    const { call } = process;
    if (call === null || call.reply !== null) return null;
    const leaseId = leaseIdOf(index, process.attempt);
    const { world: after, answer } = this.#carryOut(world, {
      kind: call.kind,
      leaseId,
      mode: process.mode,
      buries: false,
    });
    return put(after, index, { ...at(after, index), call: { ...call, reply: answer } });
  }

  receive(world: World, index: number): World | null {
    const process = at(world, index);
    const { call } = process;
    if (call === null || call.reply === null) return null;
    const { kind, remaining } = call.reply;
    const { ttl } = this.#bounds;
    const idle = { ...process, call: null };
    const believed = this.#rules.trustMs(remaining * UNIT_MS, call.elapsed * UNIT_MS, ttl * UNIT_MS) / UNIT_MS;
    switch (kind) {
      case 'granted':
        if (believed > 0) return put(world, index, { ...idle, phase: 'holding', mode: 'wait', trust: believed });
        return this.#withdraw(put(world, index, idle), index);
      case 'queued':
        return put(world, index, idle);
      case 'busy':
        return this.#rest(put(world, index, idle), index);
      case 'over':
        return this.#withdraw(put(world, index, idle), index);
      case 'extended':
        // A late success is not believed once the window has closed.
        return put(world, index, { ...idle, trust: process.trust === 0 ? 0 : Math.max(process.trust, believed) });
      case 'lost':
        return put(world, index, { ...idle, trust: 0 });
    }
  }

  timeOut(world: World, index: number): World | null {
    const process = at(world, index);
    if (process.call === null) return null;
    const given = this.#giveUp(world, index);
    return process.phase === 'asking' && process.mode === 'try' ? this.#withdraw(given, index) : given;
  }

  abort(world: World, index: number): World | null {
    return at(world, index).phase === 'asking' ? this.#withdraw(this.#giveUp(world, index), index) : null;
  }

  /** The body settles, in time or not. */
  finish(world: World, index: number): World | null {
    if (at(world, index).phase !== 'holding') return null;
    const given = this.#giveUp(world, index);
    const { attempt, dirty } = at(given, index);
    const buries = dirty && this.#rules.buriesReleased;
    const leaseId = leaseIdOf(index, attempt);
    const packet: Packet = { kind: buries ? 'cancel' : 'release', leaseId, mode: 'wait', buries };
    return this.#rest({ ...given, packets: [...given.packets, packet] }, index);
  }

  /** The lease ends for its owner before the ticket leaves, and not for the store. */
  handOver(world: World, index: number): World | null {
    const { phase, trust, call, attempt } = at(world, index);
    if (!this.#bounds.handsOver || world.ticket !== '' || phase !== 'holding' || trust === 0 || call !== null)
      return null;
    const given = { ...world, ticket: leaseIdOf(index, attempt) };
    return this.#rules.endsAtHandOver ? this.#rest(given, index) : given;
  }

  crash(world: World, index: number): World | null {
    const { phase } = at(world, index);
    if (world.crashes === 0 || phase === 'gone' || phase === 'idle') return null;
    const given = this.#giveUp(world, index);
    return {
      ...put(given, index, { ...at(given, index), phase: 'gone', mode: 'wait', dirty: false, trust: 0 }),
      crashes: world.crashes - 1,
    };
  }

  /** What it was decided on is what is there: the comparison itself is tested with the stores. */
  force(world: World): World | null {
    const { lease } = world.store;
    if (!this.#bounds.forces || lease === null || lease.owner === '') return null;
    const { leaseId, fencingToken, extensions } = lease;
    const request = {
      resource: 'r',
      leaseId,
      fencingToken,
      extensions,
      elapsedMs: 0,
      floor: 0,
      operator: 'o',
      reason: 'r',
    };
    const { state, reply } = this.#rules.forceRelease(world.store, request, NOW_US);
    return reply.kind === 'released' ? { ...world, store: settleStore(state, 0, this.#rules.lapses) } : null;
  }

  late(world: World, index: number): World | null {
    const packet = world.packets[index];
    if (packet === undefined) return null;
    const rest = { ...world, packets: world.packets.toSpliced(index, 1) };
    if (packet.kind !== 'go') return this.#carryOut(rest, packet).world;
    const { process, attempt } = whose(packet.leaseId);
    const told = at(rest, process);
    if (told.phase !== 'asking' || told.attempt !== attempt) return rest;
    return put(rest, process, { ...told, phase: 'holding', mode: 'wait', call: null, trust: this.#bounds.ttl });
  }

  /** The call is over for its sender. Its request may still arrive, if it has not yet. */
  #giveUp(world: World, index: number): World {
    const process = at(world, index);
    const { call, mode, attempt } = process;
    if (call === null) return world;
    const dirty = process.dirty || call.kind === 'acquire';
    const given = put(world, index, { ...process, call: null, dirty });
    const ghosts = world.packets.filter(({ kind }) => kind === 'acquire' || kind === 'extend').length;
    if (call.reply !== null || ghosts === this.#bounds.ghosts) return given;
    const ghost: Packet = { kind: call.kind, leaseId: leaseIdOf(index, attempt), mode, buries: false };
    return { ...given, packets: [...given.packets, ghost] };
  }

  #withdraw(world: World, index: number): World {
    const { attempt, dirty } = at(world, index);
    const buries = dirty && this.#rules.buriesWithdrawn;
    const packet: Packet = { kind: 'cancel', leaseId: leaseIdOf(index, attempt), mode: 'wait', buries };
    return this.#rest({ ...world, packets: [...world.packets, packet] }, index);
  }

  #rest(world: World, index: number): World {
    return put(world, index, { ...at(world, index), phase: 'idle', mode: 'wait', call: null, trust: 0, dirty: false });
  }

  #carryOut(world: World, packet: Packet): { readonly world: World; readonly answer: Answer } {
    const { store, answer, messages } = this.#decide(world.store, packet, world.ticket);
    let next: World = { ...world, store: settleStore(store, 0, this.#rules.lapses) };
    if (this.#rules.believesMessages) {
      const told = messages.filter(({ kind }) => kind === 'go');
      const packets = told.map(({ leaseId }): Packet => ({ kind: 'go', leaseId, mode: 'wait', buries: false }));
      next = { ...next, packets: [...next.packets, ...packets] };
    }
    const ends = packet.kind === 'release' || packet.kind === 'cancel';
    return { world: ends ? spend(next, packet.leaseId) : next, answer };
  }

  #decide(
    state: ResourceState,
    packet: Packet,
    ticket: string,
  ): { readonly store: ResourceState; readonly answer: Answer; readonly messages: readonly Message[] } {
    const { leaseId } = packet;
    const ttlMs = this.#bounds.ttl * UNIT_MS;
    const end: ReleaseRequest = { resource: 'r', leaseId, outcome: 'done', floor: 0, history: 'exceptions' };
    switch (packet.kind) {
      case 'acquire': {
        const { state: store, reply, messages } = this.#ask(state, leaseId, packet.mode, ticket);
        const { kind } = reply;
        const remaining = 'remainingMs' in reply ? reply.remainingMs / UNIT_MS : 0;
        const known = kind === 'granted' || kind === 'queued' || kind === 'busy';
        return {
          store,
          answer: { kind: known ? kind : 'over', remaining: kind === 'granted' ? remaining : 0 },
          messages,
        };
      }
      case 'extend': {
        const { state: store, reply, messages } = this.#rules.extend(state, { resource: 'r', leaseId, ttlMs }, NOW_US);
        const extended = reply.verdict === 'extended';
        const answer: Answer = extended
          ? { kind: 'extended', remaining: reply.remainingMs / UNIT_MS }
          : { kind: 'lost', remaining: 0 };
        return { store, answer, messages };
      }
      case 'release': {
        const { state: store, messages } = this.#rules.release(state, end, NOW_US);
        return { store, answer: NOTHING, messages };
      }
      case 'cancel': {
        // For good: it outlives every packet.
        const tombstoneMs = packet.buries ? 1_000_000_000 : 0;
        const { state: store, messages } = this.#rules.cancel(state, { ...end, tombstoneMs }, NOW_US);
        return { store, answer: NOTHING, messages };
      }
      case 'go':
        return { store: state, answer: NOTHING, messages: [] };
    }
  }

  #ask(state: ResourceState, leaseId: string, mode: Mode, ticket: string): Decision<AcquireReply | AdoptReply> {
    const request: AcquireRequest = {
      resource: 'r',
      leaseId,
      ttlMs: this.#bounds.ttl * UNIT_MS,
      mode: mode === 'adopt' ? 'try' : mode,
      owner: { line: 'o', json: '' },
      channel: 'c',
      history: 'exceptions',
      floor: 0,
      replaces: '',
      waitRefreshMs: this.#bounds.refresh * UNIT_MS,
      quarantineMs: 0,
    };
    if (mode === 'adopt') return this.#rules.adopt(state, { ...request, from: ticket }, NOW_US);
    return this.#rules.acquire(state, request, NOW_US);
  }
}

const NOTHING: Answer = { kind: 'over', remaining: 0 };

function nameOf(process: number): string {
  return String.fromCodePoint(65 + process);
}

export function at(world: World, index: number): Process {
  const process = world.processes[index];
  if (process === undefined) throw new Error(`there is no process ${index}`);
  return process;
}

function put(world: World, index: number, process: Process): World {
  return { ...world, processes: world.processes.with(index, process) };
}

function spend(world: World, leaseId: string): World {
  const { process: index, attempt } = whose(leaseId);
  const process = at(world, index);
  if (process.spent[attempt] === true) return world;
  const spent = Array.from({ length: Math.max(process.spent.length, attempt + 1) }, (_, each) =>
    each === attempt ? true : process.spent[each] === true,
  );
  return put(world, index, { ...process, spent });
}
