import type { Grant } from '@leasehold/core';
import { postgresFence, type PostgresFence } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';

import { connectPool, createSite, grantFor, isBlocked, type Site } from './support.ts';

let site: Site;
let pool: pg.Pool;
let fence: PostgresFence<pg.PoolClient>;
/** One who prunes, and one who comes at the wrong moment. */
let pruner: pg.PoolClient;
let other: pg.PoolClient;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url);
  fence = postgresFence(pool);
});

afterAll(async () => {
  await pool.end();
  await site[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await pool.query('truncate leasehold.fence; update leasehold.horizon set token = 0');
  [pruner, other] = await Promise.all([pool.connect(), pool.connect()]);
});

afterEach(async () => {
  for (const client of [pruner, other]) {
    await client.query('rollback');
    client.release();
  }
});

/** A grant that was admitted so long ago that prune forgets it. */
async function oldGrant(resource?: string): Promise<Grant> {
  const grant = grantFor(resource);
  await fence.activate(grant);
  await pool.query(`update leasehold.fence set changed_at = now() - interval '25 hours' where resource = $1`, [
    grant.resource,
  ]);
  return grant;
}

async function prune(client: pg.Pool | pg.PoolClient = pool, olderThan = '1 day'): Promise<number> {
  const { rows } = await client.query<{ n: number }>('select leasehold.prune($1)::int as n', [olderThan]);
  return rows[0]!.n;
}

const stale = (grant: Grant, fencingToken: number): object => ({
  code: 'STALE_TOKEN',
  fencingToken: grant.fencingToken,
  highest: { fencingToken, leaseId: null },
});

test('less than a day is refused, for tokens may be a day ahead', async () => {
  for (const interval of ['23:59:59', '0', '-1 day']) {
    await expect(prune(pool, interval)).rejects.toMatchObject({ code: '22023' });
  }
  await expect(pool.query('select leasehold.prune(null)')).rejects.toMatchObject({ code: '22023' });
});

test('what is forgotten stays shut out, with everything before it', async () => {
  const before = grantFor('test/forgotten');
  const forgotten = await oldGrant('test/forgotten');
  const unknown = { ...before, resource: 'test/unknown' };
  const kept = grantFor();
  await fence.activate(kept);
  expect(await prune()).toBe(1);
  const horizon = forgotten.fencingToken;
  for (const grant of [before, forgotten, unknown]) {
    await expect(fence.activate(grant)).rejects.toMatchObject(stale(grant, horizon));
    await expect(fence.write(grant, () => 'in')).rejects.toMatchObject(stale(grant, horizon));
    const { rows } = await pool.query(fence.admitSql(grant));
    expect(rows).toEqual([{ admit: false }]);
    expect(await fence.highest(grant.resource)).toEqual({ fencingToken: horizon, leaseId: null });
  }
  expect(await fence.write(kept, () => 'in')).toBe('in');
  expect(await fence.write(grantFor('test/forgotten'), () => 'in')).toBe('in');
});

test('a seal below the horizon opens nothing', async () => {
  const [early, later] = [grantFor('test/sealed'), grantFor('test/sealed')];
  const { fencingToken } = await oldGrant();
  await prune();
  await fence.seal('test/sealed', early.fencingToken);
  await expect(fence.activate(later)).rejects.toMatchObject(stale(later, fencingToken));
});

test('the horizon never sinks, and moves only for what is deleted', async () => {
  const horizon = async (): Promise<number> =>
    Number((await pool.query('select token from leasehold.horizon')).rows[0].token);
  const [low, high] = [await oldGrant(), await oldGrant()];
  await pool.query('update leasehold.fence set changed_at = now() where resource = $1', [low.resource]);
  await prune();
  expect(await horizon()).toBe(high.fencingToken);
  await pool.query(`update leasehold.fence set changed_at = now() - interval '25 hours'`);
  expect(await prune()).toBe(1);
  expect(await prune()).toBe(0);
  expect(await horizon()).toBe(high.fencingToken);
});

test('a row in use is not waited for, and stays', async () => {
  const grant = await oldGrant();
  await fence.write(grant, async () => {
    expect(await prune()).toBe(0);
  });
  expect(await prune()).toBe(1);
});

test('during a prune: the old are refused at once, the new wait for its end', async () => {
  const before = grantFor('test/a');
  const old = await oldGrant('test/a');
  const [newcomer, elsewhere] = [grantFor('test/a'), { ...before, resource: 'test/b' }];
  await pruner.query('begin');
  expect(await prune(pruner)).toBe(1);
  await expect(fence.activate(before)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  const admitted = fence.activate(newcomer);
  const refused = fence.activate(elsewhere).catch((error: unknown) => error);
  await isBlocked(pool, 2);
  await pruner.query('commit');
  await admitted;
  // It had inserted its row, and found the horizon raised.
  expect(await refused).toMatchObject(stale(elsewhere, old.fencingToken));
});

test('a prune that is rolled back has forgotten nothing', async () => {
  const before = { ...grantFor(), resource: 'test/b' };
  const old = await oldGrant('test/a');
  await pruner.query('begin');
  await prune(pruner);
  const admitted = fence.activate(before);
  await isBlocked(pool, 1);
  await pruner.query('rollback');
  await admitted;
  expect(await fence.highest('test/a')).toMatchObject({ fencingToken: old.fencingToken, leaseId: old.leaseId });
});

test.each(['repeatable read', 'serializable'])(
  'under %s a prune since the snapshot admits nobody',
  async (isolation) => {
    const before = grantFor('test/a');
    await oldGrant('test/a');
    const newcomer = grantFor('test/a');
    const cases = [
      // What the snapshot still shows refuses it.
      [fence.guardSql(before), 'LH001'],
      // It must have been activated before this snapshot.
      [fence.guardSql(newcomer), 'LH004'],
      // The row can be inserted; the horizon has changed since.
      [fence.guardSql(grantFor('test/new')), '40001'],
      [fence.guardSql({ ...before, resource: 'test/new' }), '40001'],
    ] as const;
    await other.query(`begin isolation level ${isolation}`);
    await other.query('select count(*) from log');
    await prune();
    for (const [guard, code] of cases) {
      await other.query('savepoint s');
      await expect(other.query(guard)).rejects.toMatchObject({ code });
      await other.query('rollback to s');
    }
  },
);

test('whatever the order, nothing that was forgotten gets in', async () => {
  for (let round = 0; round < 15; round++) {
    const resource = `test/race/${round}`;
    const before = [grantFor(resource), grantFor(resource), grantFor(resource)];
    await oldGrant(resource);
    const results = await Promise.allSettled([...before.map((grant) => fence.activate(grant)), prune()]);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'fulfilled']);
    for (const grant of before) await expect(fence.activate(grant)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  }
});
