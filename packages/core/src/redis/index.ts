export { redisStore, RedisLeaseStore, type RedisStoreOptions } from './store.ts';
export type { RedisSource } from './client.ts';
