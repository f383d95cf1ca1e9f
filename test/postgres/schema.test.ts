import { readFileSync } from 'node:fs';

import { LeaseholdError } from '@leasehold/core';
import { installSchema, postgresFence, schemaSql } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { createDatabase, type Database } from '../support/postgres.ts';
import { uniqueName } from '../support/redis-client.ts';
import { connectPool, connectPostgresJs, grantFor } from './support.ts';

const file = readFileSync(new URL('../../packages/core/sql/0001-fence.sql', import.meta.url), 'utf8');

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
  await pool.query('drop schema if exists leasehold cascade');
});

/** Everything that the schema consists of, as the server describes it. */
async function contents(schema = 'leasehold'): Promise<readonly string[]> {
  const { rows } = await pool.query<{ what: string }>(
    `select pg_describe_object(classid, objid, objsubid) || coalesce(': ' || obj_description(objid), '') as what
     from pg_depend where refobjid = to_regnamespace($1) order by 1`,
    [schema],
  );
  return rows.map(({ what }) => what);
}

async function isWorking(schema?: string): Promise<void> {
  const fence = postgresFence(pool, { schema });
  const grant = grantFor();
  await fence.activate(grant);
  expect(await fence.write(grant, async (tx) => (await tx.query('select 1 as one')).rows)).toEqual([{ one: 1 }]);
}

describe('installSchema', () => {
  test('by eight processes at once: all succeed, and it is there once', async () => {
    await using others = connectPool(database.url, { max: 8 });
    await Promise.all(Array.from({ length: 8 }, () => installSchema(others)));
    await isWorking();
    const { rows } = await pool.query('select version from leasehold.versions');
    expect(rows).toEqual([{ version: 1 }]);
  });

  test('again: nothing changes, and the data stays', async () => {
    await installSchema(pool);
    const [before, grant] = [await contents(), grantFor()];
    const fence = postgresFence(pool);
    await fence.activate(grant);
    await installSchema(pool);
    await pool.query(file);
    expect(await contents()).toEqual(before);
    const { fencingToken, leaseId } = grant;
    expect(await fence.highest(grant.resource)).toEqual({ fencingToken, leaseId });
  });

  test('over postgres.js, and by the file, it comes to the same', async () => {
    await installSchema(pool);
    const expected = await contents();
    await pool.query('drop schema leasehold cascade');
    await using sql = connectPostgresJs(database.url, { max: 1 });
    await installSchema(sql);
    expect(await contents()).toEqual(expected);
    await pool.query('drop schema leasehold cascade');
    await pool.query(file);
    expect(await contents()).toEqual(expected);
  });

  test('into a schema that an administrator has made, by a role that may make none', async () => {
    const role = uniqueName('owner').replaceAll('-', '_');
    await pool.query(`create role ${role} login; create schema leasehold authorization ${role}`);
    await using theirs = connectPool(as(database.url, role));
    await installSchema(theirs);
    await isWorking();
    await pool.query(`drop schema leasehold cascade; drop role ${role}`);
  });

  test('over tables of somebody else: refused, and nothing is half done', async () => {
    await pool.query('create schema leasehold; create table leasehold.fence (mine int)');
    const before = await contents();
    await expect(installSchema(pool)).rejects.toMatchObject({ code: '42P07' });
    expect(await contents()).toEqual(before);
  });

  test('two schemas are two fences, also where the name is a reserved word', async () => {
    await Promise.all([installSchema(pool), installSchema(pool, { schema: 'user' })]);
    await isWorking();
    await isWorking('user');
    const grant = grantFor();
    await postgresFence(pool, { schema: 'user' }).activate(grant);
    expect(await postgresFence(pool).highest(grant.resource)).toBeNull();
    await pool.query('drop schema "user" cascade');
  });

  test('tables, columns and functions explain themselves', async () => {
    await pool.query(schemaSql());
    const { rows } = await pool.query<{ mute: string }>(
      `select p.oid::regprocedure::text as mute from pg_proc p
         where pronamespace = to_regnamespace('leasehold') and obj_description(p.oid) is null
       union all
       select c.oid::regclass::text from pg_class c
         where relnamespace = to_regnamespace('leasehold') and relkind = 'r' and obj_description(c.oid) is null
       union all
       select attname from pg_attribute
         where attrelid = 'leasehold.fence'::regclass and attnum > 0 and col_description(attrelid, attnum) is null`,
    );
    expect(rows).toEqual([]);
  });

  test('functions run with the rights of their callers, and do not look names up in their search_path', async () => {
    await installSchema(pool);
    const { rows } = await pool.query(
      'select proname from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname = $1 and prosecdef',
      ['leasehold'],
    );
    expect(rows).toEqual([]);
    const fence = postgresFence(pool);
    // A setting of each session: a pool of pg makes a new one after an error.
    await using strange = connectPool(database.url, { max: 1, options: '-c search_path=strange,pg_catalog' });
    // Operators and functions of a schema that comes before pg_catalog: whoever takes one for what it is named after fails.
    const raises = (name: string, args: string, result: string): string =>
      `create function strange.${name}(${args}) returns ${result} language plpgsql as $$ begin raise exception 'strange'; end $$;`;
    const signatures = ['text =', 'bigint =', 'bigint <', 'text <>', 'integer >', 'text ~~', 'text !~~', 'text ||'];
    const operators = signatures.map((each, at) => {
      const [type, operator] = each.split(' ') as [string, string];
      const its = raises(`is_${at}`, `${type}, ${type}`, operator === '||' ? 'text' : 'boolean');
      return `${its} create operator strange.${operator} (leftarg = ${type}, rightarg = ${type}, function = strange.is_${at});`;
    });
    const functions = [
      ['current_setting', 'text', 'text'],
      ['current_setting', 'text, boolean', 'text'],
      ['set_config', 'text, text, boolean', 'text'],
      ['version', '', 'text'],
      ['convert_to', 'text, name', 'bytea'],
      ['encode', 'bytea, text', 'text'],
      ['pg_current_xact_id', '', 'xid8'],
      ['pg_current_xact_id_if_assigned', '', 'xid8'],
    ].map(([name, args, result]) => raises(name!, args!, result!));
    await pool.query(`create schema strange; ${operators.join('')} ${functions.join('')}`);
    const [earlier, later] = [grantFor(), grantFor()];
    await fence.activate({ ...later, resource: earlier.resource });
    for (const sql of [fence.guardSql(earlier), fence.admitSql(earlier), fence.activateSql(earlier)]) {
      const answer = await strange.query({ text: sql, rowMode: 'array' }).catch((error: unknown) => error);
      expect(answer).toMatchObject(sql.includes('.admit(') ? { rows: [[false]] } : { code: 'LH001' });
    }
    const current = { ...later, resource: earlier.resource };
    await strange.query(fence.guardSql(current));
    await strange.query(fence.admitSql(current));
    const own = postgresFence(strange);
    expect(await own.write(current, () => 'written')).toBe('written');
    const ended = own.write(current, (tx) => tx.query('commit; begin'));
    await expect(ended).rejects.toThrow('ended the transaction itself');
    await expect(strange.query('select 1::bigint = 1::bigint')).rejects.toThrow('strange');
    await pool.query('drop schema strange cascade');
  });
});

describe('what is missing is named', () => {
  test('no schema: a ConfigError that says how to install it', async () => {
    const fence = postgresFence(pool);
    const grant = grantFor();
    const calls = [
      () => fence.activate(grant),
      () => fence.write(grant, () => 'written'),
      () => fence.seal(grant.resource, grant.fencingToken),
      () => fence.highest(grant.resource),
    ];
    for (const call of calls) {
      const error: unknown = await call().catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'CONFIG', message: expect.stringMatching(/installSchema.*0001-fence\.sql/) });
    }
  });

  test('no rights: the message has the GRANTs, and these are all that it takes', async () => {
    await installSchema(pool);
    const role = uniqueName('app').replaceAll('-', '_');
    // As where default privileges give nothing to everybody.
    const closed = 'revoke execute on all routines in schema leasehold from public';
    await pool.query(`create role ${role} login; ${closed}`);
    await using theirs = connectPool(as(database.url, role));
    const fence = postgresFence(theirs);
    const [first, second] = [grantFor(), grantFor()];
    const error = await fence.activate(first).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    const grants = (error as Error).message.match(/grant [^,;]+(?:, [^g;][^,;]*)* on [^,;]+/g) ?? [];
    expect(grants).toHaveLength(4);
    for (const grant of grants) await pool.query(`${grant} to ${role}`);
    await fence.activate(first);
    expect(await fence.write(first, () => 'written')).toBe('written');
    await fence.seal(first.resource, first.fencingToken);
    await fence.highest(first.resource);
    // After a prune as well, and with what is refused by the horizon.
    await pool.query(`update leasehold.fence set changed_at = now() - interval '2 days'`);
    await pool.query(`select leasehold.prune('1 day')`);
    expect(LeaseholdError.is(await fence.activate(first).catch((reason: unknown) => reason), 'STALE_TOKEN')).toBe(true);
    await fence.activate(second);
    // What it is not allowed: to forget, and to pass.
    await expect(theirs.query('delete from leasehold.fence')).rejects.toMatchObject({ code: '42501' });
    await expect(theirs.query(`select leasehold.prune('1 day')`)).rejects.toMatchObject({ code: '42501' });
    await expect(theirs.query(`select leasehold.bypass('me')`)).rejects.toMatchObject({ code: '42501' });
    await pool.query(`drop owned by ${role}; drop role ${role}`);
  });

  test('the right to the last statement before COMMIT is missing: that is said over each client, and nothing is written', async () => {
    await installSchema(pool);
    const role = uniqueName('app').replaceAll('-', '_');
    await pool.query(`create role ${role} login; create table mine (v int); grant insert on mine to ${role};
      grant usage on schema leasehold to ${role}; grant select, insert, update on leasehold.fence to ${role};
      grant select, update on leasehold.horizon to ${role};
      revoke execute on procedure leasehold.ending from public`);
    await using overPg = connectPool(as(database.url, role));
    await using overPostgresJs = connectPostgresJs(as(database.url, role));
    const grant = grantFor();
    await postgresFence(overPg).activate(grant);
    const missing = { code: '42501', message: 'permission denied for procedure ending' };
    const insert = 'insert into mine values (1)';
    await expect(postgresFence(overPg).write(grant, (tx) => tx.query(insert))).rejects.toMatchObject(missing);
    await expect(postgresFence(overPostgresJs).write(grant, (tx) => tx.unsafe(insert))).rejects.toMatchObject(missing);
    expect((await pool.query('select from mine')).rowCount).toBe(0);
    await pool.query(`drop table mine; drop owned by ${role}; drop role ${role}`);
  });
});

function as(url: string, role: string): string {
  const theirs = new URL(url);
  theirs.username = role;
  return theirs.href;
}
