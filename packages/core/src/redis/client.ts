/**
 * What we need of a Redis client, structurally, so that no version's types appear in ours; and how our own connections are
 * made from what the user gave.
 */

import { ConfigError } from '../errors.ts';

/** A command object of ioredis. Only what is public there. */
export interface IoredisCommand {
  args: string[];
  readonly promise: Promise<unknown>;
  getKeys(): readonly (string | Buffer)[];
}

type IoredisCommandClass = new (
  name: string,
  args: string[],
  options: { readonly replyEncoding: 'utf8' },
) => IoredisCommand;

/** What `Redis` and `Cluster` of ioredis have in common, as far as we use it. */
export interface IoredisClient {
  readonly status: string;
  readonly isCluster?: boolean;
  readonly options: { readonly keyPrefix?: string | undefined };
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  // oxlint-disable-next-line typescript/no-explicit-any -- each event has other arguments
  on(event: string, listener: (...args: any[]) => void): unknown;
}

interface IoredisRedis extends IoredisClient {
  sendCommand(command: IoredisCommand): unknown;
  duplicate(overrides: Readonly<Record<string, unknown>>): IoredisRedis;
}

interface IoredisCluster extends IoredisClient {
  readonly startupNodes?: readonly unknown[];
  duplicate(startupNodes: readonly never[], overrides: Readonly<Record<string, unknown>>): IoredisCluster;
}

/** `redis://…` or `rediss://…`, an ioredis options object, or an ioredis `Redis` or `Cluster` (which is only duplicated). */
export type RedisSource = string | IoredisClient | Readonly<Record<string, unknown>>;

interface IoredisModule {
  /** What comes first wins. */
  readonly Redis: new (options: Readonly<Record<string, unknown>>, url?: string) => IoredisRedis;
  readonly Command: IoredisCommandClass;
}

async function importIoredis(): Promise<IoredisModule> {
  try {
    return (await import('ioredis')) as unknown as IoredisModule;
  } catch (error) {
    throw new ConfigError('store', 'ioredis is not installed; add ioredis 5.4 or later to your dependencies', error);
  }
}

export function isClient(source: unknown): source is IoredisClient {
  const client = source as Partial<IoredisClient> | null;
  return (
    typeof client === 'object' &&
    client !== null &&
    typeof client.call === 'function' &&
    typeof client.on === 'function'
  );
}

/** Throws `ConfigError` for what cannot be made a connection of. */
export function checkSource(source: unknown): asserts source is RedisSource {
  if (typeof source === 'string') {
    if (!URL.canParse(source) || !/^rediss?:$/.test(new URL(source).protocol)) {
      throw new ConfigError('connection', 'is no URL of the form redis://host:port or rediss://host:port');
    }
    refuseKeyPrefix(new URL(source).searchParams.get('keyPrefix'));
    return;
  }
  if (typeof source !== 'object' || source === null) {
    throw new ConfigError('connection', `must be a URL, ioredis options or an ioredis client, not ${typeof source}`);
  }
  if (!isClient(source) && typeof (source as { readonly sendCommand?: unknown }).sendCommand === 'function') {
    throw new ConfigError(
      'connection',
      'is a client of another library; give a URL, ioredis options or an ioredis client',
    );
  }
  refuseKeyPrefix((isClient(source) ? source.options : (source as { readonly keyPrefix?: unknown })).keyPrefix);
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
  if (isClient(source) && source.isCluster === true) {
    const nodes = ((source as IoredisCluster).startupNodes ?? []).map((node) => describeAddress(node));
    return `redis cluster ${nodes.join(',')}`;
  }
  const options = (isClient(source) ? source.options : source) as {
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

/** Our own connection: the client, and the leanest way that it has to send a command. */
export interface OwnClient {
  readonly client: IoredisClient;
  /** Sends one command whose arguments are strings; the promise settles when the client says so. */
  send(command: string, args: string[]): Promise<unknown>;
}

/**
 * Makes a client of our own that never replays anything: what was not answered is for the engine to repeat or to
 * withdraw, and an acquire that leaves an offline queue after its caller gave up is a lease without an owner. Not
 * connected yet.
 */
export async function ownClient(source: RedisSource, connectTimeoutMs: number): Promise<OwnClient> {
  const overrides = {
    connectTimeout: connectTimeoutMs,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // Its ready check prints a warning where INFO is not permitted; `connection.ts` has its own.
    enableReadyCheck: false,
    enableAutoPipelining: false,
    autoResubscribe: false,
    keepAlive: 10_000,
    noDelay: true,
    retryStrategy: retryDelayMs,
    reconnectOnError: null,
    // We have deadlines of our own, and these two would replay or cut.
    commandTimeout: null,
    socketTimeout: undefined,
    // How long a half-closed socket may linger once we have given it up.
    disconnectTimeout: 500,
    keyPrefix: '',
    readOnly: false,
    replyMapping: undefined,
    stringNumbers: false,
    monitor: undefined,
  };
  if (isClient(source) && source.isCluster === true) {
    const { retryStrategy: _, ...redisOptions } = overrides;
    const cluster = (source as IoredisCluster).duplicate([], {
      lazyConnect: true,
      enableOfflineQueue: false,
      enableAutoPipelining: false,
      clusterRetryStrategy: retryDelayMs,
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      scaleReads: 'master',
      keyPrefix: '',
      redisOptions,
    });
    return { client: cluster, send: (command, args) => cluster.call(command, ...args) };
  }
  if (isClient(source)) return lean((source as IoredisRedis).duplicate(overrides));
  const { Redis } = await importIoredis();
  return lean(typeof source === 'string' ? new Redis(overrides, source) : new Redis({ ...source, ...overrides }));
}

/** Short, capped, and not the same for everybody. */
function retryDelayMs(times: number): number {
  return Math.min(50 * 2 ** Math.min(times - 1, 5), 1000) * (0.8 + 0.4 * Math.random());
}

/**
 * `client.call` without its detours. The arguments are put in after the constructor, which would flatten and convert an
 * array that is flat and of strings already; that alone is a tenth of a round trip.
 */
function lean(client: IoredisRedis): OwnClient {
  const { Command } = client.constructor as unknown as { readonly Command?: IoredisCommandClass };
  if (Command === undefined) return { client, send: (command, args) => client.call(command, ...args) };
  const none: string[] = [];
  const options = { replyEncoding: 'utf8' } as const;
  return {
    client,
    send(name, args) {
      const command = new Command(name, none, options);
      command.args = args;
      client.sendCommand(command);
      return command.promise;
    },
  };
}

/** The keys among a command's arguments, as ioredis knows its commands. */
export async function keysOfCommand(name: string, args: string[]): Promise<readonly string[]> {
  const { Command } = await importIoredis();
  return new Command(name, args, { replyEncoding: 'utf8' }).getKeys().map(String);
}
