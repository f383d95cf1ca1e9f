import type { FenceCheck } from '@leasehold/core/diagnosis';
import type { RedisSettings, Settings } from '../config/settings.ts';

/** Somebody waits for the answer. */
const TIMEOUT_MS = 3000;

/** The fences of a config, each with what is known of its place. They are closed behind `body`. */
export async function withCheckedFences<T>(
  fences: Settings['fences'],
  body: (checks: readonly FenceCheck[]) => Promise<T>,
): Promise<T> {
  if (fences.size === 0) return body([]);
  const [{ openFence }, { pino }] = await Promise.all([import('../run/fences.ts'), import('pino')]);
  // What a fence has to say is in its answer.
  const log = pino({ level: 'silent' });
  const opened = await Promise.all([...fences].map(([name, its]) => openFence(name, its, log)));
  try {
    return await body(
      opened.map(({ fence, status, settings }) => ({
        fence,
        status,
        servers: settings.kind === 'redis' ? () => serversOf(settings.redis) : undefined,
      })),
    );
  } finally {
    await Promise.allSettled(opened.map(({ close }) => close()));
  }
}

async function serversOf(redis: RedisSettings): ReturnType<NonNullable<FenceCheck['servers']>> {
  const [{ redisStore }, { sourceOf }] = await Promise.all([import('@leasehold/core/redis'), import('../redis.ts')]);
  const store = redisStore(sourceOf(redis), { connectTimeout: TIMEOUT_MS });
  try {
    return (await store.survey({ timeoutMs: TIMEOUT_MS })).servers;
  } finally {
    await store.close();
  }
}
