// What a grant has read: nobody else writes between that and its write.
import { LeaseholdError, LeaseManager, type Fence, type Grant } from '@leasehold/core';
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import { redisStore } from '@leasehold/core/redis';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import { startChild } from '../support/child.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { uniqueName } from '../support/redis-client.ts';
import { readBalance, writeByHand } from './fixtures/account.ts';

const lateWriter = new URL('./fixtures/late-writer.ts', import.meta.url);

let database: Database;
let pool: pg.Pool;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  pool = new pg.Pool({ connectionString: database.url });
  await installSchema(pool);
  await pool.query('create table accounts (name text primary key, balance integer not null)');
});

afterAll(async () => {
  await pool.end();
  await database[Symbol.asyncDispose]();
});

const ledger = () => postgresFence(pool, { name: 'ledger' });

async function newAccount(): Promise<string> {
  const name = uniqueName();
  await pool.query('insert into accounts values ($1, 0)', [name]);
  return name;
}

/**
 * An owner reads the account and is stopped until its lease has run out; a successor reads it; the owner goes on and adds
 * 10 to what it has read; the successor adds 5 to what it has read. Says what became of the owner's write.
 */
async function schedule(
  how: 'by hand' | 'grant' | 'lease',
  fences: readonly Fence[],
  write: (grant: Grant, name: string, balance: number) => Promise<void>,
): Promise<{ code: string | null; balance: number }> {
  const name = await newAccount();
  const urls = { REDIS_URL: inject('redisUrl'), POSTGRES_URL: database.url };
  await using owner = startChild(lateWriter, { env: { ...urls, PREFIX: name, HOW: how } });
  await owner.next('read');
  await owner.stop();
  const leases = new LeaseManager({ store: redisStore(inject('redisUrl'), { prefix: name }), ttl: '10s' });
  const code = await leases.run('a', { wait: '15s', fences }, async ({ grant }) => {
    const seen = await readBalance(pool, name);
    owner.cont();
    owner.send('write');
    const wrote = await owner.next<{ code: string | null }>('wrote');
    await write(grant, name, seen + 5);
    return wrote.code;
  });
  await leases.close();
  return { code, balance: await readBalance(pool, name) };
}

describe('an owner that was stopped between its read and its write', () => {
  test('loses the update of its own where no grant is activated, whatever guards the writes', async () => {
    const write = (grant: Grant, name: string, balance: number) => writeByHand(pool, grant, name, balance);
    // Both writes passed their guards; the 10 are gone.
    expect(await schedule('by hand', [], write)).toEqual({ code: null, balance: 5 });
  });

  test.each([
    ['grant', 'STALE_TOKEN'],
    ['lease', 'LEASE_LOST'],
  ] as const)('is refused by its %s, because the successor was activated before it read', async (how, code) => {
    const fence = ledger();
    const write = (grant: Grant, name: string, balance: number) =>
      fence.write(grant, async (tx) => {
        await tx.query('update accounts set balance = $1 where name = $2', [balance, name]);
      });
    expect(await schedule(how, [fence], write)).toEqual({ code, balance: 5 });
  });

  test('does not get as far as that: a lease that did not activate the fence may not write through it', async () => {
    const name = await newAccount();
    const leases = new LeaseManager({ store: redisStore(inject('redisUrl'), { prefix: name }) });
    const fence = ledger();
    await leases.run('a', async (lease) => {
      const write = fence.write(lease, (tx) => tx.query('update accounts set balance = 1 where name = $1', [name]));
      await expect(write).rejects.toMatchObject({ code: 'FENCE_NOT_ACTIVATED', fence: 'ledger' });
      expect(() => fence.guardSql(lease)).toThrow(expect.objectContaining({ code: 'FENCE_NOT_ACTIVATED' }));
    });
    expect(await readBalance(pool, name)).toBe(0);
    await leases.close();
  });
});

const newGrant = (name: string, fencingToken = 1): Grant => ({
  resource: `shop/${name}`,
  fencingToken,
  leaseId: `lease-${fencingToken}`,
});

describe.each(['repeatable read', 'serializable'] as const)('under %s', (isolation) => {
  test('a snapshot from before the successor is a serialization failure, and stale in the next transaction', async () => {
    const name = await newAccount();
    const fence = ledger();
    const grant = newGrant(name);
    await fence.activate(grant);
    const client = await pool.connect();
    await client.query(`begin isolation level ${isolation}`);
    await client.query('select balance from accounts where name = $1', [name]);
    await fence.activate(newGrant(name, 2));
    const conflict = await client.query(fence.guardSql(grant)).catch((error: unknown) => error);
    expect(conflict).toMatchObject({ code: '40001' });
    expect(fence.isStale(conflict)).toBe(false);
    await client.query('rollback');

    await client.query(`begin isolation level ${isolation}`);
    const refusal = await client.query(fence.guardSql(grant)).catch((error: unknown) => error);
    await client.query('rollback');
    client.release();
    expect(refusal).toMatchObject({ code: 'LH001' });
    expect(fence.refusalOf(refusal)).toMatchObject({ highest: { fencingToken: 2, leaseId: 'lease-2' } });
  });

  test('a write through the fence meets no conflict of its own making, and refuses a grant that is stale', async () => {
    const name = await newAccount();
    const fence = postgresFence(pool, { isolation });
    const add = (grant: Grant) =>
      fence.write(grant, (tx) => tx.query('update accounts set balance = balance + 1 where name = $1', [name]));
    await add(newGrant(name));
    await add(newGrant(name));
    // Not activated by itself.
    await add(newGrant(name, 2));
    await expect(add(newGrant(name))).rejects.toMatchObject({ code: 'STALE_TOKEN', highest: { fencingToken: 2 } });
    expect(await readBalance(pool, name)).toBe(3);
  });
});

test('serializable: two writes of one grant that each read what the other writes are the caller’s to repeat', async () => {
  const [one, two] = [await newAccount(), await newAccount()];
  const fence = postgresFence(pool, { isolation: 'serializable' });
  const leases = new LeaseManager({ store: redisStore(inject('redisUrl'), { prefix: one }) });
  await leases.run('a', { fences: [fence] }, async (lease) => {
    let readOnes = 0;
    let bothHaveRead = (): void => {};
    const both = new Promise<void>((resolve) => (bothHaveRead = resolve));
    const addTo = (mine: string) =>
      fence.write(lease, async (tx) => {
        await tx.query('select sum(balance) from accounts where name = any($1)', [[one, two]]);
        if (++readOnes === 2) bothHaveRead();
        await both;
        await tx.query('update accounts set balance = balance + 1 where name = $1', [mine]);
      });
    const outcomes = await Promise.allSettled([addTo(one), addTo(two)]);
    const failed = outcomes.findIndex(({ status }) => status === 'rejected');
    const { reason } = outcomes[failed] as PromiseRejectedResult;
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(reason).toMatchObject({ code: '40001' });
    expect(fence.isStale(reason)).toBe(false);
    expect(LeaseholdError.is(reason, 'STALE_TOKEN')).toBe(false);
    expect(lease.isHeld()).toBe(true);
    await addTo([one, two][failed] as string);
  });
  expect([await readBalance(pool, one), await readBalance(pool, two)]).toEqual([1, 1]);
  await leases.close();
});
