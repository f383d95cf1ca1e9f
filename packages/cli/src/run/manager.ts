import { LeaseManager, type LeaseStore } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import type { Logger } from 'pino';

import type { Settings } from '../config/settings.ts';
import { hostOf } from '../connection.ts';
import { sourceOf } from '../redis.ts';
import { withoutRepeats } from './repeats.ts';

/** The manager of all jobs of a config, on the Redis that it names or another store. */
export function managerOf(
  { store: its, jobs, timing }: Settings,
  log: Logger,
  given: LeaseStore | undefined,
): LeaseManager {
  const { redis, prefix, endpoints, connectTimeoutMs, history, quarantine } = its;
  const options = { prefix, endpoints: endpoints.map(hostOf), connectTimeout: connectTimeoutMs };
  const store = given ?? redisStore(sourceOf(redis), options);
  // The shortest lease decides how soon the store is missed.
  const ttl = Math.min(...jobs.map(({ lease }) => lease.ttlMs));
  const logger = withoutRepeats(log);
  const manager = new LeaseManager({
    store,
    history,
    quarantine,
    logger,
    ...timing,
    ...(ttl < Infinity ? { ttl } : {}),
  });
  // One for each job that runs in threads.
  manager.setMaxListeners(0);
  return manager;
}
