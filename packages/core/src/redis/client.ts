/**
 * What we need of a Redis client, structurally, so that no version's types appear in ours; and how our own connections are
 * made from what the user gave.
 */

import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';
import type { Endpoint } from './endpoint.ts';
import { ioredisClient, isIoredis, type IoredisClient, type IoredisCluster } from './ioredis.ts';
import { ioredisVisit } from './ioredis-visit.ts';
import { isNodeRedis, nodeRedisClient, nodeRedisOptions, nodeRedisVisit, type NodeRedisClient } from './node-redis.ts';

/** Sends one command whose arguments are strings; the promise settles when the client says so. */
export type Send = (command: string, args: string[]) => Promise<unknown>;

/** Our own connection, whatever the library. It reconnects by itself, and replays nothing. */
export interface OwnClient {
  readonly isCluster: boolean;
  /** Whether there is a connection, or one being made. */
  isOpen(): boolean;
  /** `connect`, `ready`, `close`, `end` without arguments; `error` and `node error` with the error. */
  on(event: 'connect' | 'ready' | 'close' | 'end', listener: () => void): void;
  on(event: 'error' | 'node error', listener: (error: unknown) => void): void;
  connect(): Promise<void>;
  /** With `reconnect` it gives only this physical connection up. */
  disconnect(reconnect?: boolean): void;
  send: Send;
  /** The way to each node that has data of its own. */
  nodes(): readonly Send[];
  /** A connection that listens, made like this one, to any of the nodes. Not connected yet. */
  ear(hear: (channel: string, message: string) => void): Ear;
  /** Who serves a key, as far as it is known here; undefined where a Cluster has nobody for it. */
  serving(key: string): Serving | undefined;
  /** Each server that has data of its own: one, or the primaries of a Cluster. */
  everyServing(): readonly Serving[];
}

/** The server that a key belongs to. */
export interface Serving {
  readonly send: Send;
  /** `127.0.0.1:6379`. */
  readonly address: string;
  /** Its replicas, on a Cluster. */
  readonly others: readonly Endpoint[];
}

/** A connection to one server, for a few questions to it that read no keys. It lives once and does not reconnect. */
export interface Visit {
  readonly send: Send;
  /** Once signed in. */
  connect(): Promise<void>;
  disconnect(): void;
}

/** A connection that listens to channels. It lives once and does not reconnect. */
export interface Ear {
  /** Called once when it has ended, also if it never connected. */
  onClose(listener: () => void): void;
  connect(): Promise<void>;
  disconnect(): void;
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ping(): Promise<unknown>;
}

/**
 * `redis://…` or `rediss://…`, an ioredis options object, an ioredis `Redis` or `Cluster`, or what `createClient` of
 * node-redis returns. A client is only duplicated.
 */
export type RedisSource = string | IoredisClient | NodeRedisClient | Readonly<Record<string, unknown>>;

/** Throws `ConfigError` for what cannot be made a connection of. */
export function checkSource(source: unknown): asserts source is RedisSource {
  if (typeof source === 'string') {
    if (!URL.canParse(source) || !/^rediss?:$/.test(new URL(source).protocol)) {
      throw new ConfigError('connection', 'is no URL of the form redis://host:port or rediss://host:port');
    }
    const { searchParams, pathname } = new URL(source);
    refuseKeyPrefix(searchParams.get('keyPrefix'));
    checkDatabase(searchParams.get('db') ?? (pathname.slice(1) || undefined));
    return;
  }
  if (typeof source !== 'object' || source === null) {
    throw new ConfigError('connection', `must be a URL, ioredis options or an ioredis client, not ${typeof source}`);
  }
  if (isNodeRedis(source)) {
    refuseKeyPrefix(nodeRedisOptions(source).keyPrefix);
    return;
  }
  if (!isIoredis(source) && typeof (source as { readonly sendCommand?: unknown }).sendCommand === 'function') {
    throw new ConfigError(
      'connection',
      'is a client that cannot be used; give a URL, ioredis options, a Redis or Cluster of ioredis, or what createClient of node-redis returns',
    );
  }
  if (!isIoredis(source)) checkDatabase((source as { readonly db?: unknown }).db);
  refuseKeyPrefix((isIoredis(source) ? source.options : (source as { readonly keyPrefix?: unknown })).keyPrefix);
}

/** The client would go on in database 0. */
function checkDatabase(db: unknown): void {
  if (db === undefined || db === null) return;
  if ((typeof db === 'string' || typeof db === 'number') && /^\d{1,9}$/.test(`${db}`)) return;
  throw new ConfigError('connection', `names the database ${show(db)}: must be a whole number`);
}

function refuseKeyPrefix(keyPrefix: unknown): void {
  if (keyPrefix === undefined || keyPrefix === null || keyPrefix === '') return;
  throw new ConfigError('connection', "has a keyPrefix; remove it and use Leasehold's own option `prefix` instead");
}

/** `redis 127.0.0.1:6379`, never with credentials. */
export function describeSource(source: RedisSource): string {
  if (typeof source === 'string') {
    const { hostname, port, pathname } = new URL(source);
    return `redis ${hostname || 'localhost'}:${port || '6379'}${pathname.length > 1 ? pathname : ''}`;
  }
  if (isNodeRedis(source)) {
    const { socket = {}, database = 0 } = nodeRedisOptions(source);
    return `redis ${describeAddress(socket)}${database === 0 ? '' : `/${database}`}`;
  }
  if (isIoredis(source) && source.isCluster === true) {
    const nodes = ((source as IoredisCluster).startupNodes ?? []).map((node) => describeAddress(node));
    return `redis cluster ${nodes.join(',')}`;
  }
  const options = (isIoredis(source) ? source.options : source) as {
    readonly sentinels?: unknown;
    readonly name?: unknown;
    readonly db?: unknown;
  };
  const { sentinels, name, db } = options;
  if (Array.isArray(sentinels)) return `redis sentinel ${typeof name === 'string' ? name : ''}`;
  return `redis ${describeAddress(options)}${typeof db === 'number' && db !== 0 ? `/${db}` : ''}`;
}

function describeAddress(node: unknown): string {
  if (typeof node === 'number') return `localhost:${node}`;
  if (typeof node === 'string') {
    const url = URL.canParse(node) ? new URL(node) : undefined;
    return url?.hostname ? `${url.hostname}:${url.port || '6379'}` : node.slice(node.lastIndexOf('@') + 1);
  }
  const { path, host, port } = node as { readonly path?: unknown; readonly host?: unknown; readonly port?: unknown };
  if (typeof path === 'string') return path;
  return `${typeof host === 'string' ? host : 'localhost'}:${typeof port === 'number' || typeof port === 'string' ? port : 6379}`;
}

/** A client of our own, made of what the user gave. Not connected yet. */
export async function ownClient(source: RedisSource, connectTimeoutMs: number): Promise<OwnClient> {
  return isNodeRedis(source) ? nodeRedisClient(source, connectTimeoutMs) : ioredisClient(source, connectTimeoutMs);
}

/**
 * To another server than the store's, with the same credentials; without an endpoint to the store's. Undefined where there
 * is no such one: a Cluster has many.
 */
export async function visitOf(
  source: RedisSource,
  to: Endpoint | undefined,
  connectTimeoutMs: number,
): Promise<Visit | undefined> {
  return isNodeRedis(source)
    ? nodeRedisVisit(source, to, connectTimeoutMs)
    : ioredisVisit(source, to, connectTimeoutMs);
}
