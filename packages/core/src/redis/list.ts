import { ForeignKeyError, StoreUnavailableError } from '../errors.ts';
import type { LeaseRecord, StoreCall } from '../store/store.ts';
import type { RedisConnection } from './connection.ts';
import { recordKey, resourceOf } from './keys.ts';

/** How many keys the server looks at in one step, give or take. */
const STEP = '250';

/** The records of a prefix: SCAN on each node that has data, and the records it finds read together. */
export async function* listRecords(
  connection: RedisConnection,
  prefix: string,
  read: (resource: string) => Promise<LeaseRecord | null>,
  call: StoreCall,
): AsyncGenerator<{ readonly resource: string; readonly record: LeaseRecord }> {
  const client = await connection.client();
  // No character of a prefix means anything in a pattern.
  const pattern = recordKey(prefix, '*');
  for (const node of client.nodes()) {
    let cursor = '0';
    do {
      const args = [cursor, 'MATCH', pattern, 'COUNT', STEP, 'TYPE', 'hash'];
      const [next, keys] = scanned(await connection.ask(node, 'scan', args, call));
      const records = await Promise.all(keys.map((key) => ours(prefix, key, read)));
      for (const found of records) if (found !== undefined) yield found;
      cursor = next;
    } while (cursor !== '0');
  }
}

function scanned(reply: unknown): readonly [string, readonly string[]] {
  if (!Array.isArray(reply) || !Array.isArray(reply[1]))
    throw new StoreUnavailableError('gave no usable answer to scan', { mayHaveRun: false });
  return [String(reply[0]), reply[1].map(String)];
}

async function ours(
  prefix: string,
  key: string,
  read: (resource: string) => Promise<LeaseRecord | null>,
): Promise<{ readonly resource: string; readonly record: LeaseRecord } | undefined> {
  const resource = resourceOf(prefix, key);
  if (resource === undefined || recordKey(prefix, resource) !== key) return undefined;
  try {
    const record = await read(resource);
    return record === null ? undefined : { resource, record };
  } catch (error) {
    if (error instanceof ForeignKeyError) return undefined;
    throw error;
  }
}
