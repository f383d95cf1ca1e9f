import { ConfigError, LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

interface Shared {
  readonly manager: LeaseManager;
  users: number;
}

export interface SharedManager {
  readonly manager: LeaseManager;
  /** Begins one use. What it returns ends it; the last one closes the manager. */
  join(): (force: boolean) => Promise<void>;
}

/** For what the manager itself has under way. */
const LAST_CALLS_MS = 2000;

/** Of node-postgres; ioredis says `username` and `db`. */
const POSTGRES_OPTIONS = ['connectionString', 'database', 'user'] as const;

const shared = new WeakMap<object, Shared>();

/**
 * The manager of a worker that was given none: one for each `connection`, however many workers have it, on connections of
 * its own. BullMQ's connection is no place for leases: a command there outlives an outage and is carried out much later.
 * It connects to nothing before its first lease.
 */
export function shareManager(connection: unknown): SharedManager {
  checkConnection(connection);
  const its = shared.get(connection) ?? {
    manager: new LeaseManager({ store: redisStore(sourceOf(connection)) }),
    users: 0,
  };
  shared.set(connection, its);
  return { manager: its.manager, join: () => join(connection, its) };
}

function join(connection: object, its: Shared): (force: boolean) => Promise<void> {
  its.users++;
  let left: Promise<void> | undefined;
  return (force) => (left ??= leave(connection, its, force));
}

async function leave(connection: object, its: Shared, force: boolean): Promise<void> {
  if (--its.users > 0) return;
  shared.delete(connection);
  // The jobs have ended, were abandoned, or (forced) are waited for by nobody: their leases run out.
  await its.manager.close({ grace: force ? 0 : LAST_CALLS_MS, abandonAfter: 0 });
}

/** Refuses what `redisStore` would take for options of ioredis. */
function checkConnection(connection: unknown): asserts connection is Readonly<Record<string, unknown>> {
  if (typeof connection !== 'object' || connection === null) throw missing('is no Redis client and no options for one');
  const its = connection as Readonly<Record<string, unknown>>;
  const has = (...methods: readonly string[]): boolean => methods.every((name) => typeof its[name] === 'function');
  if (has('runCommand')) throw missing('is a client that was wrapped for BullMQ');
  if (has('duplicate')) {
    if (!has('call') && !has('sendCommand', 'destroy')) throw missing('is a client of neither ioredis nor node-redis');
  } else if (has('query') || POSTGRES_OPTIONS.some((name) => name in connection)) {
    throw missing('is one to PostgreSQL');
  }
}

function missing(because: string): ConfigError {
  return new ConfigError(
    'lease.manager',
    `is missing, and none can be made from the connection of this worker, which ${because}; pass a LeaseManager`,
  );
}

/** BullMQ takes a `url` among ioredis' options, which ioredis does not; as there, what the URL says comes first. */
function sourceOf(connection: Readonly<Record<string, unknown>>): Parameters<typeof redisStore>[0] {
  const { url, ...options } = connection;
  if (typeof url !== 'string' || 'call' in connection) return connection;
  const { protocol, hostname, port, username, password, pathname, searchParams } = new URL(url);
  return {
    ...options,
    ...Object.fromEntries(searchParams),
    host: hostname.replace(/^\[|\]$/g, ''),
    ...(port !== '' && { port: Number(port) }),
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    ...(pathname.length > 1 && { db: Number(pathname.slice(1)) }),
    ...(protocol === 'rediss:' && { tls: options['tls'] ?? {} }),
  };
}
