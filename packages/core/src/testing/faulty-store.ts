import { systemClock, type Clock } from '../clock.ts';
import { StoreUnavailableError } from '../errors.ts';
import type { OwnerIdentity } from '../owner.ts';
import type { StoreEvidence } from '../store/evidence.ts';
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
} from '../store/store.ts';

/** What each operation takes and answers. */
interface Operations {
  acquire: { request: AcquireRequest; reply: AcquireReply };
  extend: { request: readonly ExtendItem[]; reply: readonly ExtendVerdict[] };
  release: { request: ReleaseRequest; reply: ReleaseReply };
  cancel: { request: CancelRequest; reply: CancelReply };
  read: { request: string; reply: LeaseRecord | null };
  adopt: { request: AdoptRequest; reply: AdoptReply };
  revoke: { request: RevokeRequest; reply: RevokeReply };
  forceRelease: { request: ForceReleaseRequest; reply: ForceReleaseReply };
  noteSeal: { request: NoteSealRequest; reply: void };
  evidence: {
    request: { readonly resource: string; readonly owner: OwnerIdentity | null };
    reply: StoreEvidence;
  };
  list: { request: undefined; reply: readonly Listed[] };
  history: { request: { readonly resource: string; readonly limit: number }; reply: readonly HistoryEvent[] };
  ticks: { request: { readonly resource: string; readonly job: string }; reply: readonly TickRecord[] };
}

interface Listed {
  readonly resource: string;
  readonly record: LeaseRecord;
}

export type Operation = keyof Operations;

/** So many milliseconds, or until something happens that the test decides. */
export type Delay = number | Promise<unknown>;

/** What happens to a call on its way. Every part is optional; what is left out goes well. */
export interface Fault<Op extends Operation = Operation> {
  /** Before the request reaches the store, even after the caller has given up. `lost`: it never does. */
  readonly request?: Delay | 'lost' | undefined;
  /** How often it reaches the store, as if a proxy had sent it again. The first reply counts. Default 1. */
  readonly times?: number | undefined;
  /**
   * What becomes of the reply: it comes later; it is `lost` after the operation ran; an error comes instead; or the
   * function makes another one of it.
   */
  readonly reply?: Delay | 'lost' | Error | ((reply: Operations[Op]['reply']) => Operations[Op]['reply']) | undefined;
}

/** `sent`: handed to the transport. `ran`: the store has carried it out, no reply yet. `settled`: the caller has its answer. */
export type Stage = 'sent' | 'ran' | 'settled';

interface Watch {
  readonly operation: Operation;
  readonly stage: Stage;
  readonly resolve: (request: never) => void;
}

/**
 * A store behind a bad network, switched per operation while it runs. A call without an answer rejects with
 * `StoreUnavailableError` and `mayHaveRun: true` once its `timeoutMs` has passed, by the clock given.
 *
 * Tests wait with `next`: `const ran = faulty.next('extend', 'ran')`, do something, `await ran`.
 */
export class FaultyStore implements LeaseStore {
  readonly namespace: string;
  readonly description: string;
  /** While true, messages of the store are lost. */
  deaf = false;
  /** How often each operation was asked for. */
  readonly calls: Record<Operation, number> = {
    ...{ acquire: 0, extend: 0, release: 0, cancel: 0, read: 0 },
    ...{ adopt: 0, revoke: 0, forceRelease: 0, noteSeal: 0, evidence: 0, list: 0, history: 0, ticks: 0 },
  };
  /** Where the store behind has it. */
  readonly evidence?: NonNullable<LeaseStore['evidence']>;
  readonly #inner: LeaseStore;
  readonly #clock: Clock;
  // Each is a Fault of its key's operation, which a Map cannot say.
  readonly #lasting = new Map<Operation, unknown>();
  readonly #once = new Map<Operation, unknown[]>();
  readonly #reconnected = new Set<() => void>();
  #watches: Watch[] = [];

  constructor(inner: LeaseStore, options: { readonly clock?: Clock | undefined } = {}) {
    this.#inner = inner;
    this.#clock = options.clock ?? systemClock;
    this.namespace = inner.namespace;
    this.description = inner.description;
    if (inner.evidence === undefined) return;
    this.evidence = (resource, owner, call) =>
      this.#call('evidence', { resource, owner }, call, async (further) => {
        const found = await inner.evidence?.(resource, owner, further);
        return found ?? Promise.reject(new Error('the store has lost its evidence'));
      });
  }

  /** From now on, each call of the operation has this fault. */
  set<Op extends Operation>(operation: Op, fault: Fault<Op>): void {
    this.#lasting.set(operation, fault);
  }

  /** The next call of the operation has this fault; calls of it add up. */
  once<Op extends Operation>(operation: Op, fault: Fault<Op>): void {
    const queue = this.#once.get(operation) ?? [];
    this.#once.set(operation, [...queue, fault]);
  }

  /** Ends the faults of one operation, or of all. What is under way stays as it is. */
  heal(operation?: Operation): void {
    for (const faults of [this.#lasting, this.#once]) {
      if (operation === undefined) faults.clear();
      else faults.delete(operation);
    }
  }

  /** Nothing reaches the store any more, and nothing comes back, until `heal`. */
  partition(): void {
    for (const operation of Object.keys(this.calls) as Operation[]) this.set(operation, { request: 'lost' });
  }

  /** Tells the engine that the store can be reached again. */
  reconnect(): void {
    for (const listener of this.#reconnected) listener();
  }

  /** The request of the next call that comes to this stage. Ask before what causes the call. */
  next<Op extends Operation>(operation: Op, stage: Stage): Promise<Operations[Op]['request']> {
    return new Promise((resolve) => {
      this.#watches.push({ operation, stage, resolve });
    });
  }

  checkName(option: string, name: string): void {
    this.#inner.checkName(option, name);
  }

  acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    return this.#call('acquire', request, call, (inner) => this.#inner.acquire(request, inner));
  }

  extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    return this.#call('extend', items, call, (inner) => this.#inner.extend(items, inner));
  }

  release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply> {
    return this.#call('release', request, call, (inner) => this.#inner.release(request, inner));
  }

  cancel(request: CancelRequest, call: StoreCall): Promise<CancelReply> {
    return this.#call('cancel', request, call, (inner) => this.#inner.cancel(request, inner));
  }

  read(resource: string, call: StoreCall): Promise<LeaseRecord | null> {
    return this.#call('read', resource, call, (inner) => this.#inner.read(resource, inner));
  }

  adopt(request: AdoptRequest, call: StoreCall): Promise<AdoptReply> {
    return this.#call('adopt', request, call, (inner) => this.#inner.adopt(request, inner));
  }

  revoke(request: RevokeRequest, call: StoreCall): Promise<RevokeReply> {
    return this.#call('revoke', request, call, (inner) => this.#inner.revoke(request, inner));
  }

  forceRelease(request: ForceReleaseRequest, call: StoreCall): Promise<ForceReleaseReply> {
    return this.#call('forceRelease', request, call, (inner) => this.#inner.forceRelease(request, inner));
  }

  noteSeal(request: NoteSealRequest, call: StoreCall): Promise<void> {
    return this.#call('noteSeal', request, call, (inner) => this.#inner.noteSeal(request, inner));
  }

  /** One call as far as faults go: all of it comes, or nothing. */
  async *list(call: StoreCall): AsyncGenerator<Listed, void> {
    yield* await this.#call('list', undefined, call, async (inner) => {
      const all: Listed[] = [];
      for await (const each of this.#inner.list(inner)) all.push(each);
      return all;
    });
  }

  history(resource: string, limit: number, call: StoreCall): Promise<readonly HistoryEvent[]> {
    return this.#call('history', { resource, limit }, call, (inner) => this.#inner.history(resource, limit, inner));
  }

  ticks(resource: string, job: string, call: StoreCall): Promise<readonly TickRecord[]> {
    return this.#call('ticks', { resource, job }, call, (inner) => this.#inner.ticks(resource, job, inner));
  }

  connect(): Promise<void> {
    return this.#inner.connect();
  }

  get server(): LeaseStore['server'] {
    return this.#inner.server;
  }

  subscribe(channel: string, listener: (message: StoreMessage) => void): Promise<() => Promise<void>> {
    return this.#inner.subscribe(channel, (message) => {
      if (!this.deaf) listener(message);
    });
  }

  onReconnect(listener: () => void): () => void {
    this.#reconnected.add(listener);
    const end = this.#inner.onReconnect(listener);
    return () => {
      this.#reconnected.delete(listener);
      end();
    };
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #call<Op extends Operation>(
    operation: Op,
    request: Operations[Op]['request'],
    call: StoreCall,
    run: (call: StoreCall) => Promise<Operations[Op]['reply']>,
  ): Promise<Operations[Op]['reply']> {
    const fault = (this.#once.get(operation)?.shift() ?? this.#lasting.get(operation) ?? {}) as Fault<Op>;
    this.calls[operation]++;
    call.sent?.();
    this.#reached(operation, 'sent', request);
    try {
      return await this.#deadline(operation, call.timeoutMs, this.#travel(operation, request, call, run, fault));
    } finally {
      this.#reached(operation, 'settled', request);
    }
  }

  /** The way there and back. It goes on when the caller has given up: a packet under way arrives. */
  async #travel<Op extends Operation>(
    operation: Op,
    request: Operations[Op]['request'],
    call: StoreCall,
    run: (call: StoreCall) => Promise<Operations[Op]['reply']>,
    fault: Fault<Op>,
  ): Promise<Operations[Op]['reply']> {
    if (fault.request === 'lost') return never();
    if (fault.request !== undefined) await this.#wait(fault.request);
    // The bytes have left already, so the store is not to say so again.
    let toldUs: number | undefined;
    const further: StoreCall = { timeoutMs: call.timeoutMs, told: (nowUs) => (toldUs ??= nowUs) };
    const replies = Array.from({ length: fault.times ?? 1 }, () => run(further));
    const outcomes = await Promise.allSettled(replies);
    this.#reached(operation, 'ran', request);
    const first = outcomes[0];
    if (first === undefined || fault.reply === 'lost') return never();
    if (fault.reply instanceof Error) throw fault.reply;
    if (typeof fault.reply === 'number' || fault.reply instanceof Promise) await this.#wait(fault.reply);
    if (first.status === 'rejected') throw first.reason;
    if (toldUs !== undefined) call.told?.(toldUs);
    return typeof fault.reply === 'function' ? fault.reply(first.value) : first.value;
  }

  async #wait(delay: Delay): Promise<void> {
    if (typeof delay !== 'number') await delay;
    else await new Promise<void>((resolve) => this.#clock.setTimer(delay, resolve, { ref: true }));
  }

  #deadline<T>(operation: Operation, timeoutMs: number, reply: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimer(
        timeoutMs,
        () => {
          const detail = `${this.description} did not answer ${operation} within ${timeoutMs} ms`;
          reject(new StoreUnavailableError(detail, { mayHaveRun: true }));
        },
        { ref: true },
      );
      reply.then(resolve, reject).finally(() => timer.clear());
    });
  }

  #reached<Op extends Operation>(operation: Op, stage: Stage, request: Operations[Op]['request']): void {
    const due = this.#watches.filter((watch) => watch.operation === operation && watch.stage === stage);
    this.#watches = this.#watches.filter((watch) => !due.includes(watch));
    for (const watch of due) watch.resolve(request as never);
  }
}

function never(): Promise<never> {
  return new Promise(() => {});
}
