// A one-row update in a transaction, through the fence and without it.
import { postgresFence } from '@leasehold/core/postgres';
import pg from 'pg';

import { inFlight, type Side } from '../side.ts';

export interface PostgresSetup {
  readonly url: string;
  readonly variant: 'floor' | 'fence.write' | 'guardSql' | 'select 1';
}

const UPDATE = 'update accounts set balance = balance + 1 where id = $1';

const wallUs = (): number => Math.round((performance.timeOrigin + performance.now()) * 1000);

export async function open({ url, variant }: PostgresSetup): Promise<Side> {
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  const ledger = postgresFence(pool);
  const grant = { resource: 'bench/a', fencingToken: wallUs(), leaseId: `bench-${variant.replaceAll(/\W/g, '-')}` };

  async function transaction(place: number, ...first: readonly string[]): Promise<void> {
    const client = await pool.connect();
    await client.query('begin');
    for (const sql of first) await client.query(sql);
    await client.query(UPDATE, [place]);
    await client.query('commit');
    client.release();
  }
  const ways: Readonly<Record<PostgresSetup['variant'], (place: number) => Promise<unknown>>> = {
    floor: (place) => transaction(place),
    'fence.write': (place) => ledger.write(grant, (tx) => tx.query(UPDATE, [place])),
    guardSql: (place) => transaction(place, ledger.guardSql(grant)),
    'select 1': (place) => transaction(place, 'select 1'),
  };
  return {
    /** Each round under the newest token, so that variants do not refuse one another. */
    async activate(): Promise<void> {
      grant.fencingToken = wallUs();
      await ledger.activate(grant);
    },
    async slice({ count, width }: { readonly count: number; readonly width: number }): Promise<number[]> {
      const tookUs: number[] = [];
      await inFlight(width, count, ways[variant], tookUs);
      return tookUs;
    },
    close: () => pool.end(),
  };
}
