import { expect } from 'vitest';

import { LeaseholdError, type ErrorCode, type TickReason } from '../../errors.ts';
import type {
  AcquireReply,
  AcquireRequest,
  AdoptReply,
  AdoptRequest,
  CancelReply,
  CancelRequest,
  ExtendVerdict,
  ForceReleaseReply,
  ForceReleaseRequest,
  HistoryEvent,
  LeaseRecord,
  LeaseStore,
  ReleaseReply,
  ReleaseRequest,
  RevokeReply,
  StoreCall,
  StoreMessage,
  TickRecord,
} from '../../store/store.ts';
import type { ScheduledTick, TriggeredTick } from '../../store/tick-request.ts';
import { newLeaseId, unique } from '../unique.ts';

/**
 * What a store's own test can do behind the store's back. Each hook unlocks the cases that need it; `messages` is no
 * function, it says that the store may use channels.
 */
export interface StoreHooks {
  /** Another store on the same data, over its own connection. Closed with the subject. */
  second(): Promise<LeaseStore>;
  /** Loses all data. */
  flush(): Promise<void>;
  /** Loses what is stored for one resource, as an eviction does. */
  evict(resource: string): Promise<void>;
  /** Runs `unreplicated` on the server, loses what it did, and puts a replica in the server's place. */
  promoteLaggingReplica(unreplicated: () => Promise<void>): Promise<void>;
  /** Puts something that is not ours where the lease of this resource lies. `intact` tells whether it is as it was. */
  foreign(resource: string, kind: 'type' | 'shape'): Promise<{ intact(): Promise<boolean> }>;
  /** Changes a field of the lease. `revoked` takes a leaseId. */
  setField(resource: string, field: 'revoked' | 'fencingToken', value: string | number): Promise<void>;
  /** Sets the store's clock forward, or back. */
  stepClock(ms: number): Promise<void>;
  /** Uses up all memory; the function returned gives it back. */
  fill(): Promise<() => Promise<void>>;
  /** Makes the server forget the scripts it has been sent. */
  flushScripts(): Promise<void>;
  /** Restarts the server. Resolves when it serves again, which the store may see later. */
  restart(options: { readonly persistent: boolean }): Promise<void>;
  /** A store on the same data whose user may not send messages or write history. Closed with the subject. */
  withoutSideEffects(): Promise<LeaseStore>;
  messages: true;
}

export type StoreHook = keyof StoreHooks;

/** A store to be examined, made anew for each case. Cases use names of their own, so the data may be shared. */
export interface StoreSubject extends Partial<StoreHooks> {
  readonly store: LeaseStore;
  /** Lets so much time pass by the store's clock. Default: waits. */
  pass?(ms: number): Promise<void>;
  close(): Promise<void>;
}

/** One thing that every store must do. */
export interface StoreCase {
  readonly name: string;
  readonly needs: readonly StoreHook[];
  run(context: StoreContext): Promise<void>;
}

type Granted = Extract<AcquireReply, { kind: 'granted' }>;

/** What `acquire` of the context leaves to its defaults: everything. */
export type Wish = Partial<AcquireRequest>;

const CALL_TIMEOUT_MS = 5_000;
const PATIENCE_MS = 10_000;

/** The store of one case, with a resource of its own and short words for the requests. */
export class StoreContext {
  readonly store: LeaseStore;
  readonly resource: string = unique('resource');
  readonly call: StoreCall = { timeoutMs: CALL_TIMEOUT_MS };
  readonly #subject: StoreSubject;

  constructor(subject: StoreSubject) {
    this.#subject = subject;
    this.store = subject.store;
  }

  /** The same words for another store on the same data, and the same resource. */
  over(store: LeaseStore): StoreContext {
    const context = new StoreContext({ ...this.#subject, store });
    return Object.assign(context, { resource: this.resource });
  }

  /** The same words for another resource. */
  at(resource: string): StoreContext {
    return Object.assign(this.over(this.store), { resource });
  }

  hook<Name extends StoreHook>(name: Name): StoreHooks[Name] {
    const hook = this.#subject[name];
    if (hook === undefined) throw new Error(`this case does not say that it needs ${name}`);
    return (typeof hook === 'function' ? hook.bind(this.#subject) : hook) as StoreHooks[Name];
  }

  async pass(ms: number): Promise<void> {
    if (this.#subject.pass !== undefined) await this.#subject.pass(ms);
    // A timer of Node may fire up to a millisecond early.
    else await new Promise((resolve) => setTimeout(resolve, ms + 1));
  }

  /** Asks again and again, letting time pass, until the answer is not undefined. */
  async until<T>(what: string, ask: () => T | undefined | Promise<T | undefined>): Promise<T> {
    const stepMs = 5;
    for (let passedMs = 0; passedMs < PATIENCE_MS; passedMs += stepMs) {
      const answer = await ask();
      if (answer !== undefined) return answer;
      await this.pass(stepMs);
    }
    throw new Error(`${what}: not within ${PATIENCE_MS} ms`);
  }

  request(wish: Wish = {}): AcquireRequest {
    return {
      resource: this.resource,
      leaseId: newLeaseId(),
      ttlMs: 30_000,
      mode: 'try',
      owner: { line: 'suite', json: '{"host":"suite"}' },
      channel: '',
      floor: 0,
      replaces: '',
      waitRefreshMs: 10_000,
      quarantineMs: 0,
      history: 'exceptions',
      ...wish,
    };
  }

  acquire(wish: Wish = {}): Promise<AcquireReply> {
    return this.store.acquire(this.request(wish), this.call);
  }

  /** Acquires, and fails the case unless it was granted. */
  async grant(wish: Wish = {}): Promise<Granted & { readonly leaseId: string }> {
    const request = this.request(wish);
    const reply = await this.store.acquire(request, this.call);
    expect(reply).toMatchObject({ kind: 'granted' });
    return { ...(reply as Granted), leaseId: request.leaseId };
  }

  async extend(leaseId: string, ttlMs = 30_000): Promise<ExtendVerdict> {
    const verdicts = await this.store.extend([{ resource: this.resource, leaseId, ttlMs }], this.call);
    expect(verdicts).toHaveLength(1);
    return verdicts[0] as ExtendVerdict;
  }

  release(leaseId: string, more: Partial<ReleaseRequest> = {}): Promise<ReleaseReply> {
    return this.store.release(
      { resource: this.resource, leaseId, outcome: 'done', floor: 0, history: 'exceptions', ...more },
      this.call,
    );
  }

  cancel(leaseId: string, more: Partial<CancelRequest> = {}): Promise<CancelReply> {
    return this.store.cancel(
      {
        resource: this.resource,
        leaseId,
        outcome: 'not-started',
        floor: 0,
        history: 'exceptions',
        tombstoneMs: 0,
        ...more,
      },
      this.call,
    );
  }

  /** Hands `from` over to a new leaseId. */
  adopt(from: string, wish: Partial<AdoptRequest> = {}): Promise<AdoptReply> {
    const { resource, leaseId, ttlMs, channel, floor, history } = this.request();
    const owner = { line: 'adopter', json: '{"host":"adopter"}' };
    return this.store.adopt({ resource, leaseId, from, ttlMs, owner, channel, floor, history, ...wish }, this.call);
  }

  revoke(leaseId: string, operator = 'operator', reason = 'because'): Promise<RevokeReply> {
    return this.store.revoke({ resource: this.resource, leaseId, operator, reason }, this.call);
  }

  /** Releases the lease of this grant by force, as it is now, however long it has run out. */
  async forceRelease(leaseId: string, more: Partial<ForceReleaseRequest> = {}): Promise<ForceReleaseReply> {
    const record = await this.read();
    return this.store.forceRelease(
      {
        resource: this.resource,
        leaseId,
        fencingToken: record?.fencingToken ?? 1,
        extensions: record?.extensions ?? 0,
        elapsedMs: null,
        floor: 0,
        operator: 'operator',
        reason: 'because',
        ...more,
      },
      this.call,
    );
  }

  noteSeal(fencingToken: number, operator = 'operator', reason = 'because'): Promise<void> {
    return this.store.noteSeal({ resource: this.resource, fencingToken, operator, reason }, this.call);
  }

  history(limit = 100): Promise<readonly HistoryEvent[]> {
    return this.store.history(this.resource, limit, this.call);
  }

  /** Collects what a channel of its own is told. */
  async listen(): Promise<{ readonly channel: string; readonly heard: StoreMessage[] }> {
    const channel = unique('channel');
    const heard: StoreMessage[] = [];
    await this.store.subscribe(channel, (message) => heard.push(message));
    return { channel, heard };
  }

  read(): Promise<LeaseRecord | null> {
    return this.store.read(this.resource, this.call);
  }

  /** The record, which must be there. */
  async record(): Promise<LeaseRecord> {
    const record = await this.read();
    if (record === null) throw new Error(`the store has no record of ${this.resource}`);
    return record;
  }

  /** The store's clock in µs, read on a resource of its own. */
  async nowUs(): Promise<number> {
    const aside = this.at(unique('clock'));
    await aside.grant();
    return (await aside.record()).nowUs;
  }

  expired(): Promise<LeaseRecord> {
    return this.until('expiry', async () => {
      const record = await this.record();
      return record.state === 'expired' ? record : undefined;
    });
  }

  /** A tick of a schedule, a second ago. */
  async tick(job: string, wish: Partial<ScheduledTick> = {}): Promise<ScheduledTick> {
    const at = wish.at ?? Math.floor((await this.nowUs()) / 1000) - 1_000;
    return { job, at, startingDeadlineMs: 300_000, maxAheadMs: 2_000, retry: 0, ...wish };
  }

  /** A run without a schedule. */
  trigger(job: string, wish: Partial<TriggeredTick> = {}): TriggeredTick {
    return { job, at: null, minHoldMs: 60_000, retry: 0, ...wish };
  }

  ticks(job: string): Promise<readonly TickRecord[]> {
    return this.store.ticks(this.resource, job, this.call);
  }

  /** The request must be refused because of its tick, for this reason. */
  async refusedTick(reason: TickReason, wish: Wish): Promise<Extract<AcquireReply, { kind: 'tick' }>> {
    const reply = await this.acquire(wish);
    expect(reply).toMatchObject({ kind: 'tick', reason });
    return reply as Extract<AcquireReply, { kind: 'tick' }>;
  }

  /** `work` must reject with a Leasehold error of this code. */
  async refused(code: ErrorCode, work: Promise<unknown>): Promise<LeaseholdError> {
    const error: unknown = await work.then(
      (value) => new Error(`expected ${code}, but it resolved: ${JSON.stringify(value)}`),
      (reason: unknown) => reason,
    );
    if (!LeaseholdError.is(error, code)) throw error;
    return error as LeaseholdError;
  }
}
