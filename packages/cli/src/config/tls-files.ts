import { accessSync, constants } from 'node:fs';

import type { Path, Problem } from './problem.ts';
import { isPem } from './redis-url.ts';
import type { RedisSettings, Settings } from './settings.ts';
import type { Source } from './source.ts';

/** What is wrong with the files of certificates and keys, on this machine: where a config is only checked they need not be. */
export function problemsOfTls({ store, fences, jobs }: Settings, source: Source): readonly Problem[] {
  const problems = problemsOfRedis(store.redis, ['store', 'redis'], source);
  for (const [name, fence] of fences) {
    if (fence.kind === 'redis') problems.push(...problemsOfRedis(fence.redis, ['fences', name, 'redis'], source));
  }
  for (const job of jobs) {
    if (job.kind !== 'queue' || job.connection === store.redis) continue;
    problems.push(...problemsOfRedis(job.connection, ['jobs', job.name, 'connection'], source));
  }
  return problems;
}

export function problemsOfRedis(redis: RedisSettings, path: Path, source: Source): Problem[] {
  const tls = typeof redis === 'string' ? undefined : redis.tls;
  if (tls === undefined) return [];
  const problems: Problem[] = [];
  for (const key of ['ca', 'cert', 'key'] as const) {
    const file = tls[key];
    if (file === undefined || isPem(file)) continue;
    try {
      accessSync(file, constants.R_OK);
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      const at = [...path, 'tls', key];
      // Not the path: it may be the environment's, or a key in a form that is no PEM.
      problems.push(source.problem(at, `names a file that cannot be read: ${code}`, 'it is relative to the config'));
    }
  }
  return problems;
}
