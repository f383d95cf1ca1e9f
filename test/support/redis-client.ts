import { randomUUID } from 'node:crypto';
import { Redis, type RedisOptions } from 'ioredis';

/** A client for the test's own questions: it connects before it is returned and fails fast. */
export async function connectRedis(
  url: string,
  options: Omit<RedisOptions, 'replyMapping'> = {},
): Promise<Redis & AsyncDisposable> {
  const client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 1, ...options });
  client.on('error', () => {}); // every call reports its own failure
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: async () => client.disconnect() });
}

/** Keeps tests apart that share a server. */
export const uniqueName = (base = 'test'): string => `${base}-${randomUUID().slice(0, 8)}`;
