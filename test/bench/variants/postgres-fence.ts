// A one-row update in a transaction, through the fence, with parts of it, and without it.
import { postgresFence } from '@leasehold/core/postgres';
import pg from 'pg';

import { inFlight, type Side } from '../side.ts';

export interface PostgresSetup {
  readonly url: string;
  readonly variant:
    | 'floor'
    | 'fence.write'
    | 'guardSql'
    | 'by hand'
    | 'select 1'
    | 'select 1 with begin'
    | 'lock with begin'
    | 'prepared lock with begin';
}

const UPDATE = 'update accounts set balance = balance + 1 where id = $1';
const BEGIN = 'begin isolation level read committed read write';
const LOCK = 'select from leasehold.fence where resource = $1 and token = $2 and lease_id = $3 for share';

const wallUs = (): number => Math.round((performance.timeOrigin + performance.now()) * 1000);

export async function open({ url, variant }: PostgresSetup): Promise<Side> {
  const pool = new pg.Pool({ connectionString: url, max: 10 });
  const ledger = postgresFence(pool);
  const grant = { resource: 'bench/a', fencingToken: wallUs(), leaseId: `bench-${variant.replaceAll(/\W/g, '-')}` };
  if (variant === 'prepared lock with begin') {
    pool.on('connect', (client) => void client.query(`prepare bench_lock (text, bigint, text) as ${LOCK}`));
  }

  async function transaction(
    place: number,
    first: readonly string[],
    last: (begun: unknown) => string = () => 'commit',
  ): Promise<void> {
    const client = await pool.connect();
    let begun: unknown;
    for (const sql of first) begun = await client.query(sql);
    await client.query(UPDATE, [place]);
    await client.query(last(begun));
    client.release();
  }
  /** What `fence.write` sends. */
  function byHand(place: number): Promise<void> {
    const guard = ledger.guardSql(grant).replace('.guard(', '.guard_write(');
    return transaction(place, [`${BEGIN}; ${guard}`], (begun) => {
      const [, { rows }] = begun as readonly [pg.QueryResult, pg.QueryResult<{ guard_write: string }>];
      return `call leasehold.ending('${parseInt(rows[0]?.guard_write ?? '', 10)}'); commit`;
    });
  }
  function lock(place: number): Promise<void> {
    const { resource, fencingToken, leaseId } = grant;
    const args = [`'${resource}'`, `${fencingToken}`, `'${leaseId}'`];
    const text =
      variant === 'lock with begin'
        ? LOCK.replaceAll(/\$(\d)/g, (_, at: string) => args[Number(at) - 1] ?? '')
        : `execute bench_lock(${args.join(', ')})`;
    return transaction(place, [`begin; ${text}`]);
  }
  const ways: Readonly<Record<PostgresSetup['variant'], (place: number) => Promise<unknown>>> = {
    floor: (place) => transaction(place, ['begin']),
    'fence.write': (place) => ledger.write(grant, (tx) => tx.query(UPDATE, [place])),
    guardSql: (place) => transaction(place, ['begin', ledger.guardSql(grant)]),
    'by hand': byHand,
    'select 1': (place) => transaction(place, ['begin', 'select 1']),
    'select 1 with begin': (place) => transaction(place, ['begin; select 1']),
    'lock with begin': lock,
    'prepared lock with begin': lock,
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
