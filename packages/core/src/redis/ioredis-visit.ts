/** Short connections through ioredis to servers that are not the store's own. */

import type { Visit } from './client.ts';
import { endpointOf, type Endpoint } from './endpoint.ts';
import {
  givenName,
  importIoredis,
  isIoredis,
  overridesOf,
  type IoredisClient,
  type IoredisCluster,
  type IoredisRedis,
} from './ioredis.ts';

type Source = string | IoredisClient | Readonly<Record<string, unknown>>;

/** The sentinels of a source, if it is found through them. */
export interface Sentinels {
  readonly group: string;
  readonly endpoints: readonly Endpoint[];
  /** Where an address that they name is reached from here. */
  translate(endpoint: Endpoint): Endpoint;
}

/** See `visitOf`. */
export async function ioredisVisit(
  source: Source,
  to: Endpoint | undefined,
  connectTimeoutMs: number,
): Promise<Visit | undefined> {
  const overrides = { ...overridesOf(connectTimeoutMs, givenName(source)), ...ONCE };
  const { Redis } = await importIoredis();
  if (to === undefined) {
    if (isIoredis(source) && source.isCluster === true) return undefined;
    if (typeof source === 'string') return visit(new Redis({ ...overrides, db: 0 }, source));
    return visit(new Redis({ ...optionsOf(source), ...overrides, db: 0 }));
  }
  const there = { ...overrides, ...to, path: null, sentinels: null, natMap: null, Connector: null, db: 0 };
  if (typeof source === 'string') return visit(new Redis(there, source));
  const options = optionsOf(source);
  // Sentinels have a switch of their own for whether the servers behind them are spoken to by TLS.
  const isPlain = Array.isArray(options['sentinels']) && options['enableTLSForSentinelMode'] !== true;
  return visit(new Redis({ ...options, ...there, ...(isPlain && { tls: null }) }));
}

/** To a sentinel, by its own credentials. */
export async function sentinelVisit(source: Source, to: Endpoint, connectTimeoutMs: number): Promise<Visit> {
  const { sentinelUsername, sentinelPassword, sentinelTLS } = optionsOf(source);
  const { Redis } = await importIoredis();
  const credentials = { username: sentinelUsername ?? null, password: sentinelPassword ?? null, tls: sentinelTLS };
  return visit(new Redis({ ...overridesOf(connectTimeoutMs, undefined), ...ONCE, ...to, ...credentials }));
}

export function sentinelsOf(source: Source): Sentinels | undefined {
  const { sentinels, name, natMap } = optionsOf(source);
  if (!Array.isArray(sentinels) || typeof name !== 'string') return undefined;
  const endpoints = (sentinels as readonly { readonly host?: unknown; readonly port?: unknown }[]).map(
    ({ host = 'localhost', port = 26_379 }) => endpointOf(host, port),
  );
  return {
    group: name,
    endpoints: endpoints.filter((each) => each !== undefined),
    translate(endpoint) {
      const key = `${endpoint.host}:${endpoint.port}`;
      const mapped: unknown =
        typeof natMap === 'function'
          ? (natMap as (key: string) => unknown)(key)
          : (natMap as Readonly<Record<string, unknown>> | null | undefined)?.[key];
      const { host, port } = (mapped ?? {}) as { readonly host?: unknown; readonly port?: unknown };
      return endpointOf(host, port) ?? endpoint;
    },
  };
}

/** The addresses that a Cluster was told to begin with. */
export function startupEndpoints(source: Source): readonly Endpoint[] {
  if (!isIoredis(source) || source.isCluster !== true) return [];
  const nodes = (source as IoredisCluster).startupNodes ?? [];
  return nodes.map((node) => startupEndpoint(node)).filter((each) => each !== undefined);
}

function startupEndpoint(node: unknown): Endpoint | undefined {
  if (typeof node === 'number') return endpointOf('127.0.0.1', node);
  if (typeof node === 'string') {
    const url = URL.canParse(node) ? new URL(node) : undefined;
    return url?.hostname ? endpointOf(url.hostname.replace(/^\[|\]$/g, ''), url.port || 6379) : undefined;
  }
  const { host = '127.0.0.1', port = 6379 } = (node ?? {}) as { readonly host?: unknown; readonly port?: unknown };
  return endpointOf(host, port);
}

const ONCE = { retryStrategy: null, sentinelRetryStrategy: null } as const;

/** What ioredis was given for a connection to a server of this source. */
function optionsOf(source: Source): Readonly<Record<string, unknown>> {
  if (typeof source === 'string') return {};
  if (!isIoredis(source)) return source;
  if (source.isCluster !== true) return source.options;
  const { startupNodes, options } = source as IoredisCluster;
  const first: unknown = startupNodes?.find((node) => typeof node === 'object' && node !== null);
  return { ...(first as object | undefined), ...options.redisOptions };
}

function visit(client: IoredisRedis): Visit {
  // Comes beside the failure of what was asked, and says more than that the connection is closed.
  let trouble: unknown;
  client.on('error', (error: unknown) => (trouble ??= error));
  return {
    send: (command, args) => client.call(command, ...args),
    connect: () => client.connect().catch((error: unknown) => Promise.reject((trouble ?? error) as Error)),
    disconnect: () => client.disconnect(),
  };
}
