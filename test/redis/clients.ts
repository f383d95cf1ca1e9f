import { redisStore, type RedisSource, type RedisStoreOptions } from '@leasehold/core/redis';
import { createClient } from 'redis';
import { onTestFinished } from 'vitest';

/** By what a store can be connected: the same must hold for each. */
export const clients: readonly (readonly [string, (url: string) => RedisSource])[] = [
  ['ioredis', (url) => url],
  ['node-redis', (url) => createClient({ url, RESP: 2 })],
];

/** A store that is closed after the test. */
export function storeOn(source: RedisSource, options: RedisStoreOptions = {}) {
  const store = redisStore(source, options);
  // Not a hook of this module: files that share a process load it once.
  onTestFinished(() => store.close());
  return store;
}

/** Settles with the error, and how long it took. */
export async function failing(work: Promise<unknown>): Promise<{ error: Error & Record<string, unknown>; ms: number }> {
  const began = performance.now();
  try {
    await work;
  } catch (error) {
    return { error: error as Error & Record<string, unknown>, ms: performance.now() - began };
  }
  throw new Error('it did not fail');
}
