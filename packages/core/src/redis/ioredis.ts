/** Connections of our own through ioredis, and what we need of it, structurally. */

import { ConfigError } from '../errors.ts';
import type { Ear, OwnClient, Send, Serving } from './client.ts';
import { endpointOf, endpointText } from './endpoint.ts';
import { ownName } from './own-name.ts';
import { slotOf } from './slot.ts';

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
  /** The socket, another one after each reconnection. The nodes of a Cluster have one each. */
  readonly stream?: unknown;
  call(command: string, ...args: string[]): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  // oxlint-disable-next-line typescript/no-explicit-any -- each event has other arguments
  on(event: string, listener: (...args: any[]) => void): unknown;
}

export interface IoredisRedis extends IoredisClient {
  readonly options: IoredisClient['options'] & {
    readonly host?: string | undefined;
    readonly port?: number | undefined;
    readonly path?: unknown;
    readonly connectionName?: unknown;
  };
  sendCommand(command: IoredisCommand): unknown;
  once(event: string, listener: () => void): unknown;
  duplicate(overrides: Readonly<Record<string, unknown>>): IoredisRedis;
}

export interface IoredisCluster extends IoredisClient {
  readonly options: IoredisClient['options'] & {
    readonly redisOptions?: Readonly<Record<string, unknown>> | undefined;
  };
  readonly startupNodes?: readonly unknown[];
  /** By slot the nodes that serve it as `host:port`, the primary first. */
  readonly slots?: readonly (readonly string[] | undefined)[];
  nodes(role: 'master'): readonly IoredisRedis[];
  duplicate(startupNodes: readonly never[], overrides: Readonly<Record<string, unknown>>): IoredisCluster;
}

interface IoredisModule {
  /** What comes first wins. */
  readonly Redis: new (options: Readonly<Record<string, unknown>>, url?: string) => IoredisRedis;
  readonly Command: IoredisCommandClass;
}

export async function importIoredis(): Promise<IoredisModule> {
  try {
    return (await import('ioredis')) as unknown as IoredisModule;
  } catch (error) {
    throw new ConfigError('store', 'ioredis is not installed; add ioredis 5.4 or later to your dependencies', error);
  }
}

export function isIoredis(source: unknown): source is IoredisClient {
  const client = source as Partial<IoredisClient> | null;
  return (
    typeof client === 'object' &&
    client !== null &&
    typeof client.call === 'function' &&
    typeof client.on === 'function'
  );
}

/** Options of a connection that never replays anything. `name` is what the user calls theirs. */
export function overridesOf(connectTimeoutMs: number, name: unknown): Readonly<Record<string, unknown>> {
  return {
    // The client ignores it if that is not permitted.
    connectionName: ownName(name),
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
}

/**
 * Makes a client of our own that never replays anything: what was not answered is for the engine to repeat or to
 * withdraw, and an acquire that leaves an offline queue after its caller gave up is a lease without an owner. Not
 * connected yet.
 */
export async function ioredisClient(
  source: string | IoredisClient | Readonly<Record<string, unknown>>,
  connectTimeoutMs: number,
): Promise<OwnClient> {
  const overrides = overridesOf(connectTimeoutMs, givenName(source));
  if (isIoredis(source) && source.isCluster === true) {
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
    connectEarly(cluster);
    const ways: Ways = {
      serving: (key) => servingOf(cluster, cluster.slots?.[slotOf(key)]),
      everyServing: () => everyServingOf(cluster),
    };
    return owned(cluster, clusterSend(cluster), () => cluster.nodes('master'), overrides, ways);
  }
  let client: IoredisRedis;
  let send: Send;
  if (isIoredis(source)) {
    client = (source as IoredisRedis).duplicate(overrides);
    const ours = await importIoredis().catch(() => undefined);
    // There may be several versions of it in one process.
    send = ours !== undefined && client instanceof ours.Redis ? lean(client, ours.Command) : calling(client);
  } else {
    const { Redis, Command } = await importIoredis();
    client = typeof source === 'string' ? new Redis(overrides, source) : new Redis({ ...source, ...overrides });
    send = lean(client, Command);
  }
  const serving = (): Serving => ({ send, address: peerOf(client), others: [] });
  return owned(client, send, () => [client], overrides, { serving, everyServing: () => [serving()] });
}

/** What the user calls their connections, if they do. */
export function givenName(source: string | IoredisClient | Readonly<Record<string, unknown>>): unknown {
  if (typeof source === 'string') return new URL(source).searchParams.get('connectionName');
  if (!isIoredis(source)) return source['connectionName'];
  if (source.isCluster === true) return (source as IoredisCluster).options.redisOptions?.['connectionName'];
  return (source as IoredisRedis).options.connectionName;
}

/** A Cluster client connects to a node for its first command, which would have to wait for it. */
function connectEarly(cluster: IoredisCluster): void {
  // Not at once: the client, or who found the node, is about to use it. Before it is ready it must be left alone.
  const connect = (): void =>
    void setImmediate(() => {
      if (cluster.status !== 'ready') return;
      for (const node of cluster.nodes('master')) if (node.status === 'wait') node.connect().catch(() => {});
    });
  cluster.on('ready', connect);
  cluster.on('+node', connect);
}

/**
 * Without an offline queue a Cluster client refuses commands for a node that it is just connecting to; so they wait for
 * it. What has no key goes to any node.
 */
function clusterSend(cluster: IoredisCluster): Send {
  return (command, args) => {
    const nodes = cluster.nodes('master');
    // What follows EVAL and EVALSHA: the script, the number of keys, the keys.
    const [, , key] = args;
    if (key === undefined)
      return (nodes.find(({ status }) => status === 'ready') ?? anyOf(nodes)).call(command, ...args);
    const owner = cluster.slots?.[slotOf(key)]?.[0];
    const node = nodes.find((each) => addressOf(each) === owner);
    if (node?.status !== 'connecting' && node?.status !== 'connect') return cluster.call(command, ...args);
    return opened(node).then(() => cluster.call(command, ...args));
  };
}

/** Resolves when the node is connected, or will not be. */
function opened(node: IoredisRedis): Promise<void> {
  const known = opening.get(node);
  if (known !== undefined) return known;
  const promise = new Promise<void>((resolve) => {
    for (const event of ['ready', 'close', 'end']) node.once(event, resolve);
  });
  opening.set(node, promise);
  return promise;
}

const opening = new WeakMap<IoredisRedis, Promise<void>>();

function nodeAt(cluster: IoredisCluster, address: string | undefined): IoredisRedis | undefined {
  return cluster.nodes('master').find((node) => addressOf(node) === address);
}

type Ways = Pick<OwnClient, 'serving' | 'everyServing'>;

/** Of a part of the slots: the address of the primary, and of its replicas. */
function servingOf(cluster: IoredisCluster, addresses: readonly string[] | undefined): Serving | undefined {
  const [owner, ...replicas] = addresses ?? [];
  const node = nodeAt(cluster, owner);
  if (owner === undefined || node === undefined) return undefined;
  const others = replicas.map((each) => {
    const colon = each.lastIndexOf(':');
    return endpointOf(each.slice(0, colon), each.slice(colon + 1));
  });
  return {
    address: owner,
    others: others.filter((each) => each !== undefined),
    async send(command, args) {
      if (node.status === 'connecting' || node.status === 'connect') await opened(node);
      return node.call(command, ...args);
    },
  };
}

function everyServingOf(cluster: IoredisCluster): readonly Serving[] {
  const ranges = Object.values(cluster.slots ?? []).filter((each) => each !== undefined);
  const byOwner = new Map(ranges.map((addresses) => [addresses[0] ?? '', addresses]));
  return [...byOwner.values()].map((each) => servingOf(cluster, each)).filter((each) => each !== undefined);
}

/** Whom it is connected to; before that what it was told. */
function peerOf(client: IoredisRedis): string {
  const { remoteAddress, remotePort } = (client.stream ?? {}) as {
    readonly remoteAddress?: string;
    readonly remotePort?: number;
  };
  const { host = 'localhost', port = 6379, path } = client.options;
  if (typeof path === 'string') return path;
  return endpointText({ host: remoteAddress?.replace(/^::ffff:/, '') ?? host, port: remotePort ?? port });
}

function anyOf(nodes: readonly IoredisRedis[]): IoredisRedis {
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  if (node === undefined) throw new Error('no node of the Cluster is known');
  return node;
}

function addressOf(node: IoredisRedis): string {
  const { host, port } = node.options;
  return `${host}:${port}`;
}

function owned(
  client: IoredisClient,
  send: Send,
  nodes: () => readonly IoredisRedis[],
  overrides: Readonly<Record<string, unknown>>,
  ways: Ways,
): OwnClient {
  return {
    ...ways,
    isCluster: client.isCluster === true,
    isOpen: () => client.status === 'connecting' || client.status === 'connect' || client.status === 'ready',
    on: (event, listener) => void client.on(event, listener),
    connect: () => client.connect(),
    disconnect: (reconnect) => client.disconnect(reconnect),
    send,
    nodes: () => nodes().map((node) => calling(node)),
    ear(hear) {
      return earOf(anyOf(nodes()).duplicate({ ...overrides, retryStrategy: null }), hear);
    },
  };
}

function earOf(client: IoredisRedis, hear: (channel: string, message: string) => void): Ear {
  client.on('message', hear);
  // Every call of ours reports its own failure.
  client.on('error', () => {});
  return {
    onClose: (listener) => void client.on('end', listener),
    connect: () => client.connect(),
    disconnect: () => client.disconnect(),
    subscribe: (channel) => client.call('subscribe', channel),
    unsubscribe: (channel) => client.call('unsubscribe', channel),
    ping: () => client.call('ping'),
  };
}

/** Short, capped, and not the same for everybody. */
export function retryDelayMs(times: number): number {
  return Math.min(50 * 2 ** Math.min(times - 1, 5), 1000) * (0.8 + 0.4 * Math.random());
}

/**
 * `client.call` without its detours. The arguments are put in after the constructor, which would flatten and convert an
 * array that is flat and of strings already; that alone is a tenth of a round trip.
 */
function lean(client: IoredisRedis, Command: IoredisCommandClass): Send {
  const none: string[] = [];
  const options = { replyEncoding: 'utf8' } as const;
  return (name, args) => {
    const command = new Command(name, none, options);
    command.args = args;
    client.sendCommand(command);
    return command.promise;
  };
}

function calling(client: IoredisClient): Send {
  return (command, args) => client.call(command, ...args);
}

/** The keys among a command's arguments, as ioredis knows its commands. */
export async function keysOfCommand(name: string, args: string[]): Promise<readonly string[]> {
  const { Command } = await importIoredis();
  return new Command(name, args, { replyEncoding: 'utf8' }).getKeys().map(String);
}
