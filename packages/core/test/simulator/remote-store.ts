import type { Timer } from '../../src/clock.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import type {
  AcquireReply,
  AdoptReply,
  LeaseRecord,
  LeaseStore,
  StoreCall,
  StoreMessage,
} from '../../src/store/store.ts';
import { mutate, type StoreMutant } from '../testing/store-mutant.ts';
import type { Link } from './network.ts';
import type { Place } from './points.ts';
import type { SimProcess } from './process.ts';
import { settled, type Settled } from './settled.ts';
import type { StoreServer } from './server.ts';
import type { World } from './world.ts';

const SUBSCRIBE_MS = 400;

/** An error of the store, if it is to have one. */
type StoreChange = StoreMutant['change'];

interface Asked {
  readonly resource: string;
  readonly leaseId: string;
}

/** The store as one process reaches it: over a link, with a deadline for each call. */
export class RemoteStore {
  /** What a manager is given. */
  readonly port: LeaseStore;
  readonly link: Link;
  readonly #world: World;
  readonly #process: SimProcess;
  readonly #host: StoreServer;
  readonly #inner: LeaseStore;
  readonly #waiting = new Set<Waiting<unknown>>();
  readonly #reconnected = new Set<() => void>();
  #isConnected = true;
  #isClosed = false;
  /** In which event, and when for the process, it last sent an extension. */
  #extendedAt = -1;
  #extendedUs = 0;
  #released: () => void = () => {};
  /** What was learned of the server when the connection was made. */
  #server: LeaseStore['server'];
  #learnedUs = 0;

  constructor(world: World, process: SimProcess, link: Link, host: StoreServer, change?: StoreChange) {
    this.#world = world;
    this.#process = process;
    this.link = link;
    this.#host = host;
    const own = host.memory.beside();
    this.#inner = change === undefined ? own : mutate(own, change);
    this.port = this.#portOf();
  }

  /**
   * The connection breaks. What is under way may arrive within `strayMs`, its answers do not; there is another one after
   * `forUs`.
   */
  reset(forUs: number, strayMs: number): void {
    this.link.reset(strayMs);
    this.#isConnected = false;
    const world = this.#world;
    world.at(world.nowUs, this.#process, () => {
      for (const waiting of [...this.#waiting]) waiting.fail('the connection was reset');
    });
    world.at(world.nowUs + forUs, this.#process, () => this.#connected());
  }

  #connected(): void {
    this.#isConnected = true;
    this.#learn();
    for (const listener of this.#reconnected) listener();
  }

  #learn(): void {
    this.#server = this.#inner.server;
    this.#learnedUs = this.#world.nowUs;
  }

  /** Whatever takes a `StoreCall` goes over the link; the rest is about the connection, or needs none. */
  #portOf(): LeaseStore {
    const own: Partial<LeaseStore> = {
      connect: () => this.#connect(),
      onReconnect: (listener) => {
        this.#reconnected.add(listener);
        return () => this.#reconnected.delete(listener);
      },
      subscribe: (channel, listener) => this.#subscribe(channel, listener),
      list: (call) => this.#list(call),
      evidence: (...[resource, owner, call]) =>
        this.#call('evidence', call, (further) => this.#host.memory.evidence(resource, owner, further)),
      close: () => {
        this.#isClosed = true;
        return Promise.resolve();
      },
    };
    const inner = this.#inner as unknown as Record<string, unknown>;
    return new Proxy(this.#inner, {
      get: (_, name) => {
        if (name === 'server') return this.#serverNow();
        const special = own[name as keyof LeaseStore];
        const value = inner[name as string];
        if (special !== undefined || typeof value !== 'function') return special ?? value;
        if (name === 'checkName') return value.bind(this.#inner) as unknown;
        return (...args: unknown[]) => {
          const call = args.at(-1) as StoreCall;
          return this.#call(String(name), call, async (further) => {
            const reply: unknown = await (value as (...args: unknown[]) => unknown).call(
              this.#inner,
              ...args.slice(0, -1),
              further,
            );
            if (name === 'acquire' || name === 'adopt')
              this.#granted(args[0] as Asked, reply as AcquireReply | AdoptReply);
            return reply;
          });
        };
      },
    });
  }

  async #connect(): Promise<void> {
    await this.#call('connect', { timeoutMs: SUBSCRIBE_MS }, () => this.#inner.connect());
    if (this.#server === undefined) this.#learn();
  }

  #serverNow(): LeaseStore['server'] {
    if (this.#server === undefined) return undefined;
    return { ...this.#server, ageMs: this.#server.ageMs + (this.#world.nowUs - this.#learnedUs) / 1000 };
  }

  async *#list(call: StoreCall): AsyncGenerator<{ readonly resource: string; readonly record: LeaseRecord }, void> {
    yield* await this.#call('list', call, async (further) => {
      const all: { readonly resource: string; readonly record: LeaseRecord }[] = [];
      for await (const each of this.#inner.list(further)) all.push(each);
      return all;
    });
  }

  #subscribe(channel: string, listener: (message: StoreMessage) => void): Promise<() => Promise<void>> {
    const hear = (message: StoreMessage): void => {
      if (this.#isClosed) return;
      const isSent =
        this.#isConnected && this.link.send('back', this.#world.nowUs, this.#process, () => listener(message));
      if (!isSent) this.#world.reach('a word to a waiter or an owner was lost');
    };
    return this.#call('subscribe', { timeoutMs: SUBSCRIBE_MS }, () => this.#inner.subscribe(channel, hear));
  }

  #granted({ resource, leaseId }: Asked, reply: AcquireReply | AdoptReply): void {
    if (reply.kind !== 'granted' || reply.again) return;
    const { fencingToken } = reply;
    const spareTokens = 'spareTokens' in reply ? reply.spareTokens : undefined;
    this.#world.grant({ resource: `${this.#inner.namespace}/${resource}`, leaseId, fencingToken, spareTokens });
  }

  /** A release that has no answer yet. */
  get isReleasing(): boolean {
    return [...this.#waiting].some(({ name }) => name === 'release');
  }

  /** Calls back once, when the next release is on its way. */
  onRelease(released: () => void): void {
    this.#released = () => {
      this.#released = () => {};
      this.#world.at(this.#process.nowUs, undefined, released);
    };
  }

  #call<Reply>(name: string, call: StoreCall, run: (call: StoreCall) => Promise<Reply>): Promise<Reply> {
    const process = this.#process;
    if (name === 'extend') this.#countExtend();
    process.step(BEFORE[name]);
    if (!this.#isConnected || this.#isClosed) {
      const why = this.#isClosed ? 'is closed' : 'is out of reach';
      return Promise.reject(new StoreUnavailableError(`the store ${why}`, { mayHaveRun: false }));
    }
    call.sent?.();
    process.step(AFTER_STAMP[name]);
    if (name === 'release') this.#released();
    return new Promise((resolve, reject) => {
      const done = (settledOne: Waiting<unknown>): void => {
        this.#waiting.delete(settledOne);
        if (name in AFTER_STAMP) process.answered();
      };
      const waiting = new Waiting(name, process, call.timeoutMs, resolve, reject, done);
      this.#waiting.add(waiting as Waiting<unknown>);
      const { connection } = this.link;
      this.link.send('there', process.nowUs, undefined, () =>
        this.#host.serve(async () => {
          let toldUs: number | undefined;
          const outcome = await settled(run({ timeoutMs: call.timeoutMs, told: (us) => (toldUs ??= us) }));
          // Of a request that came twice the first answer goes back, and none on a connection that is no more.
          if (waiting.isAnswered) return;
          if (this.link.connection === connection) {
            waiting.isAnswered = true;
            const isSent = this.link.send('back', this.#world.nowUs, process, () => {
              if (waiting.isOpen && toldUs !== undefined) call.told?.(toldUs);
              waiting.settle(outcome);
            });
            if (isSent) return;
          }
          if (CHANGES.has(name)) this.#world.reach('a store carried it out, and its answer did not come');
        }),
      );
    });
  }

  /** Calls of one event are for the leases that were due at one moment. */
  #countExtend(): void {
    const { events } = this.#world;
    if (this.#extendedAt === events) {
      this.#world.reach('leases of one moment were extended with several calls');
      if (this.#process.nowUs > this.#extendedUs) this.#world.reach('stopped between two such calls');
    }
    this.#extendedAt = events;
    this.#extendedUs = this.#process.nowUs;
  }
}

const CHANGES: ReadonlySet<string> = new Set(['acquire', 'adopt', 'extend', 'release', 'cancel', 'revoke']);

const BEFORE: Readonly<Record<string, Place>> = { release: 'stopped before a release was sent' };

const AFTER_STAMP: Readonly<Record<string, Place>> = {
  acquire: 'stopped between the reading of the clock and the request for a lease',
  adopt: 'stopped between the reading of the clock and the request for a lease',
  extend: 'stopped between the reading of the clock and the request for a lease',
};

/** A call that has no answer yet. */
class Waiting<Reply> {
  isOpen = true;
  /** The server has sent its answer. */
  isAnswered = false;
  readonly name: string;
  readonly #timer: Timer;
  readonly #resolve: (reply: Reply) => void;
  readonly #reject: (error: Error) => void;
  readonly #done: (self: Waiting<unknown>) => void;

  constructor(
    name: string,
    process: SimProcess,
    timeoutMs: number,
    resolve: (reply: Reply) => void,
    reject: (error: Error) => void,
    done: (self: Waiting<unknown>) => void,
  ) {
    this.name = name;
    this.#timer = process.setTimer(timeoutMs, () => this.fail('no answer in time'));
    this.#resolve = resolve;
    this.#reject = reject;
    this.#done = done;
  }

  /** It may have been carried out. */
  fail(why: string): void {
    if (this.isOpen) this.settle({ error: new StoreUnavailableError(why, { mayHaveRun: true }) });
  }

  settle(outcome: Settled<Reply>): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#timer.clear();
    this.#done(this as Waiting<unknown>);
    if ('error' in outcome) this.#reject(outcome.error as Error);
    else this.#resolve(outcome.value);
  }
}
