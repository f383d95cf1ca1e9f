import type { TestProject } from 'vitest/node';

import { services, tools } from '../../scripts/services/binaries.mjs';
import { cleanUp } from '../../scripts/services/guard.mjs';
import { ensure } from '../../scripts/services/obtain.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { startRedis } from '../../scripts/services/redis.mjs';
import { buildPrograms, ensurePrograms } from './build-programs.ts';
import { buildCommand } from './built-command.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** The shared Redis. Servers to hurt are started by `startRedis` of redis-server.ts. */
    redisUrl: string;
    /** The shared PostgreSQL, a superuser's URL. Tables go into a database of the test: `createDatabase` of postgres.ts. */
    postgresUrl: string;
  }
}

/** One Redis and one PostgreSQL for all files, and the command built. `npm test` has said where the programs are; else they are looked for here. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const paths = await ensure(['redis', 'postgres', ...tools], { optional: tools });
  const { redis: binary, postgres: bin } = paths;
  if (binary === undefined || bin === undefined) throw new Error('no redis-server or no PostgreSQL');
  // Read by the worker processes, which inherit them.
  process.env[services.redis.variable] = binary;
  process.env[services.postgres.variable] = bin;
  for (const tool of tools) {
    const path = paths[tool];
    if (path !== undefined) process.env[services[tool].variable] = path;
  }

  try {
    const [redis, postgres] = await Promise.all([
      startRedis({ binary }),
      startPostgres({ bin }),
      project.name === 'services' ? buildCommand() : undefined,
      ensurePrograms(),
    ]);
    project.provide('redisUrl', redis.url);
    project.provide('postgresUrl', postgres.url);
  } catch (error) {
    await cleanUp();
    throw error;
  }
  project.onTestsRerun(buildPrograms);
  return cleanUp;
}
