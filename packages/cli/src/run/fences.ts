import { ConfigError, type Fence } from '@leasehold/core';
import { postgresFence, schemaStatus, type SchemaStatus } from '@leasehold/core/postgres';
import { redisFence } from '@leasehold/core/redis';
import type pg from 'pg';
import type { Logger } from 'pino';

import type { FenceSettings } from '../config/settings.ts';
import { clientOf } from '../redis.ts';

/** A fence and the client that was made for it. */
export interface OpenFence {
  readonly settings: FenceSettings;
  readonly fence: Fence;
  readonly close: () => Promise<unknown>;
  /** What of it is installed, where something has to be. */
  readonly status?: () => Promise<SchemaStatus>;
}

/** Connects at its first use. Rejects with `ConfigError` for what cannot work. */
export async function openFence(name: string, settings: FenceSettings, log: Logger): Promise<OpenFence> {
  const itsLog = log.child({ fence: name });
  return settings.kind === 'redis' ? openRedis(name, settings, itsLog) : openPostgres(name, settings, itsLog);
}

type Kind<K extends FenceSettings['kind']> = Extract<FenceSettings, { readonly kind: K }>;

function openRedis(name: string, settings: Kind<'redis'>, log: Logger): OpenFence {
  const { redis, timeoutMs } = settings;
  const client = clientOf(redis);
  // Each call of the fence says so by itself. Without a listener ioredis prints.
  client.on('error', (err) => log.debug({ err }, 'the connection of the fence failed'));
  const fence = redisFence(client, { name, timeout: timeoutMs });
  return { settings, fence, close: async () => client.disconnect() };
}

async function openPostgres(name: string, settings: Kind<'postgres'>, log: Logger): Promise<OpenFence> {
  const { url, schema, isolation, timeoutMs, idleTimeoutMs, lockTimeoutMs } = settings;
  const { Pool } = await importPg(`fences.${name}`);
  const pool = new Pool({ connectionString: url });
  pool.on('error', (err) => log.debug({ err }, 'an idle connection of the fence failed'));
  try {
    const times = { timeout: timeoutMs, idleTimeout: idleTimeoutMs, lockTimeout: lockTimeoutMs };
    const fence = postgresFence(pool, { name, schema, isolation, ...times });
    const status = (): Promise<SchemaStatus> => schemaStatus(pool, { schema, limit: 0 });
    return { settings, fence, status, close: () => pool.end() };
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/** Only who has such a fence needs it. Rejects with `ConfigError` for `option` where it is not installed. */
export async function importPg(option: string): Promise<Pick<typeof pg, 'Pool'>> {
  try {
    return (await import('pg')).default;
  } catch (error) {
    throw new ConfigError(option, 'needs the package pg, which cannot be loaded; npm install pg', error);
  }
}

/**
 * What a handler is given: the fences of its job by name. Each other fence of the config, null in `all`, is there as well, to say what is
 * missing when it is asked for; it is not listed.
 */
export function fencesOfJob(
  job: string,
  all: ReadonlyMap<string, Fence | null>,
): { readonly list: readonly Fence[]; readonly byName: object } {
  const byName = Object.create(null) as Record<string, Fence>;
  const list: Fence[] = [];
  for (const [name, fence] of all) {
    if (fence !== null) {
      list.push(fence);
      Object.defineProperty(byName, name, { value: fence, enumerable: true });
      continue;
    }
    Object.defineProperty(byName, name, {
      get: () => {
        throw new ConfigError(
          `jobs.${job}.lease.fences`,
          `does not name '${name}', so it is not activated for this job; add it there`,
        );
      },
    });
  }
  return { list, byName };
}
