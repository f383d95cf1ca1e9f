import type { TestProject } from 'vitest/node';

import { services } from '../../scripts/services/binaries.mjs';
import { cleanUp } from '../../scripts/services/guard.mjs';
import { ensure } from '../../scripts/services/obtain.mjs';
import { startRedis } from '../../scripts/services/redis.mjs';

/** One Redis for the tests of one version. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const { redis: binary } = await ensure(['redis']);
  if (binary === undefined) throw new Error('no redis-server');
  process.env[services.redis.variable] = binary;
  const redis = await startRedis({ binary });
  project.provide('redisUrl', redis.url);
  return cleanUp;
}
