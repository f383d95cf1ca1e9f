import { StoreUnavailableError } from '../errors.ts';
import { systemClock, type Clock } from '../clock.ts';
import { checkJobName, checkPrefix, checkResourceName } from '../names.ts';
import {
  decideAcquire,
  decideCancel,
  decideExtend,
  decideRelease,
  EMPTY,
  readState,
  type Decision,
  type ResourceState,
  type StoredLease,
} from './decisions.ts';
import type {
  AcquireReply,
  AcquireRequest,
  CancelReply,
  CancelRequest,
  ExtendItem,
  ExtendVerdict,
  LeaseRecord,
  LeaseStore,
  ReleaseReply,
  ReleaseRequest,
  StoreCall,
} from './store.ts';

export interface MemoryLeaseStoreOptions {
  /** The namespace. Default `leasehold`. */
  readonly prefix?: string | undefined;
  readonly clock?: Clock | undefined;
}

type Kind = 'go' | 'look' | 'free' | 'revoked';
type Listener = (message: { readonly kind: Kind; readonly resource: string }) => void;

interface Data {
  readonly resources: Map<string, ResourceState>;
  readonly listeners: Map<string, Set<Listener>>;
  /** No instant before this one, unless the clock has been set back. */
  notBeforeUs: number;
}

/** Readings this much earlier than one before it are a clock set back, not two readings within one tick of it. */
const SET_BACK_US = 1_000_000;

/**
 * Leases in the memory of this process: for tests, and for programs of a single process. It decides as the Redis store
 * does, and like it keeps what it knows of a resource, so that tokens go on growing; it forgets nothing by itself.
 */
export class MemoryLeaseStore implements LeaseStore {
  readonly namespace: string;
  readonly description: string;
  readonly #clock: Clock;
  #data: Data = { resources: new Map(), listeners: new Map(), notBeforeUs: 0 };
  #closed = false;

  constructor(options: MemoryLeaseStoreOptions = {}) {
    const { prefix = 'leasehold', clock = systemClock } = options;
    checkPrefix('prefix', prefix);
    this.namespace = prefix;
    this.description = `memory ${prefix}`;
    this.#clock = clock;
  }

  checkName(option: string, name: string): void {
    if (option === 'job') checkJobName(option, name);
    else checkResourceName(option, name);
  }

  acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    return this.#run(call, (nowUs) => this.#decide(request.resource, (state) => decideAcquire(state, request, nowUs)));
  }

  extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    return this.#run(call, (nowUs) =>
      items.map((item) => this.#decide(item.resource, (state) => decideExtend(state, item, nowUs))),
    );
  }

  release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply> {
    return this.#run(call, (nowUs) => this.#decide(request.resource, (state) => decideRelease(state, request, nowUs)));
  }

  cancel(request: CancelRequest, call: StoreCall): Promise<CancelReply> {
    return this.#run(call, (nowUs) => this.#decide(request.resource, (state) => decideCancel(state, request, nowUs)));
  }

  read(resource: string, call: StoreCall): Promise<LeaseRecord | null> {
    return this.#run(call, (nowUs) => readState(this.#data.resources.get(resource) ?? EMPTY, nowUs));
  }

  subscribe(channel: string, listener: Listener): Promise<() => Promise<void>> {
    const { listeners } = this.#data;
    const ours = listeners.get(channel) ?? new Set();
    listeners.set(channel, ours.add(listener));
    return Promise.resolve(async () => {
      ours.delete(listener);
      if (ours.size === 0 && listeners.get(channel) === ours) listeners.delete(channel);
    });
  }

  /** Memory is always within reach, so nothing is ever told. */
  onReconnect(): () => void {
    return () => {};
  }

  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }

  /** A further store on the same data, with a life of its own: what a second process would have. */
  connect(): MemoryLeaseStore {
    const other = new MemoryLeaseStore({ prefix: this.namespace, clock: this.#clock });
    other.#data = this.#data;
    return other;
  }

  /** Loses all data, or that of one resource. Tokens still grow across it, as long as the clock does. */
  flush(resource?: string): void {
    const { resources } = this.#data;
    let lastUs = this.#nowUs();
    for (const { lease } of resources.values()) lastUs = Math.max(lastUs, lease?.fencingToken ?? 0);
    this.#data.notBeforeUs = lastUs + 1;
    if (resource === undefined) resources.clear();
    else resources.delete(resource);
  }

  /** Changes the record behind everybody's back, as an operator at a console does. False if there is none. */
  edit(resource: string, change: Partial<StoredLease>): boolean {
    const state = this.#data.resources.get(resource);
    if (state === undefined || state.lease === null) return false;
    this.#data.resources.set(resource, { ...state, lease: { ...state.lease, ...change } });
    return true;
  }

  #nowUs(): number {
    const us = Math.trunc(this.#clock.wallUs());
    const { notBeforeUs } = this.#data;
    return us < notBeforeUs && notBeforeUs - us < SET_BACK_US ? notBeforeUs : us;
  }

  /** One operation. It decides in a later microtask than the call and answers in a later one still, like a server. */
  async #run<Reply>(call: StoreCall, decide: (nowUs: number) => Reply): Promise<Reply> {
    if (this.#closed) {
      throw new StoreUnavailableError(`${this.description} is closed`, { mayHaveRun: false });
    }
    call.sent?.();
    await Promise.resolve();
    return decide(this.#nowUs());
  }

  #decide<Reply>(resource: string, decide: (state: ResourceState) => Decision<Reply>): Reply {
    const before = this.#data.resources.get(resource);
    const { state, reply, messages } = decide(before ?? EMPTY);
    if (before !== undefined || !isEmpty(state)) this.#data.resources.set(resource, state);
    for (const { channel, kind } of messages) {
      for (const listener of this.#data.listeners.get(channel) ?? []) {
        // Never before the reply, and never into the way of the one who asked.
        queueMicrotask(() => queueMicrotask(() => listener({ kind, resource })));
      }
    }
    return reply;
  }
}

function isEmpty(state: ResourceState): boolean {
  const { lease, queue, parked, tombstones, ticks } = state;
  return lease === null && queue.length + parked.length + tombstones.length + ticks.size === 0;
}
