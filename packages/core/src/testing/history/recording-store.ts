import { qualify } from '../../names.ts';
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
  LeaseStore,
  ReleaseReply,
  ReleaseRequest,
  RevokeReply,
  RevokeRequest,
  StoreCall,
  StoreMessage,
} from '../../store/store.ts';
import type { Act } from './history.ts';
import { endOf, type About, type Recorder, type Recording } from './recorder.ts';

type End = readonly [phase: 'ok' | 'fail' | 'info', more: About];

/** `store`, with a line for each call that makes, keeps or ends a lease, when it is sent and when it settles. */
export function recordStore(store: LeaseStore, recorder: Recorder): LeaseStore {
  const recording = new StoreRecording(store, recorder);
  const all: Partial<LeaseStore> = {
    acquire: (request, call) => recording.acquire(request, call),
    adopt: (request, call) => recording.adopt(request, call),
    extend: (items, call) => recording.extend(items, call),
    release: (request, call) => recording.release(request, call),
    cancel: (request, call) => recording.cancel(request, call),
    revoke: (request, call) => recording.revoke(request, call),
    forceRelease: (request, call) => recording.forceRelease(request, call),
    subscribe: (channel, listener) => recording.subscribe(channel, listener),
  };
  return new Proxy(store, {
    get(target, name) {
      const own = all[name as keyof LeaseStore];
      if (own !== undefined) return own;
      // With the store itself as `this`, or its private fields could not be reached.
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

class StoreRecording {
  readonly #store: LeaseStore;
  readonly #recorder: Recorder;

  constructor(store: LeaseStore, recorder: Recorder) {
    this.#store = store;
    this.#recorder = recorder;
  }

  acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    const { ttlMs, mode, waitRefreshMs, quarantineMs, replaces } = request;
    const how = { mode, waitRefreshMs, quarantineMs, from: replaces === '' ? undefined : replaces };
    const about = this.#about(request, { ttlMs, ...how });
    return this.#call('acquire', about, call, (own) => this.#store.acquire(request, own), grantEnd);
  }

  adopt(request: AdoptRequest, call: StoreCall): Promise<AdoptReply> {
    const about = this.#about(request, { ttlMs: request.ttlMs, from: request.from });
    return this.#call('adopt', about, call, (own) => this.#store.adopt(request, own), grantEnd);
  }

  async extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    const sending = new Sending(this.#recorder, call, () =>
      items.map((item) => this.#begin('extend', this.#about(item, { ttlMs: item.ttlMs }), call)),
    );
    try {
      const verdicts = await this.#store.extend(items, sending.call);
      for (const [index, recording] of sending.recordings.entries()) {
        const verdict = verdicts[index] ?? { verdict: 'unknown' };
        const [phase, more] = extendEnd(verdict);
        recording.end(phase, { ...more, ...sending.again });
      }
      return verdicts;
    } catch (error) {
      sending.fail(error);
      throw error;
    }
  }

  release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply> {
    return this.#call(
      'release',
      this.#about(request, { outcome: request.outcome }),
      call,
      (own) => this.#store.release(request, own),
      (reply) => (reply.kind === 'released' ? ['ok', { outcome: 'released' }] : ['fail', { outcome: reply.reason }]),
    );
  }

  cancel(request: CancelRequest, call: StoreCall): Promise<CancelReply> {
    return this.#call(
      'cancel',
      this.#about(request, { outcome: request.outcome }),
      call,
      (own) => this.#store.cancel(request, own),
      (reply) => ['ok', { outcome: reply.kind }],
    );
  }

  revoke(request: RevokeRequest, call: StoreCall): Promise<RevokeReply> {
    return this.#call(
      'revoke',
      this.#about(request),
      call,
      (own) => this.#store.revoke(request, own),
      (reply) => (reply.kind === 'revoked' ? ['ok', { outcome: 'revoked' }] : ['fail', { outcome: reply.reason }]),
    );
  }

  forceRelease(request: ForceReleaseRequest, call: StoreCall): Promise<ForceReleaseReply> {
    const about = this.#about(request, { fencingToken: request.fencingToken });
    return this.#call(
      'force',
      about,
      call,
      (own) => this.#store.forceRelease(request, own),
      (reply) =>
        reply.kind === 'released'
          ? ['ok', { outcome: 'released' }]
          : ['fail', { outcome: reply.kind === 'lost' ? reply.reason : reply.kind }],
    );
  }

  subscribe(channel: string, listener: (message: StoreMessage) => void): ReturnType<LeaseStore['subscribe']> {
    return this.#store.subscribe(channel, (message) => {
      if (message.kind === 'wanted') this.#recorder.line('wanted', 'ok', this.#about(message));
      listener(message);
    });
  }

  async #call<Reply>(
    act: Act,
    about: About,
    call: StoreCall,
    send: (call: StoreCall) => Promise<Reply>,
    endWith: (reply: Reply) => End,
  ): Promise<Reply> {
    const sending = new Sending(this.#recorder, call, () => [this.#begin(act, about, call)]);
    try {
      const reply = await send(sending.call);
      const [phase, more] = endWith(reply);
      for (const recording of sending.recordings) recording.end(phase, { ...more, ...sending.again });
      return reply;
    } catch (error) {
      sending.fail(error);
      throw error;
    }
  }

  #begin(act: Act, about: About, { timeoutMs }: StoreCall): Recording {
    return this.#recorder.begin(act, { ...about, timeoutMs });
  }

  #about({ resource, leaseId }: { readonly resource: string; readonly leaseId: string }, more: About = {}): About {
    return { resource: qualify(this.#store.namespace, resource), leaseId, ...more };
  }
}

/** One call on its way: its lines begin when it is sent, after the caller has read its clocks for it. */
class Sending {
  readonly call: StoreCall;
  recordings: readonly Recording[] = [];
  /** If it was sent again: when. */
  again: About = {};

  constructor(recorder: Recorder, call: StoreCall, begin: () => readonly Recording[]) {
    let isSent = false;
    this.call = {
      ...call,
      sent: () => {
        call.sent?.();
        if (isSent) this.again = { sentMs: recorder.now() };
        else this.recordings = begin();
        isSent = true;
      },
    };
  }

  fail(error: unknown): void {
    const { phase, outcome } = endOf(error);
    for (const recording of this.recordings) recording.end(phase, { outcome });
  }
}

function grantEnd(reply: AdoptReply | AcquireReply): End {
  if (reply.kind !== 'granted') return ['fail', { outcome: 'reason' in reply ? reply.reason : reply.kind }];
  const { fencingToken, remainingMs } = reply;
  const spareTokens = 'spareTokens' in reply ? reply.spareTokens : undefined;
  return ['ok', { fencingToken, remainingMs, ...(spareTokens !== undefined && { spareTokens }) }];
}

function extendEnd(verdict: ExtendVerdict): End {
  switch (verdict.verdict) {
    case 'extended':
      return ['ok', { remainingMs: verdict.remainingMs }];
    case 'unknown':
      return ['info', { outcome: 'unknown' }];
    case 'lost':
      return ['fail', { outcome: verdict.reason }];
    case 'revoked':
    case 'foreign':
      return ['fail', { outcome: verdict.verdict }];
  }
}
