import { systemClock } from '../clock.ts';
import { driverOf, type PostgresClient } from './client.ts';
import { schemaSql, type SchemaOptions } from './schema.ts';

/**
 * Installs the tables and functions of the fence, or what of them is missing. May be called again, and by several
 * processes at once. The role needs CREATE on the database, or on a schema of this name that is there.
 *
 * Rejects with the client's own error, and has then changed nothing.
 */
export async function installSchema(client: PostgresClient, options: SchemaOptions = {}): Promise<void> {
  const sql = schemaSql(options);
  await driverOf(client, systemClock).run(sql);
}
