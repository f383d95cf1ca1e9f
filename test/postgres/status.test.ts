import { ConfigError } from '@leasehold/core';
import { installSchema, postgresFence, schemaStatus } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { createDatabase, type Database } from '../support/postgres.ts';
import { connectPool, connectPostgresJs, createPglite, grantFor } from './support.ts';

let database: Database;
let pool: pg.Pool;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  pool = connectPool(database.url);
});

afterAll(async () => {
  await pool.end();
  await database[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await pool.query('drop schema if exists leasehold cascade; drop table if exists accounts, parted, "Odd: name"');
});

describe('schemaStatus', () => {
  test('of a database without the fence says that it is missing, and installs nothing', async () => {
    const nothing = { rows: 0, horizon: 0, bypasses: null, protectedTables: [], highest: [] };
    expect(await schemaStatus(pool)).toEqual({ state: 'missing', version: 0, latest: 1, isStandby: false, ...nothing });
    const { rows } = await pool.query(`select to_regnamespace('leasehold') as it`);
    expect(rows).toEqual([{ it: null }]);
  });

  test('tells the version, and whether there is something to do', async () => {
    await installSchema(pool);
    expect(await schemaStatus(pool)).toMatchObject({ state: 'current', version: 1, latest: 1, bypasses: 0 });
    await pool.query('insert into leasehold.versions (version) values (2)');
    expect(await schemaStatus(pool)).toMatchObject({ state: 'newer', version: 2 });
    await pool.query('delete from leasehold.versions');
    expect(await schemaStatus(pool)).toMatchObject({ state: 'outdated', version: 0 });
  });

  test('tells the highest tokens, the highest first and the number of all, and what is a seal', async () => {
    await installSchema(pool);
    const fence = postgresFence(pool);
    const [low, middle, high] = [grantFor(), grantFor(), grantFor()];
    for (const grant of [middle, low]) await fence.activate(grant);
    await fence.seal(high.resource, high.fencingToken);
    const status = await schemaStatus(pool, { limit: 2 });
    expect(status.rows).toBe(3);
    expect(status.highest).toEqual([
      { resource: high.resource, fencingToken: high.fencingToken, leaseId: null, changedAt: expect.any(Date) },
      { ...middle, changedAt: expect.any(Date) },
    ]);
    const { rows } = await pool.query('select changed_at from leasehold.fence where resource = $1', [high.resource]);
    expect(status.highest[0]?.changedAt).toEqual(rows[0].changed_at);
    expect((await schemaStatus(pool, { limit: 0 })).highest).toEqual([]);
  });

  test('tells what is protected: by which expression, a table of partitions once, and what is disabled', async () => {
    await installSchema(pool);
    await pool.query(`create table accounts (owner text);
      create table parted (owner text) partition by list (owner); create table parted_a partition of parted default;
      create table "Odd: name" (owner text)`);
    const expression = `'shop/' ||\n  NEW.owner || ': it'`;
    for (const table of ['accounts', 'parted', '"Odd: name"']) {
      await pool.query('select leasehold.protect($1, $2)', [table, expression]);
    }
    await pool.query('alter table parted disable trigger leasehold_protect; alter table accounts rename to owned');
    const { protectedTables } = await schemaStatus(pool);
    expect(protectedTables).toMatchObject([
      { table: 'public."Odd: name"', isEnabled: true },
      { table: 'public.owned', expression, isEnabled: true },
      { table: 'public.parted', expression, isEnabled: false },
    ]);
    await pool.query('drop table owned');
  });

  test('is for a role that may only read, and does not tell it what it may not see', async () => {
    await installSchema(pool);
    await pool.query(`drop role if exists status_reader; create role status_reader;
      grant usage on schema leasehold to status_reader;
      grant select on leasehold.versions, leasehold.fence, leasehold.horizon to status_reader;
      begin; select leasehold.bypass('a repair'); commit`);
    try {
      await using its = connectPool(database.url, { max: 1 });
      await its.query('set role status_reader');
      expect(await schemaStatus(its)).toMatchObject({ state: 'current', bypasses: null });
      expect((await schemaStatus(pool)).bypasses).toBe(1);
    } finally {
      await pool.query('drop owned by status_reader; drop role status_reader');
    }
  });

  test('knows its schema, also beside another', async () => {
    await installSchema(pool, { schema: 'user' });
    await pool.query(`create table accounts (owner text); select "user".protect('accounts', 'NEW.owner')`);
    expect(await schemaStatus(pool)).toMatchObject({ state: 'missing' });
    await installSchema(pool);
    expect(await schemaStatus(pool)).toMatchObject({ state: 'current', protectedTables: [] });
    const { protectedTables } = await schemaStatus(pool, { schema: 'user' });
    expect(protectedTables).toEqual([{ table: 'public.accounts', expression: 'NEW.owner', isEnabled: true }]);
    await pool.query('drop schema "user" cascade');
  });

  test('answers the same over each client', async () => {
    await installSchema(pool);
    await using sql = connectPostgresJs(database.url);
    const db = await createPglite();
    try {
      const over = await Promise.all([schemaStatus(pool), schemaStatus(sql), schemaStatus(db)]);
      for (const status of over) expect(status).toEqual(over[0]);
    } finally {
      await db.close();
    }
  });

  test.each([
    [{ limit: -1 }],
    [{ limit: 1.5 }],
    [{ limit: 1001 }],
    [{ schema: 'a b' }],
    [{ timeout: 0 }],
    [{ shema: 'a' }],
  ])('refuses %j', async (options) => {
    await expect(schemaStatus(pool, options as object)).rejects.toBeInstanceOf(ConfigError);
  });
});
