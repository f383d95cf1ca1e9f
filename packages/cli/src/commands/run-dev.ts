import { MemoryLeaseStore, type LeaseStore } from '@leasehold/core';
import type { Logger } from 'pino';
import type { LoadedConfig } from '../config/load.ts';
import type { FenceSettings, JobSettings } from '../config/settings.ts';
import { addressOf } from '../connection.ts';
import { CliError, EXIT } from '../exit.ts';
import type { Io } from '../output/io.ts';
import { isReachable, PrivateRedis } from './private-redis.ts';

/** What `leasehold run --dev` runs. */
export interface DevConfig extends AsyncDisposable {
  readonly config: LoadedConfig;
  /** Instead of that of the config. */
  readonly store?: LeaseStore;
}

/**
 * The config, if its Redis answers. Else the same on a Redis of this process alone; or, where none is installed, its cron and interval jobs on
 * a store in memory.
 */
export async function devConfig(config: LoadedConfig, { env }: Io, log: Logger): Promise<DevConfig> {
  if (env['NODE_ENV'] === 'production') {
    throw new CliError(EXIT.usage, '--dev may run on leases that no other process sees, and NODE_ENV is production');
  }
  const { redis } = config.settings.store;
  const address = addressOf(redis);
  if (await isReachable(redis)) return { config, [Symbol.asyncDispose]: async () => {} };
  const server = await PrivateRedis.start(env);
  if (server !== undefined) {
    log.warn(
      { redis: server.url },
      `${address} does not answer: a private redis-server, which keeps nothing, stands in`,
    );
    return { config: moved(config, server.url), [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
  }
  const { jobs } = config.settings;
  const left = jobs.filter(({ kind }) => kind === 'queue').map(({ name }) => name);
  if (left.length === jobs.length) {
    throw new CliError(EXIT.unreachable, `${address} does not answer, there is no redis-server, and all jobs need one`);
  }
  log.warn(
    { leftOut: left },
    `${address} does not answer, and there is no redis-server: leases are in memory, for this process alone${left.length > 0 ? '; jobs of queues are left out' : ''}`,
  );
  const settings = { ...config.settings, jobs: jobs.filter(({ kind }) => kind !== 'queue') };
  return { config: { ...config, settings }, store: new MemoryLeaseStore(), [Symbol.asyncDispose]: async () => {} };
}

/** All that is on the Redis of the store. What is elsewhere stays. */
function moved(config: LoadedConfig, to: string): LoadedConfig {
  const { settings } = config;
  const from = settings.store.redis;
  const job = (its: JobSettings): JobSettings =>
    its.kind === 'queue' && its.connection === from ? { ...its, connection: to } : its;
  const fence = (its: FenceSettings): FenceSettings =>
    its.kind === 'redis' && its.redis === from ? { ...its, redis: to } : its;
  return {
    ...config,
    settings: {
      ...settings,
      store: { ...settings.store, redis: to },
      fences: new Map([...settings.fences].map(([name, its]) => [name, fence(its)])),
      jobs: settings.jobs.map(job),
    },
  };
}
