/** Connections to what a config names. What connects is made here alone. */

import type { ConnectionOptions as Tls } from 'node:tls';
import { ConfigError } from '@leasehold/core';
import type { RedisSource } from '@leasehold/core/redis';
import { Cluster, Redis } from 'ioredis';
import type { NodeSettings, RedisClusterSettings, RedisSettings, TlsSettings } from './config/settings.ts';
import { readTls } from './config/tls-files.ts';

type OptionsSettings = Exclude<RedisSettings, string | RedisClusterSettings>;

/** For `redisStore`, which makes connections of its own. Throws `ConfigError` for certificates and keys that cannot be used. */
export function sourceOf(redis: RedisSettings, detours?: Detours): RedisSource {
  if (typeof redis === 'string') return redis;
  // Only duplicated, so it never connects.
  if (redis.kind === 'cluster') return clusterOf(redis, { detours });
  return { ...optionsOf(redis), ...(detours !== undefined && { natMap: detours }) };
}

/** Where to connect instead of the addresses that sentinels and the nodes of a Cluster tell: by `host:port`. */
export type Detours = Readonly<Record<string, NodeSettings>>;

/** Of ioredis, for each node. */
interface CallOptions {
  readonly connectTimeout?: number;
  readonly commandTimeout?: number;
  readonly maxRetriesPerRequest?: number | null;
}

export interface ClientOptions {
  readonly calls?: CallOptions;
  /** Whether it tries again where it cannot connect. @default true */
  readonly isPatient?: boolean;
  /** Of a Cluster. */
  readonly detours?: Detours | undefined;
}

interface Access {
  readonly username?: string;
  readonly password?: string;
  readonly tls?: Tls;
}

/** Options of ioredis. */
interface NodeOptions extends Access, CallOptions {
  host?: string;
  port?: number;
  url?: string;
  sentinels?: NodeSettings[];
  name?: string;
  db?: number;
  sentinelUsername?: string;
  sentinelPassword?: string;
  sentinelTLS?: Tls;
  enableTLSForSentinelMode?: boolean;
}

/** A client that connects on its first use. Throws `ConfigError` for certificates and keys that cannot be used. */
export function clientOf(redis: RedisSettings, { calls = {}, isPatient = true }: ClientOptions = {}): Redis | Cluster {
  const options = { ...calls, lazyConnect: true as const, ...(isPatient ? {} : IMPATIENT) };
  if (typeof redis === 'string') return new Redis(redis, options);
  return redis.kind === 'cluster'
    ? clusterOf(redis, { calls, isPatient })
    : new Redis({ ...optionsOf(redis), ...options });
}

const IMPATIENT = { retryStrategy: () => null, sentinelRetryStrategy: () => null } as const;

/** What BullMQ takes for a connection, and how to end what it does not end itself. */
export interface QueueConnection {
  readonly connection: Cluster | (NodeOptions & { host: string });
  readonly close: () => Promise<unknown>;
}

export function queueConnectionOf(redis: RedisSettings, options: ClientOptions = {}): QueueConnection {
  const { calls = {}, isPatient = true } = options;
  if (typeof redis !== 'string' && redis.kind === 'cluster') {
    const client = clusterOf(redis, { calls: { ...calls, maxRetriesPerRequest: null }, isPatient });
    // BullMQ hears of its own connections. Without a listener ioredis prints.
    client.on('error', () => {});
    return { connection: client, close: async () => client.disconnect() };
  }
  const its: NodeOptions = typeof redis === 'string' ? { url: redis } : optionsOf(redis);
  const connection = { ...its, ...calls, ...(isPatient ? {} : IMPATIENT) };
  // Its type asks for a host, which is in the url or comes from the sentinels.
  return { connection: connection as NodeOptions & { host: string }, close: async () => {} };
}

function clusterOf(
  redis: RedisClusterSettings,
  { calls = {}, isPatient = true, detours }: ClientOptions = {},
): Cluster {
  const { nodes, username, password, tls } = redis;
  return new Cluster([...nodes], {
    ...(isPatient ? {} : { clusterRetryStrategy: () => null }),
    lazyConnect: true,
    ...(detours !== undefined && { natMap: { ...detours } }),
    redisOptions: { ...calls, ...access(username, password, tls) },
    // A certificate is for a name, not for what the name resolves to.
    ...(tls !== undefined && {
      dnsLookup: (address: string, done: (error: null, address: string) => void) => done(null, address),
    }),
  });
}

function optionsOf(redis: OptionsSettings): NodeOptions {
  const { db, username, password, tls } = redis;
  const its = { db, ...access(username, password, tls) };
  if (redis.kind === 'server') return { host: redis.host, port: redis.port, ...its };
  const { nodes, name, sentinelUsername, sentinelPassword, sentinelTls } = redis;
  return {
    sentinels: [...nodes],
    name,
    ...its,
    ...(sentinelUsername !== undefined && { sentinelUsername }),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    // Of ioredis the one is for the servers, the other for the sentinels.
    ...(tls !== undefined && { enableTLSForSentinelMode: true }),
    ...(tls !== undefined && sentinelTls && { sentinelTLS: tlsOf(tls) }),
  };
}

function access(username: string | undefined, password: string | undefined, tls: TlsSettings | undefined): Access {
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(tls !== undefined && { tls: tlsOf(tls) }),
  };
}

function tlsOf(settings: TlsSettings): Tls {
  const { pem, faults } = readTls(settings);
  const [fault] = faults;
  if (fault !== undefined) throw new ConfigError(`tls.${fault.part}`, fault.rule);
  const { servername } = settings;
  return { ...pem, ...(servername !== undefined && { servername }) };
}
