import type { Fence, LeaseStore } from '@leasehold/core';
import type { WriteTag } from '@leasehold/core/testing/history';
import type pg from 'pg';

import type { BugName } from './setup.ts';
import type { Owner } from './owner.ts';
import type { Lease } from '@leasehold/core';

type Tx = pg.PoolClient;

/** How a broken owner differs from a good one. */
export interface Bug {
  readonly fence?: (fence: Fence<Tx>, pool: pg.Pool) => Fence<Tx>;
  readonly store?: (store: LeaseStore) => LeaseStore;
  readonly isDeaf?: boolean;
  readonly write?: (its: {
    readonly owner: Owner;
    readonly lease: Lease;
    readonly body: (tx: Tx) => Promise<void>;
    readonly pool: pg.Pool;
    readonly tag: WriteTag;
  }) => Promise<void>;
}

const bugs: Record<BugName, Bug> = {
  'open-fence': {
    fence: (fence, pool) => ({
      name: fence.name,
      enforcing: true,
      activate: (grant) => fence.activate(grant).catch(() => {}),
      write: (_, body) => inTransaction(pool, body),
      seal: (resource, token) => fence.seal(resource, token),
      highest: (resource) => fence.highest(resource),
    }),
  },
  deaf: {
    isDeaf: true,
    // A write that says that its lease was looked at, when it was not.
    write: ({ owner, lease, body, tag }) => {
      const blind = { grant: lease.grant, assertHeld: () => {}, holding: { mayWrite: () => true, refused: () => {} } };
      return owner.fence.write(blind, body, tag);
    },
  },
  immortal: {
    store: (store) =>
      new Proxy(store, {
        get(target, name) {
          if (name === 'extend') {
            return async (...[items, call]: Parameters<LeaseStore['extend']>) => {
              const verdicts = await target.extend(items, call);
              return verdicts.map((verdict, index) =>
                verdict.verdict === 'lost'
                  ? { verdict: 'extended' as const, remainingMs: items[index]?.ttlMs ?? 0 }
                  : verdict,
              );
            };
          }
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === 'function' ? (value.bind(target) as unknown) : value;
        },
      }),
  },
  'no-fence': { write: ({ body, pool }) => inTransaction(pool, body) },
};

export function bugOf(name: BugName | null): Bug {
  return name === null ? {} : bugs[name];
}

async function inTransaction<T>(pool: pg.Pool, body: (tx: Tx) => T | Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const value = await body(client);
    await client.query('commit');
    return value;
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  } finally {
    client.release();
  }
}
