import { systemClock, type Clock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { ConfigError, type LeaseholdError } from '../errors.ts';
import { checkJobName, checkPrefix, checkResourceName } from '../names.ts';
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
} from '../store/store.ts';
import { checkSource, describeSource, type RedisSource } from './client.ts';
import { RedisConnection } from './connection.ts';
import { recordKey } from './keys.ts';
import { acquireArgs, acquireReply, acquireScript } from './scripts/acquire.ts';
import { cancelArgs, cancelReply, cancelScript } from './scripts/cancel.ts';
import { extendArgs, extendReply, extendScript } from './scripts/extend.ts';
import { readArgs, readReply, readScript } from './scripts/read.ts';
import { releaseArgs, releaseReply, releaseScript } from './scripts/release.ts';

export interface RedisStoreOptions {
  /** The namespace: the first part of every key, and of every qualified name. Default `leasehold`. */
  readonly prefix?: string | undefined;
  /** How long calls wait for the first connection, and each connection for the server's first answer. Default 5 s. */
  readonly connectTimeout?: Duration | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Leases in Redis 7.0 or later, or Valkey 7.2 or later. Connects on first use, with a connection of its own: from a URL,
 * from ioredis options, or from an ioredis `Redis` or `Cluster`, which is duplicated and otherwise left alone.
 *
 * Throws `ConfigError` for a connection that cannot be used, one with a `keyPrefix` among them.
 */
export function redisStore(connection: RedisSource, options: RedisStoreOptions = {}): RedisLeaseStore {
  return new RedisLeaseStore(connection, options);
}

export class RedisLeaseStore implements LeaseStore {
  readonly namespace: string;
  readonly description: string;
  readonly #connection: RedisConnection;

  constructor(connection: RedisSource, options: RedisStoreOptions = {}) {
    const { prefix = 'leasehold', connectTimeout = '5s', clock = systemClock } = options;
    checkPrefix('prefix', prefix);
    checkSource(connection);
    const connectTimeoutMs = parseDuration('connectTimeout', connectTimeout);
    if (connectTimeoutMs === 0) throw new ConfigError('connectTimeout', 'is 0; calls need a moment to connect');
    this.namespace = prefix;
    this.description = describeSource(connection);
    this.#connection = new RedisConnection(connection, this.description, { connectTimeoutMs, clock });
  }

  checkName(option: string, name: string): void {
    if (option === 'job') checkJobName(option, name);
    else checkResourceName(option, name);
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

  onReconnect(listener: () => void): () => void {
    return this.#connection.onReconnect(listener);
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #record(resource: string): string {
    return recordKey(this.namespace, resource);
  }

  #extendTogether(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    const records = items.map((item) => this.#record(item.resource));
    return this.#connection.run(extendScript, extendArgs(records, items), call, extendReply, items);
  }

  /**
   * One call for each lease, all sent before the first reply is awaited. `sent` is called once, before the first: for
   * what leaves later, a base that is too early is on the safe side.
   */
  async #extendEach(items: readonly ExtendItem[], call: StoreCall): Promise<readonly ExtendVerdict[]> {
    call.sent?.();
    const quiet: StoreCall = { timeoutMs: call.timeoutMs };
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
