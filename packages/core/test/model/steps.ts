import type { AcquireRequest, AdoptReply, AcquireReply, ReleaseRequest } from '../../src/store/store.ts';
import type { Decision, Message, ResourceState } from '../../src/store/state.ts';
import { Access } from './guarded.ts';
import { Operators } from './operators.ts';
import type { Rules } from './rules.ts';
import {
  at,
  leaseIdOf,
  NOW_US,
  put,
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
  readonly access: Access;
  readonly #operators: Operators;

  constructor(rules: Rules, bounds: Bounds) {
    this.#rules = rules;
    this.#bounds = bounds;
    this.access = new Access(rules);
    this.#operators = new Operators(rules, bounds);
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
      may(index, ' sends its activation', this.access.activate(world, index));
      may(index, ' sends a write', this.access.write(world, index));
    }
    const operators = this.#operators;
    const mayAnOperator = (does: string, next: World | null): void => {
      if (next !== null) steps.push([`an operator ${does}`, next]);
    };
    mayAnOperator('releases by force', operators.force(world));
    mayAnOperator('sends a revocation', operators.revoke(world));
    mayAnOperator('diagnoses: may be released by force', operators.diagnose(world));
    mayAnOperator('seals the fence', operators.seal(world));
    mayAnOperator('releases by force, as diagnosed', operators.release(world));
    mayAnOperator('gives up', operators.giveUp(world));
    for (const [number, { kind, leaseId }] of (world.guarded?.operations ?? []).entries()) {
      may(whose(leaseId).process, `'s ${nameOfKind[kind]} arrives`, this.access.arrive(world, number));
    }
    for (const [index, { kind, leaseId }] of world.packets.entries()) {
      may(whose(leaseId).process, `'s ${kind} of ${leaseId} arrives`, this.late(world, index));
    }
    return steps;
  }

  pass(world: World): World {
    const { ttl } = this.#bounds;
    return {
      ...world,
      store: this.#settled(world, world.store, 1),
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
    const { phase, call, trust, final } = process;
    if (phase !== 'holding' || call !== null || trust === 0 || final) return null;
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
      floor: 0,
    });
    return put(after, index, { ...at(after, index), call: { ...call, reply: answer } });
  }

  receive(world: World, index: number): World | null {
    const process = at(world, index);
    const { call } = process;
    if (call === null || call.reply === null) return null;
    const { kind, remaining, fencingToken } = call.reply;
    const { ttl } = this.#bounds;
    const idle = { ...process, call: null };
    const believed = this.#rules.trustMs(remaining * UNIT_MS, call.elapsed * UNIT_MS, ttl * UNIT_MS) / UNIT_MS;
    switch (kind) {
      case 'granted':
        if (believed > 0) {
          const { writes } = this.#bounds;
          const access = this.#rules.activates ? 'none' : 'fresh';
          const granted = { phase: 'holding', mode: 'wait', trust: believed, fencingToken, access, writes } as const;
          return put(world, index, { ...idle, ...granted });
        }
        return this.#withdraw(put(world, index, idle), index);
      case 'queued':
        return put(world, index, idle);
      case 'busy':
        return this.#rest(put(world, index, idle), index);
      case 'over':
        return this.#withdraw(put(world, index, idle), index);
      case 'extended':
        // A late success is not believed once the window has closed.
        if (process.trust === 0 && !this.#rules.revives) return put(world, index, idle);
        return put(world, index, { ...idle, trust: Math.max(process.trust, believed) });
      case 'revoked':
        return put(world, index, { ...idle, final: true });
      case 'lost':
        return put(world, index, { ...idle, trust: 0 });
    }
  }

  timeOut(world: World, index: number): World | null {
    const process = at(world, index);
    if (process.call === null || !this.#bounds.drops) return null;
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
    const { attempt, dirty, floor } = at(given, index);
    const buries = dirty && this.#rules.buriesReleased;
    const leaseId = leaseIdOf(index, attempt);
    const packet: Packet = { kind: buries ? 'cancel' : 'release', leaseId, mode: 'wait', buries, floor };
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
      ...put(given, index, { ...at(given, index), ...AT_REST, phase: 'gone' }),
      crashes: world.crashes - 1,
    };
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
    const ghost: Packet = { kind: call.kind, leaseId: leaseIdOf(index, attempt), mode, buries: false, floor: 0 };
    return { ...given, packets: [...given.packets, ghost] };
  }

  #withdraw(world: World, index: number): World {
    const { attempt, dirty } = at(world, index);
    const buries = dirty && this.#rules.buriesWithdrawn;
    const packet: Packet = { kind: 'cancel', leaseId: leaseIdOf(index, attempt), mode: 'wait', buries, floor: 0 };
    return this.#rest({ ...world, packets: [...world.packets, packet] }, index);
  }

  #rest(world: World, index: number): World {
    return put(world, index, { ...at(world, index), ...AT_REST, phase: 'idle' });
  }

  #settled(world: World, store: ResourceState, units: number): ResourceState {
    return settleStore(store, units, this.#rules.lapses, world.operator !== null);
  }

  #carryOut(world: World, packet: Packet): { readonly world: World; readonly answer: Answer } {
    const { store, answer, messages } = this.#decide(world.store, packet, world.ticket);
    const did = { what: packet.kind, leaseId: packet.leaseId, fencingToken: 0, accepted: false, fresh: false };
    let next: World = { ...world, store: this.#settled(world, store, 0), did };
    if (this.#rules.believesMessages) {
      const told = messages.filter(({ kind }) => kind === 'go');
      const packets = told.map(({ leaseId }): Packet => ({
        kind: 'go',
        leaseId,
        mode: 'wait',
        buries: false,
        floor: 0,
      }));
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
    const { leaseId, floor } = packet;
    const ttlMs = this.#bounds.ttl * UNIT_MS;
    const end: ReleaseRequest = { resource: 'r', leaseId, outcome: 'done', floor, history: 'exceptions' };
    switch (packet.kind) {
      case 'acquire': {
        const { state: store, reply, messages } = this.#ask(state, leaseId, packet.mode, ticket);
        const { kind } = reply;
        const remaining = 'remainingMs' in reply ? reply.remainingMs / UNIT_MS : 0;
        const known = kind === 'granted' || kind === 'queued' || kind === 'busy';
        const fencingToken = kind === 'granted' ? reply.fencingToken : 0;
        return {
          store,
          answer: { kind: known ? kind : 'over', remaining: kind === 'granted' ? remaining : 0, fencingToken },
          messages,
        };
      }
      case 'extend': {
        const { state: store, reply, messages } = this.#rules.extend(state, { resource: 'r', leaseId, ttlMs }, NOW_US);
        const { verdict } = reply;
        if (verdict === 'revoked') return { store, answer: { ...NOTHING, kind: verdict }, messages };
        if (verdict !== 'extended') return { store, answer: { ...NOTHING, kind: 'lost' }, messages };
        return { store, answer: { ...NOTHING, kind: verdict, remaining: reply.remainingMs / UNIT_MS }, messages };
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
      case 'revoke': {
        const request = { resource: 'r', leaseId, operator: 'o', reason: 'r' };
        const { state: store, messages } = this.#rules.revoke(state, request, NOW_US);
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

const NOTHING: Answer = { kind: 'over', remaining: 0, fencingToken: 0 };
const AT_REST: Omit<Process, 'phase' | 'attempt' | 'spent'> = {
  ...({ mode: 'wait', call: null, trust: 0, dirty: false } as const),
  ...({ final: false, fencingToken: 0, access: 'none', writes: 0, floor: 0 } as const),
};
const nameOfKind = { activate: 'activation', write: 'write', landing: 'checked write' } as const;

function nameOf(process: number): string {
  return String.fromCodePoint(65 + process);
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
