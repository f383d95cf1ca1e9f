import { fenceKey, keysOfResource } from '@leasehold/core/redis';
import type { Cluster, Redis } from 'ioredis';
import type { RedisSettings } from '../config/settings.ts';
import { clientOf } from '../redis.ts';
import { importPg } from '../run/fences.ts';
import type { LedgerEntry } from './drill-fence.ts';
import type { DrillFence } from './messages.ts';
import { DRILL_PREFIX, ledgerKey, qualifiedScratch, scratchFenceKey } from './scratch.ts';

/** Somebody waits. */
const CALLS = { connectTimeout: 3000, commandTimeout: 5000, maxRetriesPerRequest: 1 } as const;

/** Reads what a drill has written, and removes it: by exact names alone. */
export class Cleaner implements AsyncDisposable {
  readonly #store: Redis | Cluster;
  /** Where the ledger is, if the fence is one of Redis. */
  readonly #ledger: Redis | Cluster | undefined;
  readonly #fence: DrillFence;
  readonly #resources = new Set<string>();

  constructor(redis: RedisSettings, fence: DrillFence) {
    this.#fence = fence;
    this.#store = quiet(clientOf(redis, { calls: CALLS }));
    if (fence.kind === 'scratch') this.#ledger = this.#store;
    else if (fence.kind === 'configured' && fence.settings.kind === 'redis') {
      this.#ledger = quiet(clientOf(fence.settings.redis, { calls: CALLS }));
    }
  }

  /** To be called before anything of this resource can be written. */
  expect(resource: string): void {
    this.#resources.add(resource);
  }

  /** What the fence has accepted, in its order; undefined for fences that keep no ledger. */
  async ledger(resource: string): Promise<readonly LedgerEntry[] | undefined> {
    const rows = await this.#ledger?.lrange(ledgerKey(resource, this.#fence.kind === 'scratch'), 0, -1);
    return rows?.map((row) => JSON.parse(row) as LedgerEntry);
  }

  /** As if the data of the store had been lost, for this resource alone. Returns whether there was a record. */
  async loseRecord(resource: string): Promise<number> {
    const [record = ''] = keysOfResource(DRILL_PREFIX, resource);
    return this.#store.del(record);
  }

  /** Everything of a resource. Rejects if something could not be removed; what is left is named in the error. */
  async remove(resource: string): Promise<void> {
    if (!this.#resources.has(resource)) return;
    const own = this.#fence.kind === 'scratch' ? [scratchFenceKey(resource), ledgerKey(resource, true)] : [];
    await this.#store.del(...keysOfResource(DRILL_PREFIX, resource), ...own);
    if (this.#fence.kind === 'configured') {
      await this.#ledger?.del(fenceKey(qualifiedScratch(resource)), ledgerKey(resource, false));
      await this.#removeRow(resource);
    }
    this.#resources.delete(resource);
  }

  /** Whether something may still be there. */
  get hasLeft(): boolean {
    return this.#resources.size > 0;
  }

  /** All that is left. Returns the names of what could not be removed. */
  async removeAll(): Promise<readonly string[]> {
    const left: string[] = [];
    for (const resource of this.#resources) {
      await this.remove(resource).catch((error: unknown) => left.push(`${resource} (${(error as Error).message})`));
    }
    return left;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of new Set([this.#store, this.#ledger])) client?.disconnect();
  }

  async #removeRow(resource: string): Promise<void> {
    if (this.#fence.kind !== 'configured' || this.#fence.settings.kind !== 'postgres') return;
    const { name, settings } = this.#fence;
    const { Pool } = await importPg(`fences.${name}`);
    const pool = new Pool({ connectionString: settings.url, max: 1 });
    // Each call says so by itself.
    pool.on('error', () => {});
    try {
      // A row that is deleted lets in every old grant of its resource; of this name there will be no other.
      await pool.query(`delete from "${settings.schema}".fence where resource = $1`, [qualifiedScratch(resource)]);
    } finally {
      await pool.end();
    }
  }
}

function quiet<T extends Redis | Cluster>(client: T): T {
  client.on('error', () => {});
  return client;
}
