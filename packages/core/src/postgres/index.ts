export { postgresFence, PostgresFence, type PostgresFenceOptions } from './fence.ts';
export { installSchema } from './install.ts';
export { schemaSql, type SchemaOptions } from './schema.ts';
export {
  schemaStatus,
  type FenceRow,
  type ProtectedTable,
  type SchemaStatus,
  type SchemaStatusOptions,
} from './status.ts';
export type { PostgresClient, TxOf } from './client.ts';
export type { PgPool, PgPoolClient } from './pg.ts';
export type { PGliteLike } from './pglite.ts';
export type { PostgresJs } from './postgres-js.ts';
