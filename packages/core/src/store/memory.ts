import { StoreUnavailableError } from '../errors.ts';
import { systemClock, type Clock } from '../clock.ts';
import type { OwnerIdentity } from '../owner.ts';
import { checkJobName, checkPrefix, checkResourceName } from '../names.ts';
import {
  decideAcquire,
  decideAdopt,
  decideCancel,
  decideExtend,
  decideForceRelease,
  decideNoteSeal,
  decideRelease,
  decideRevoke,
} from './decisions.ts';
import type { StoreEvidence } from './evidence.ts';
import type { StoreSurvey } from './survey.ts';
import { memoryEvidence } from './memory-evidence.ts';
import { MemoryServer } from './memory-server.ts';
import { known, unknown } from './reading.ts';
import { readState, type Decision, type ResourceState, type StoredLease } from './state.ts';
import type {
  AcquireReply,
  AcquireRequest,
  AdoptReply,
  AdoptRequest,
  CancelReply,
  CancelRequest,
  ExtendItem,
  ExtendVerdict,
  ForceReleaseReply,
  ForceReleaseRequest,
  HistoryEvent,
  LeaseRecord,
  LeaseStore,
  NoteSealRequest,
  ReleaseReply,
  ReleaseRequest,
  RevokeReply,
  RevokeRequest,
  StoreCall,
  StoreMessage,
  TickRecord,
} from './store.ts';
import { readTicks } from './ticks.ts';

export interface MemoryLeaseStoreOptions {
  /** The namespace. Default `leasehold`. */
  readonly prefix?: string | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Leases in the memory of this process: for tests, and for programs of a single process. It decides as the Redis store
 * does, and like it keeps what it knows of a resource, so that tokens go on growing; it forgets
 * nothing by itself but what was acquired with a `retention`.
 */
export class MemoryLeaseStore implements LeaseStore {
  readonly namespace: string;
  readonly description: string;
  readonly #clock: Clock;
  readonly #ends = new Set<() => void>();
  #server: MemoryServer;
  /** The life of the server that was met first. */
  #met: number | undefined;
  #closed = false;

  constructor(options: MemoryLeaseStoreOptions = {}) {
    const { prefix = 'leasehold', clock = systemClock } = options;
    checkPrefix('prefix', prefix);
    this.namespace = prefix;
    this.description = `memory ${prefix}`;
    this.#clock = clock;
    this.#server = new MemoryServer(clock);
  }

  checkName(option: string, name: string): void {
    if (option === 'job') checkJobName(option, name);
    else checkResourceName(option, name);
  }

  async connect(): Promise<void> {
    this.#refuseIfClosed();
    this.#met ??= this.#server.life;
  }

  get server(): LeaseStore['server'] {
    if (this.#met === undefined) return undefined;
    return {
      ageMs: this.#server.ageMs(),
      restarted: this.#server.life !== this.#met,
      runId: String(this.#server.life),
    };
  }

  acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    return this.#decide(request.resource, call, (state, nowUs) => decideAcquire(state, request, nowUs));
  }

  adopt(request: AdoptRequest, call: StoreCall): Promise<AdoptReply> {
    return this.#decide(request.resource, call, (state, nowUs) => decideAdopt(state, request, nowUs));
  }

  extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    return this.#run(call, (nowUs) => {
      call.told?.(nowUs);
      return items.map((item) =>
        this.#server.decide(item.resource, nowUs, (state) => decideExtend(state, item, nowUs)),
      );
    });
  }

  release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply> {
    return this.#decide(request.resource, call, (state, nowUs) => decideRelease(state, request, nowUs));
  }

  cancel(request: CancelRequest, call: StoreCall): Promise<CancelReply> {
    return this.#decide(request.resource, call, (state, nowUs) => decideCancel(state, request, nowUs));
  }

  revoke(request: RevokeRequest, call: StoreCall): Promise<RevokeReply> {
    return this.#decide(request.resource, call, (state, nowUs) => decideRevoke(state, request, nowUs));
  }

  forceRelease(request: ForceReleaseRequest, call: StoreCall): Promise<ForceReleaseReply> {
    return this.#decide(request.resource, call, (state, nowUs) => decideForceRelease(state, request, nowUs));
  }

  noteSeal(request: NoteSealRequest, call: StoreCall): Promise<void> {
    return this.#decide(request.resource, call, (state, nowUs) => decideNoteSeal(state, request, nowUs));
  }

  read(resource: string, call: StoreCall): Promise<LeaseRecord | null> {
    return this.#run(call, (nowUs) => readState(this.#server.state(resource, nowUs), nowUs));
  }

  evidence(resource: string, _owner: OwnerIdentity | null, call: StoreCall): Promise<StoreEvidence> {
    return this.#run(call, (nowUs) => {
      const { lease, tombstones } = this.#server.state(resource, nowUs);
      const server = memoryEvidence(this.description, this.#server, nowUs);
      return {
        shape: known({ kind: lease === null && tombstones.length === 0 ? 'absent' : 'record' }),
        key: '',
        servers: [server],
        connections: unknown('not-known', 'memory needs no connections'),
      };
    });
  }

  /** A server that forgets all when the process ends. */
  survey(call: StoreCall): Promise<StoreSurvey> {
    return this.#run(call, (nowUs) => ({
      usable: known(true),
      isCluster: false,
      sentinels: null,
      servers: [memoryEvidence(this.description, this.#server, nowUs)],
      rights: unknown('not-known', 'memory knows no users'),
    }));
  }

  async *list(call: StoreCall): AsyncGenerator<{ readonly resource: string; readonly record: LeaseRecord }, void> {
    for (const resource of await this.#run(call, () => [...this.#server.resources.keys()])) {
      const record = await this.read(resource, { timeoutMs: call.timeoutMs });
      if (record !== null) yield { resource, record };
    }
  }

  history(resource: string, limit: number, call: StoreCall): Promise<readonly HistoryEvent[]> {
    return this.#run(call, (nowUs) => this.#server.state(resource, nowUs).log.slice(0, limit));
  }

  ticks(resource: string, job: string, call: StoreCall): Promise<readonly TickRecord[]> {
    return this.#run(call, (nowUs) => readTicks(this.#server.state(resource, nowUs).ticks, job));
  }

  async subscribe(channel: string, listener: (message: StoreMessage) => void): Promise<() => Promise<void>> {
    await this.connect();
    return this.#until(this.#server.listen(channel, listener));
  }

  /** Memory is always within reach, but for `restart`. */
  onReconnect(listener: () => void): () => void {
    const end = this.#until(this.#server.onRestart(listener));
    return () => void end();
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const end of this.#ends) end();
    return Promise.resolve();
  }

  /** A further store on the same data, with a life of its own: what a second process would have. */
  beside(): MemoryLeaseStore {
    const other = new MemoryLeaseStore({ prefix: this.namespace, clock: this.#clock });
    other.#server = this.#server;
    return other;
  }

  /** Loses all data, or that of one resource. Tokens still grow across it, as long as the clock does. */
  flush(resource?: string): void {
    this.#server.flush(resource);
  }

  /** What a restart of the server is for those who use it: `server` shows it, and unless it is persistent all is lost. */
  restart(options: { readonly persistent: boolean }): void {
    this.#server.restart(options.persistent);
  }

  /** Changes the record behind everybody's back, as an operator at a console does. False if there is none. */
  edit(resource: string, change: Partial<StoredLease>): boolean {
    const state = this.#server.resources.get(resource);
    if (state === undefined || state.lease === null) return false;
    this.#server.resources.set(resource, { ...state, lease: { ...state.lease, ...change } });
    return true;
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw new StoreUnavailableError(`${this.description} is closed`, { mayHaveRun: false });
  }

  /** What ends it; `close` does so, too. */
  #until(end: () => void): () => Promise<void> {
    this.#ends.add(end);
    return async () => {
      this.#ends.delete(end);
      end();
    };
  }

  /** One operation. It decides in a later microtask than the call and answers in a later one still, like a server. */
  async #run<Reply>(call: StoreCall, answer: (nowUs: number) => Reply): Promise<Reply> {
    this.#refuseIfClosed();
    this.#met ??= this.#server.life;
    call.sent?.();
    await Promise.resolve();
    return answer(this.#server.nowUs());
  }

  #decide<Reply>(
    resource: string,
    call: StoreCall,
    decide: (state: ResourceState, nowUs: number) => Decision<Reply>,
  ): Promise<Reply> {
    return this.#run(call, (nowUs) => this.#server.decide(resource, nowUs, (state) => decide(state, nowUs)));
  }
}
