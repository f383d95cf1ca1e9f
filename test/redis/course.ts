import type { RedisLeaseStore } from '@leasehold/core/redis';

import {
  decideAcquire,
  decideAdopt,
  decideCancel,
  decideExtend,
  decideForceRelease,
  decideNoteSeal,
  decideRelease,
  decideRevoke,
} from '../../packages/core/src/store/decisions.ts';
import {
  EMPTY,
  readState,
  remembered,
  type Decision,
  type ResourceState,
} from '../../packages/core/src/store/state.ts';
import type { StoreCall, StoreMessage } from '../../packages/core/src/store/store.ts';
import { acquireOf, cancelOf, releaseOf } from './requests.ts';

export type Message = Omit<StoreMessage, 'resource'> & { readonly channel: string };

/** What is asked of the store, and what it must answer; or keys that the server loses. */
export type Step =
  | {
      readonly kind: 'ask';
      readonly reply: unknown;
      readonly messages: readonly Message[];
      ask(store: RedisLeaseStore, call: StoreCall): Promise<unknown>;
    }
  | { readonly kind: 'lose'; readonly keys: readonly string[] };

type Answered = Extract<Step, { readonly kind: 'ask' }>;

type Asked<Request, Reply> = {
  readonly what: string;
  readonly request: Request;
  decide(state: ResourceState, request: Request, nowUs: number): Decision<Reply>;
  ask(store: RedisLeaseStore, request: Request, call: StoreCall): Promise<unknown>;
};

/** Numbers that a seed gives again. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
    for (let i = 0; i < 8; i++) this.next();
  }

  /** From 0 to below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  pick<T>(of: readonly [T, ...T[]]): T {
    return of[Math.floor(this.next() * of.length)] ?? of[0];
  }

  chance(of: number): boolean {
    return this.next() < of;
  }
}

/** Of a refusal because of somebody's turn, how long that lasts. */
function timeOf(reply: unknown): object {
  const { reason, remainingMs } = reply as { reason?: string; remainingMs?: number };
  return reason === 'turn' ? { remainingMs } : {};
}

/** A leaseId that is asked for again is one of so many made last. */
const LIVES = 3;

/** A random course of one resource: what is asked, and what the port's decisions make of it. */
export class Course {
  readonly resource: string;
  readonly random: Random;
  /** All steps, for who must find out what went wrong. */
  readonly told: unknown[] = [];
  #state: ResourceState = EMPTY;
  /** When the server forgets the queue, and who is parked, as a whole: not part of the port, but it moves positions. */
  #queueUntilUs = 0;
  #parkedUntilUs = 0;
  #made = 0;
  /** Every leaseId that was an owner's. */
  readonly #owned = new Set<string>();

  constructor(resource: string, seed: number) {
    this.resource = resource;
    this.random = new Random(seed);
  }

  next(nowUs: number, isBack: boolean): Step {
    const state = remembered(this.#state, nowUs);
    this.#state = {
      ...state,
      queue: this.#queueUntilUs >= nowUs ? state.queue : [],
      parked: this.#parkedUntilUs >= nowUs ? state.parked : [],
    };
    // A key that is made again lives as long as it says then.
    if (this.#state.queue.length === 0) this.#queueUntilUs = 0;
    if (this.#state.parked.length === 0) this.#parkedUntilUs = 0;
    const { random } = this;
    if (!isBack && random.chance(0.04)) return this.#lose();
    const kind = random.next();
    if (kind < 0.5) return this.#acquire(nowUs, isBack);
    if (kind < 0.68) return this.#release(nowUs);
    if (kind < 0.78) return this.#cancel(nowUs);
    if (kind < 0.84) return this.#adopt(nowUs);
    if (kind < 0.88) return this.#revoke(nowUs);
    if (kind < 0.92) return this.#forceRelease(nowUs);
    if (kind < 0.94) return this.#seal(nowUs);
    // By then an extension of another's lease writes back in memory what it leaves alone in Redis.
    if (kind < 0.97 && !isBack) return this.#extend(nowUs);
    return this.#read(nowUs);
  }

  #lose(): Step {
    const keys = this.random.pick([[''], [''], [':q', ':w'], [':p'], ['', ':q', ':w', ':p']]);
    this.told.push(['lose', keys]);
    if (keys.includes('')) this.#state = { ...EMPTY, queue: this.#state.queue, parked: this.#state.parked };
    if (keys.includes(':q')) this.#state = { ...this.#state, queue: [] };
    if (keys.includes(':p')) this.#state = { ...this.#state, parked: [] };
    return { kind: 'lose', keys };
  }

  #acquire(nowUs: number, isBack: boolean): Step {
    const { random } = this;
    const request = acquireOf(this.resource, {
      leaseId: this.#freshId(),
      mode: isBack ? random.pick(['try', 'wait']) : random.pick(['try', 'try', 'wait', 'wait', 'park']),
      channel: random.pick(['a', 'b', 'c', 'c', '']),
      ttlMs: random.pick([100, 1000, 10_000, 30_000]),
      waitRefreshMs: random.pick([50, 1000, 10_000, 10_000]),
      floor: random.chance(0.1) ? this.#floor(nowUs) : 0,
      replaces: random.chance(0.1) ? this.#holder() : '',
      quarantineMs: random.chance(0.1) ? 3000 : 0,
      history: random.chance(0.1) ? 'all' : 'exceptions',
      ...(random.chance(0.2) && { spareTokens: 10 }),
    });
    const step: Answered = this.#ask(nowUs, {
      ...{ what: 'acquire', request, decide: decideAcquire },
      ask: async (store, its, call): Promise<unknown> => {
        const reply = await store.acquire(its, call);
        // A turn gets its full time when it is looked at for the first time with the clock set back, which may be later here.
        return isBack && 'reason' in reply && reply.reason === 'turn' ? { ...reply, ...timeOf(step.reply) } : reply;
      },
    });
    const { kind } = step.reply as { kind: string };
    const keptUs = nowUs + 6 * request.waitRefreshMs * 1000;
    if (kind === 'queued') this.#queueUntilUs = Math.max(this.#queueUntilUs, keptUs);
    if (kind === 'busy' && request.mode === 'park' && request.channel !== '') {
      this.#parkedUntilUs = Math.max(this.#parkedUntilUs, keptUs);
    }
    return step;
  }

  #release(nowUs: number): Step {
    return this.#ask(nowUs, {
      what: 'release',
      request: releaseOf(acquireOf(this.resource, { leaseId: this.#ownerOrSome() }), this.#ending(nowUs)),
      decide: decideRelease,
      ask: (store, its, call) => store.release(its, call),
    });
  }

  #cancel(nowUs: number): Step {
    const { queue } = this.#state;
    const first = queue[0]?.leaseId ?? '';
    const leaseId = first !== '' && this.random.chance(0.4) ? first : this.#ownerOrSome();
    const tombstoneMs = this.random.pick([0, 0, 10_001]);
    return this.#ask(nowUs, {
      what: 'cancel',
      request: cancelOf({ resource: this.resource, leaseId }, { ...this.#ending(nowUs), tombstoneMs }),
      decide: decideCancel,
      ask: (store, its, call) => store.cancel(its, call),
    });
  }

  #adopt(nowUs: number): Step {
    const { resource, ttlMs, owner, floor, history } = acquireOf(this.resource);
    // Never one that waits: an adoption has a leaseId of its own, which it may send again.
    if (this.random.chance(0.7)) this.#made++;
    const leaseId = `${this.resource}-adopts-${this.#made}`;
    return this.#ask(nowUs, {
      what: 'adopt',
      request: {
        ...{ resource, leaseId, ttlMs, owner, floor, history },
        ...{ channel: this.random.pick(['a', '']), from: this.#ownerOrSome() },
      },
      decide: decideAdopt,
      ask: (store, its, call) => store.adopt(its, call),
    });
  }

  #revoke(nowUs: number): Step {
    return this.#ask(nowUs, {
      what: 'revoke',
      request: { resource: this.resource, leaseId: this.#ownerOrSome(), operator: 'me', reason: 'why' },
      decide: decideRevoke,
      ask: (store, its, call) => store.revoke(its, call),
    });
  }

  #forceRelease(nowUs: number): Step {
    const { lease } = this.#state;
    const { fencingToken = 1, extensions = 0 } = lease ?? {};
    const isNow = this.random.chance(0.7);
    return this.#ask(nowUs, {
      what: 'forceRelease',
      request: {
        ...{ resource: this.resource, leaseId: this.#ownerOrSome(), fencingToken, extensions },
        ...{ elapsedMs: isNow ? null : 100, floor: 0, operator: 'me', reason: 'why' },
      },
      decide: decideForceRelease,
      ask: (store, its, call) => store.forceRelease(its, call),
    });
  }

  #seal(nowUs: number): Step {
    return this.#ask(nowUs, {
      what: 'noteSeal',
      request: { resource: this.resource, fencingToken: 1, operator: 'me', reason: 'why' },
      decide: decideNoteSeal,
      ask: (store, its, call) => store.noteSeal(its, call),
    });
  }

  #extend(nowUs: number): Step {
    return this.#ask(nowUs, {
      what: 'extend',
      request: { resource: this.resource, leaseId: this.#ownerOrSome(), ttlMs: this.random.pick([100, 30_000]) },
      decide: decideExtend,
      ask: async (store, its, call) => (await store.extend([its], call))[0],
    });
  }

  #read(nowUs: number): Step {
    const whose = (record: ReturnType<typeof readState>): unknown =>
      record && { leaseId: record.leaseId, fencingToken: record.fencingToken, waiting: record.waiting };
    return this.#ask(nowUs, {
      what: 'read',
      request: this.resource,
      decide: (state) => ({ state, reply: whose(readState(state, nowUs)), messages: [] }),
      ask: async (store, its, call) => whose(await store.read(its, call)),
    });
  }

  #ask<Request, Reply>(nowUs: number, { what, request, decide, ask }: Asked<Request, Reply>): Answered {
    const { state, reply, messages } = decide(this.#state, request, nowUs);
    this.#state = state;
    this.#owned.add(this.#holder());
    this.told.push([nowUs, what, request, reply, messages]);
    return { kind: 'ask', reply, messages, ask: (store, call) => ask(store, request, call) };
  }

  #ending(nowUs: number) {
    const { random } = this;
    return {
      ...(random.chance(0.1) && { floor: this.#floor(nowUs) }),
      ...(random.chance(0.1) && { history: 'all' as const }),
      ...(random.chance(0.3) && { retentionMs: random.pick([5, 1001, 30_001]) }),
    };
  }

  #floor(nowUs: number): number {
    return this.random.pick([1, nowUs + 5000, nowUs + 2 * 86_400_000_000]);
  }

  #holder(): string {
    return this.#state.lease?.leaseId ?? '';
  }

  /** Mostly who has the resource. */
  #ownerOrSome(): string {
    const holder = this.#holder();
    return holder !== '' && this.random.chance(0.8) ? holder : this.#someId();
  }

  /** One that may become owner: once in its life it does, and no later than that it is asked for again. */
  #freshId(): string {
    for (;;) {
      const id = this.#someId();
      if (!this.#owned.has(id) || (id === this.#holder() && this.random.chance(0.2))) return id;
      this.#made++;
    }
  }

  /** A new one, one of those made last, or one that waits. */
  #someId(): string {
    const { random } = this;
    const { queue } = this.#state;
    const waiting = queue[Math.floor(random.next() * queue.length)];
    if (waiting !== undefined && random.chance(0.4)) return waiting.leaseId;
    if (random.chance(0.6)) this.#made++;
    return `${this.resource}-${Math.max(0, this.#made - Math.floor(random.next() * LIVES))}`;
  }
}
