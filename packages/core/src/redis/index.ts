export { redisStore, RedisLeaseStore, type RedisStoreOptions } from './store.ts';
export { redisFence, RedisFence, type RedisEvalOptions, type RedisFenceOptions } from './fence.ts';
export { redisAcl, redisDiagnosisAcl, type RedisAclOptions, type RedisDiagnosisAclOptions } from './acl.ts';
export { fenceKey, keysOfResource } from './keys.ts';
export type { Handle, RedisTx } from './transaction.ts';
export type { RedisSource } from './client.ts';
export type { IoredisClient } from './ioredis.ts';
export type { NodeRedisClient } from './node-redis.ts';
