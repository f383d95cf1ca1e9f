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

const sharedSchema = z.strictObject({
  manager: z.custom<LeaseManager>(
    (value) => typeof (value as Partial<LeaseManager> | null)?.tryRun === 'function',
    'must be a LeaseManager',
  ),
});

/** Throws `ConfigError` for options that cannot work. */
export function managerOf(options: ManagerSource): { readonly manager: LeaseManager; readonly isOurs: boolean } {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError('options', 'are missing; give a connection, or a manager');
  }
  if ('manager' in options) return { manager: parseOptions(sharedSchema, options).manager, isOurs: false };
  const { connection, prefix, ...others } = options;
  if (connection === undefined) {
    throw new ConfigError('connection', 'is missing; give the URL of a Redis, a client, or a manager');
  }
  const store = redisStore(connection, prefix === undefined ? {} : { prefix });
  return { manager: new LeaseManager({ ...others, store }), isOurs: true };
}
