import { ConfigError, LeaseManager, parseOptions, type LeaseManagerOptions } from '@leasehold/core';
import { redisStore, type RedisSource } from '@leasehold/core/redis';
import { z } from 'zod';

/** A manager that is yours, and that nobody here closes. */
type SharedManager = { readonly manager: LeaseManager } & { readonly [K in keyof OwnManager]?: never };

/** A manager of its own, with these options: closed by whoever made it. */
interface OwnManager extends Omit<LeaseManagerOptions, 'store'> {
  /** A URL, ioredis' options, or a client of ioredis, which stays yours: its settings are used, not its connection. */
  readonly connection: RedisSource;
  /** The namespace of the leases. @default 'leasehold' */
  readonly prefix?: string;
}

/** Where leases come from: a `manager`, or a `connection` for one of its own. */
export type ManagerSource = SharedManager | OwnManager;

// A record, so that none is forgotten.
const managerOptions: Record<keyof Omit<LeaseManagerOptions, 'store'>, true> = {
  ttl: true,
  refreshRatio: true,
  safetyMargin: true,
  driftRate: true,
  callTimeout: true,
  activateTimeout: true,
  maxHold: true,
  owner: true,
  history: true,
  quarantine: true,
  linger: true,
  logger: true,
  clock: true,
};
const OF_MANAGER: ReadonlySet<string> = new Set(Object.keys(managerOptions));

const sharedSchema = z.strictObject({
  manager: z.custom<LeaseManager>(
    (value) => typeof (value as Partial<LeaseManager> | null)?.tryRun === 'function',
    'must be a LeaseManager',
  ),
});

/** Throws `ConfigError` for options that cannot work; `others` are those that may stand beside them. */
export function managerOf(
  options: ManagerSource,
  others: readonly string[] = [],
): { readonly manager: LeaseManager; readonly isOurs: boolean } {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('options', 'are missing; give a connection, or a manager');
  }
  if ('manager' in options) return { manager: parseOptions(sharedSchema, options).manager, isOurs: false };
  const { connection, prefix, ...rest } = options;
  const unknown = Object.keys(rest).find((option) => !OF_MANAGER.has(option));
  if (unknown !== undefined) {
    const known = [...others, 'manager', 'connection', 'prefix', ...OF_MANAGER];
    throw new ConfigError(unknown, `is not an option here; there are ${known.join(', ')}`);
  }
  if (connection === undefined) {
    throw new ConfigError('connection', 'is missing; give the URL of a Redis, a client, or a manager');
  }
  const store = redisStore(connection, prefix === undefined ? {} : { prefix });
  return { manager: new LeaseManager({ ...rest, store }), isOurs: true };
}
