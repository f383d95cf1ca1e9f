import { systemClock, type Clock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { ConfigError, type LeaseholdError } from '../errors.ts';
import { refuseUnknown } from '../options.ts';
import { show } from '../show.ts';
import { checkJobName, checkPrefix, checkResourceName } from '../names.ts';
import type { OwnerIdentity } from '../owner.ts';
import type { StoreEvidence } from '../store/evidence.ts';
import type { StoreSurvey } from '../store/survey.ts';
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
import { checkSource, describeSource, type RedisSource } from './client.ts';
import { RedisConnection } from './connection.ts';
import { parseEndpoint, type Endpoint } from './endpoint.ts';
import { gatherEvidence, type Inquiry } from './evidence.ts';
import { recordKey } from './keys.ts';
import { listRecords } from './list.ts';
import { messageOf } from './message.ts';
import { acquireArgs, acquireReply, acquireScript } from './scripts/acquire.ts';
import { adoptArgs, adoptReply, adoptScript } from './scripts/adopt.ts';
import { cancelArgs, cancelReply, cancelScript } from './scripts/cancel.ts';
import { extendArgs, extendReply, extendScript } from './scripts/extend.ts';
import { forceReleaseArgs, forceReleaseReply, forceReleaseScript } from './scripts/force-release.ts';
import { historyArgs, historyReply, historyScript } from './scripts/history.ts';
import { readArgs, readReply, readScript } from './scripts/read.ts';
import { releaseArgs, releaseReply, releaseScript } from './scripts/release.ts';
import { noteSealArgs, noteSealReply, noteSealScript } from './scripts/note-seal.ts';
import { revokeArgs, revokeReply, revokeScript } from './scripts/revoke.ts';
import { ticksArgs, ticksReply, ticksScript } from './scripts/ticks.ts';
import { RedisSubscriber } from './subscriber.ts';
import { surveyStore } from './survey.ts';

/** Somebody waits for the first connection; and timers cannot hold much more. */
const MAX_CONNECT_TIMEOUT_MS = 3_600_000;

export interface RedisStoreOptions {
  /** The namespace: the first part of every key, and of every qualified name. Default `leasehold`. */
  readonly prefix?: string | undefined;
  /** How long calls wait for the first connection, and each connection for the server's first answer. Default 5 s. */
  readonly connectTimeout?: Duration | undefined;
  /**
   * Further servers that diagnosis asks, `<host>:<port>` each, with the credentials of this connection: those that no
   * server names, such as a former primary that nobody can reach from the new one. Default none.
   */
  readonly endpoints?: readonly string[] | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Leases in Redis 7.0 or later, or Valkey 7.2 or later. Connects on first use, with a connection of its own: from a URL,
 * from ioredis options, or from a client of ioredis (`Redis`, `Cluster`) or node-redis (`createClient`), which is
 * duplicated and otherwise left alone.
 *
 * While a slot of a Cluster moves to another node, the leases in it are extended as ever. The other calls for them wait
 * for its end, because their keys are not all in one place; they fail as unavailable if that takes more than a second or
 * two.
 *
 * Throws `ConfigError` for a connection that cannot be used, one with a `keyPrefix` among them.
 */
export function redisStore(connection: RedisSource, options: RedisStoreOptions = {}): RedisLeaseStore {
  return new RedisLeaseStore(connection, options);
}

export class RedisLeaseStore implements LeaseStore {
  readonly namespace: string;
  readonly description: string;
  readonly #source: RedisSource;
  readonly #endpoints: readonly Endpoint[];
  readonly #clock: Clock;
  readonly #connection: RedisConnection;
  readonly #subscriber: RedisSubscriber;

  constructor(connection: RedisSource, options: RedisStoreOptions = {}) {
    refuseUnknown(options, ['prefix', 'connectTimeout', 'endpoints', 'clock']);
    const { prefix = 'leasehold', connectTimeout = '5s', endpoints = [], clock = systemClock } = options;
    checkPrefix('prefix', prefix);
    checkSource(connection);
    const connectTimeoutMs = parseDuration('connectTimeout', connectTimeout);
    if (connectTimeoutMs < 1 || connectTimeoutMs > MAX_CONNECT_TIMEOUT_MS) {
      throw new ConfigError('connectTimeout', `is ${connectTimeout}: must be 1 ms to 1 h`);
    }
    if (!Array.isArray(endpoints)) throw new ConfigError('endpoints', `is ${show(endpoints)}: must be a list`);
    this.#endpoints = endpoints.map((each) => parseEndpoint('endpoints', each));
    this.#source = connection;
    this.#clock = clock;
    this.namespace = prefix;
    this.description = describeSource(connection);
    this.#connection = new RedisConnection(connection, this.description, { connectTimeoutMs, clock });
    this.#subscriber = new RedisSubscriber(this.#connection, this.description, { connectTimeoutMs, clock });
  }

  checkName(option: string, name: string): void {
    if (option === 'job') checkJobName(option, name);
    else checkResourceName(option, name);
  }

  connect(): Promise<void> {
    return this.#connection.ready();
  }

  /**
   * By INFO at the last connect. The age is `Infinity` where INFO is not permitted and on a Cluster: nothing is known
   * then, and nobody is to wait for a restart that did not happen.
   */
  get server(): LeaseStore['server'] {
    return this.#connection.server;
  }

  acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    const args = acquireArgs(this.#record(request.resource), request);
    return this.#connection.run(acquireScript, args, call, acquireReply, request);
  }

  async extend(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    if (items.length === 0) return [];
    await this.#connection.ready();
    if (this.#connection.isCluster === true) return this.#extendEach(items, call);
    return this.#extendTogether(items, call);
  }

  release(request: ReleaseRequest, call: StoreCall): Promise<ReleaseReply> {
    const args = releaseArgs(this.#record(request.resource), request);
    return this.#connection.run(releaseScript, args, call, releaseReply, request);
  }

  cancel(request: CancelRequest, call: StoreCall): Promise<CancelReply> {
    const args = cancelArgs(this.#record(request.resource), request);
    return this.#connection.run(cancelScript, args, call, cancelReply, request);
  }

  read(resource: string, call: StoreCall): Promise<LeaseRecord | null> {
    return this.#connection.run(readScript, readArgs(this.#record(resource)), call, readReply, resource);
  }

  adopt(request: AdoptRequest, call: StoreCall): Promise<AdoptReply> {
    const args = adoptArgs(this.#record(request.resource), request);
    return this.#connection.run(adoptScript, args, call, adoptReply, request);
  }

  revoke(request: RevokeRequest, call: StoreCall): Promise<RevokeReply> {
    const args = revokeArgs(this.#record(request.resource), request);
    return this.#connection.run(revokeScript, args, call, revokeReply, request);
  }

  forceRelease(request: ForceReleaseRequest, call: StoreCall): Promise<ForceReleaseReply> {
    const args = forceReleaseArgs(this.#record(request.resource), request);
    return this.#connection.run(forceReleaseScript, args, call, forceReleaseReply, request);
  }

  noteSeal(request: NoteSealRequest, call: StoreCall): Promise<void> {
    return this.#connection.run(
      noteSealScript,
      noteSealArgs(this.#record(request.resource), request),
      call,
      noteSealReply,
      request,
    );
  }

  /** A resource whose slot of a Cluster moves to another node meanwhile may be missed, or come twice. */
  list(call: StoreCall): AsyncIterable<{ readonly resource: string; readonly record: LeaseRecord }> {
    return listRecords(this.#connection, this.namespace, (resource) => this.read(resource, call), call);
  }

  /**
   * Of all servers that can be found: that of the resource, its replicas, those that Sentinel or the Cluster name, and
   * `endpoints`. Each of the others is asked by a short connection with the same credentials. See `redisDiagnosisAcl` for
   * the rights that it takes; without one of them that piece is `not-permitted`.
   */
  async evidence(resource: string, owner: OwnerIdentity | null, call: StoreCall): Promise<StoreEvidence> {
    this.#connection.refuseIfClosed();
    return gatherEvidence(this.#inquiry, this.#record(resource), owner, call);
  }

  /** As `evidence`, of the store as a whole: on a Cluster of each primary and its replicas. */
  async survey(call: StoreCall): Promise<StoreSurvey> {
    this.#connection.refuseIfClosed();
    return surveyStore(this.#inquiry, this.namespace, call);
  }

  async history(resource: string, limit: number, call: StoreCall): Promise<readonly HistoryEvent[]> {
    if (!(limit >= 1)) return [];
    const args = historyArgs(this.#record(resource), limit);
    return this.#connection.run(historyScript, args, call, historyReply, resource);
  }

  ticks(resource: string, job: string, call: StoreCall): Promise<readonly TickRecord[]> {
    return this.#connection.run(ticksScript, ticksArgs(this.#record(resource), job), call, ticksReply, resource);
  }

  onReconnect(listener: () => void): () => void {
    return this.#connection.onReconnect(listener);
  }

  /** Messages of other prefixes, and what is none, are dropped; so is what a listener throws. */
  subscribe(channel: string, listener: (message: StoreMessage) => void): Promise<() => Promise<void>> {
    return this.#subscriber.subscribe(channel, (text) => {
      const message = messageOf(this.namespace, text);
      if (message === undefined) return;
      try {
        listener(message);
      } catch {
        // Its own affair, and not a reason for the others to hear nothing.
      }
    });
  }

  close(): Promise<void> {
    this.#subscriber.close();
    return this.#connection.close();
  }

  get #inquiry(): Inquiry {
    return {
      ...{ connection: this.#connection, source: this.#source, endpoints: this.#endpoints, clock: this.#clock },
      address: this.description.replace(/^redis /, ''),
    };
  }

  #record(resource: string): string {
    return recordKey(this.namespace, resource);
  }

  #extendTogether(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    const records = items.map((item) => this.#record(item.resource));
    return this.#connection.run(extendScript, extendArgs(records, items), call, extendReply, {
      items,
      told: call.told,
    });
  }

  /**
   * One call for each lease, all sent before the first reply is awaited. `sent` is called once, before the first: for
   * what leaves later, a base that is too early is on the safe side.
   */
  async #extendEach(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    call.sent?.();
    const quiet: StoreCall = { timeoutMs: call.timeoutMs, told: call.told };
    const results = await Promise.allSettled(items.map((item) => this.#extendTogether([item], quiet)));
    const verdicts = results.map((result): ExtendVerdict =>
      result.status === 'fulfilled' && result.value[0] !== undefined ? result.value[0] : { verdict: 'unknown' },
    );
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined && results.every((result) => result.status === 'rejected')) {
      throw failed.reason as LeaseholdError;
    }
    return verdicts;
  }
}
