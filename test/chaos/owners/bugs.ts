import type { Fence, Lease } from '@leasehold/core';
import type { WriteTag } from '@leasehold/core/testing/history';
import type pg from 'pg';

import type { Owner } from './owner.ts';
import type { BugName } from './setup.ts';

type Tx = pg.PoolClient;

/** How a broken owner differs from a good one. */
export interface Bug {
  readonly fence?: (fence: Fence<Tx>, pool: pg.Pool) => Fence<Tx>;
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
  'no-fence': { write: ({ body, pool }) => inTransaction(pool, body) },
  'false-token': {
    write: ({ owner, lease, body, tag }) => {
      const grant = { ...lease.grant, fencingToken: lease.fencingToken + 60_000_000 };
      return owner.fence.write(grant, body, tag);
    },
  },
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
