import { LeaseManager, MemoryLeaseStore, type Lease } from '@leasehold/core';
import { installSchema, postgresFence } from '@leasehold/core/postgres';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { createDatabase, type Database } from '../support/postgres.ts';
import { uniqueName } from '../support/redis-client.ts';
import { clients } from './clients.ts';
import { PrismaClient } from './prisma-client.ts';
import { withPrismaAsking } from './recipes.ts';

let database: Database;
let admin: pg.Pool;
const leases = new LeaseManager({ store: new MemoryLeaseStore(), ttl: '60s' });

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  admin = new pg.Pool({ connectionString: database.url, max: 2 });
  await installSchema(admin);
  await admin.query('create table accounts (id integer primary key, balance integer not null)');
  await admin.query('insert into accounts values (42, 0)');
});

beforeEach(async () => {
  await admin.query('update accounts set balance = 100');
});

afterAll(async () => {
  await leases.close();
  await admin.end();
  await database[Symbol.asyncDispose]();
});

async function balance(): Promise<number> {
  const { rows } = await admin.query('select balance from accounts where id = 42');
  return (rows[0] as { balance: number }).balance;
}

const ledger = () => postgresFence(admin, { name: 'ledger' });

/** A later grant, as if another process had acquired the resource. The lease does not hear of it. */
async function depose({ grant }: Lease): Promise<number> {
  const fencingToken = grant.fencingToken + 1;
  await ledger().activate({ ...grant, fencingToken, leaseId: `after-${grant.leaseId}` });
  return fencingToken;
}

/** Each means something to a client or to SQL. */
const hostileNames = [
  ...["it's", '"quoted"', '`ticks`', '?', '??', '\\?', 'a ? b ?? c', '$1', '${1}', '@p1', '#{x}', '{{}}', '{x}'],
  ...[':name', ':name:', '::text', ':1', '%s', '%I', '%%', '%', '\\', '\\\\', "\\'", 'a\\', "a'", "''", '$$', '$q$'],
  ...["'; drop table accounts; --", "' or true --", '--', '/*', '*/', ';', "U&'\\0041'", '\\u0041', '\\x27', 'NULL'],
  ...[
    '🦊',
    'é',
    'e\u0301',
    'ключ',
    '日本',
    '\u202e',
    '\ufeff',
    '\u{10ffff}',
    ' ',
    'a ',
    'A',
    'a',
    'ｱ',
    'x'.repeat(240),
  ],
];

describe.each(Object.entries(clients))('%s', (_, open) => {
  test('a current grant commits', async () => {
    await using client = open(database.url);
    const fence = ledger();
    await leases.run(uniqueName(), { fences: [fence] }, async (lease) => {
      await client.withdraw(fence, lease, 30);
      await client.withdraw(fence, lease, 30);
    });
    expect(await balance()).toBe(40);
  });

  test('a stale grant is refused although nobody looks at a result, and is told apart from other errors', async () => {
    await using client = open(database.url);
    const fence = ledger();
    const lease = await leases.acquire(uniqueName(), { fences: [fence] });
    const highest = await depose(lease);
    const error = await client.withdraw(fence, lease, 30).then(
      () => 'committed',
      (reason: unknown) => reason,
    );
    expect(fence.isStale(error)).toBe(true);
    expect(fence.refusalOf(error)).toMatchObject({
      code: 'STALE_TOKEN',
      resource: lease.grant.resource,
      fencingToken: lease.fencingToken,
      highest: { fencingToken: highest, leaseId: `after-${lease.leaseId}` },
    });
    expect(await balance()).toBe(100);

    const other = await client.transaction((send) => send('select 1 / 0')).catch((reason: unknown) => reason);
    expect(other).toBeInstanceOf(Error);
    expect(fence.isStale(other)).toBe(false);
    expect(fence.refusalOf(other)).toBeUndefined();
    await lease.release();
  });

  test('a refusal that is swallowed commits nothing, whatever is sent before it and after it', async () => {
    await using client = open(database.url, 1);
    const fence = ledger();
    const stale = await leases.acquire(uniqueName(), { fences: [fence] });
    await depose(stale);
    const update = 'update accounts set balance = balance - 30 where id = 42';
    const swallow = (sent: Promise<unknown>): Promise<unknown> => sent.catch(() => {});
    const careless: Record<string, string[]> = {
      'guard, then write': [fence.guardSql(stale), update],
      'write, then guard': [update, fence.guardSql(stale)],
      'two guards around': [fence.guardSql(stale), update, fence.guardSql(stale), update],
    };
    for (const [order, statements] of Object.entries(careless)) {
      await swallow(
        client.transaction(async (send) => {
          for (const statement of statements) await swallow(send(statement));
        }),
      );
      expect(await balance(), order).toBe(100);
    }
    // The one connection is none the worse.
    await leases.run(uniqueName(), { fences: [fence] }, (lease) => client.withdraw(fence, lease, 30));
    expect(await balance()).toBe(70);
    await stale.release();
  });

  test('a guard that answers instead of raising is ignored, and the stale write commits: so this is not the recipe', async () => {
    await using client = open(database.url);
    const fence = ledger();
    const stale = await leases.acquire(uniqueName(), { fences: [fence] });
    await depose(stale);
    await client.transaction(async (send) => {
      await send(fence.admitSql(stale));
      await send('update accounts set balance = balance - 30 where id = 42');
    });
    expect(await balance()).toBe(70);
    await stale.release();
  });

  test('hostile names guard exactly that resource', async () => {
    await using client = open(database.url, 1);
    const fence = ledger();
    const prefix = uniqueName('p');
    const hostile = new LeaseManager({ store: new MemoryLeaseStore({ prefix }), ttl: '60s' });
    for (const name of hostileNames) {
      // Not activated: the guard is the first to name it to the database.
      const lease = await hostile.acquire(name, { fences: [fence], activate: 'on-write' });
      await client.withdraw(fence, lease, 1);
      const { fencingToken, leaseId } = lease;
      expect(await fence.highest(`${prefix}/${name}`), name).toEqual({ fencingToken, leaseId });
      await depose(lease);
      const error = await client.withdraw(fence, lease, 1).catch((reason: unknown) => reason);
      expect(fence.refusalOf(error), name).toMatchObject({ resource: `${prefix}/${name}` });
      await lease.release();
    }
    await hostile.close();
    expect(await balance()).toBe(100 - hostileNames.length);
    const { rows } = await admin.query('select resource from leasehold.fence where starts_with(resource, $1)', [
      `${prefix}/`,
    ]);
    const seen = (rows as { resource: string }[]).map(({ resource }) => resource);
    expect(seen.toSorted()).toEqual(hostileNames.map((name) => `${prefix}/${name}`).toSorted());
  });
});

test('Prisma can ask instead, and throw in JavaScript', async () => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: database.url }) });
  const fence = ledger();
  const lease = await leases.acquire(uniqueName(), { fences: [fence] });
  await withPrismaAsking(prisma, fence, lease, 30);
  await depose(lease);
  await expect(withPrismaAsking(prisma, fence, lease, 30)).rejects.toThrow('a later owner has begun');
  expect(await balance()).toBe(70);
  await lease.release();
  await prisma.$disconnect();
});
