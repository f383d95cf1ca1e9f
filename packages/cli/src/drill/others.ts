import { fenceKey } from '@leasehold/core/redis';
import type { Redis } from 'ioredis';
import type { RedisSettings } from '../config/settings.ts';
import { clientOf } from '../redis.ts';
import { DRILL_PREFIX } from './scratch.ts';

/** Enough to be named. */
const ENOUGH = 3;
const STEP = 500;
const CALLS = { connectTimeout: 3000, commandTimeout: 10_000, maxRetriesPerRequest: 1 } as const;

/** A lease of somebody else. */
export interface OtherLease {
  /** `prefix:{resource}` */
  readonly key: string;
  readonly owner: string;
}

/**
 * Leases of any prefix that are held in this store now, a few of them. Only reads: the names of keys, and of those that may be a record
 * its owner and its expiry. What may not be read is passed over. Rejects if the store cannot be asked.
 */
export async function heldByOthers(redis: RedisSettings): Promise<readonly OtherLease[]> {
  const client = clientOf(redis, { calls: CALLS, isPatient: false });
  client.on('error', () => {});
  const found: OtherLease[] = [];
  try {
    await client.connect();
    const nodes = 'nodes' in client ? client.nodes('master') : [client];
    for (const node of nodes) {
      for await (const other of heldAt(node)) {
        found.push(other);
        if (found.length === ENOUGH) return found;
      }
    }
    return found;
  } finally {
    client.disconnect();
  }
}

const FENCE = fenceKey('').slice(0, -1);

async function* heldAt(node: Redis): AsyncGenerator<OtherLease, void, undefined> {
  const [seconds = '0'] = (await node.time()).map(String);
  const nowUs = Number(seconds) * 1e6;
  for (let cursor = '0', isFirst = true; isFirst || cursor !== '0'; isFirst = false) {
    const [next, keys] = await node.scan(cursor, 'MATCH', '*:{*}', 'COUNT', STEP, 'TYPE', 'hash');
    cursor = next;
    const records = keys.filter((key) => !key.startsWith(`${DRILL_PREFIX}:`) && !key.startsWith(FENCE));
    const pipeline = node.pipeline();
    for (const key of records) pipeline.hmget(key, 'owner', 'term', 'lease_id');
    const replies = records.length === 0 ? [] : ((await pipeline.exec()) ?? []);
    for (const [index, [, reply]] of replies.entries()) {
      const [owner, term, leaseId] = Array.isArray(reply) ? (reply as (string | null)[]) : [];
      if (owner && leaseId && Number(term?.split(' ').at(-1)) > nowUs) yield { key: records[index] ?? '', owner };
    }
  }
}
