import { installSchema, postgresFence, schemaSql } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { connectPool, grantFor, isBlocked } from '../postgres/support.ts';
import { createDatabase, type Database } from '../support/postgres.ts';
import { callCli, type Result } from './fixtures/cli-process.ts';

let database: Database;
let pool: pg.Pool;
/** As people are told: never with a password. */
let shown: string;
let name: string;

beforeAll(async () => {
  database = await createDatabase(inject('postgresUrl'));
  pool = connectPool(database.url);
  const { hostname, port, pathname } = new URL(database.url);
  shown = `postgres://${hostname}:${port}${pathname}`;
  name = pathname.slice(1);
});

afterAll(async () => {
  await pool.end();
  await database[Symbol.asyncDispose]();
});

beforeEach(async () => {
  await pool.query('drop schema if exists leasehold, other cascade; drop table if exists accounts');
});

const fence = (...args: readonly string[]): Promise<Result> =>
  callCli(['fence', ...args], { DATABASE_URL: database.url });

const json = ({ stdout }: Result): Record<string, unknown> => JSON.parse(stdout) as Record<string, unknown>;

const SCHEMAS = `select nspname::text as schema from pg_namespace where nspname in ('leasehold', 'other') order by 1`;

const schemas = async (): Promise<readonly string[]> =>
  (await pool.query<{ schema: string }>(SCHEMAS)).rows.map(({ schema }) => schema);

describe('leasehold fence sql', () => {
  test('prints what install runs, and it may be run twice', async () => {
    const { code, stdout, stderr } = await callCli(['fence', 'sql', '--schema', 'other']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toBe(schemaSql({ schema: 'other' }));
    await pool.query(stdout);
    await pool.query(stdout);
    expect(await schemas()).toEqual(['other']);
  });
});

describe('leasehold fence install', () => {
  test('says what it will do, does it, and the second time says that it is done', async () => {
    const first = await fence('install', '--yes');
    expect(first).toMatchObject({ code: 0, stdout: `installed: version 1, in schema leasehold of ${name}\n` });
    expect(first.stderr).toContain(`${shown} · schema leasehold · role `);
    expect(first.stderr).toContain('DATABASE_URL\n');
    expect(first.stderr).toContain(`In ${name}: makes schema leasehold with the fence, version 1`);
    expect(first.stderr).toContain('grant select, insert, update on "leasehold".fence');
    await postgresFence(pool).activate(grantFor());
    const second = await fence('install', '--yes', '--json');
    expect(json(second)).toEqual({
      ...{ schema: 'leasehold/fence-install/v1', database: shown, schemaName: 'leasehold' },
      ...{ outcome: 'unchanged', version: 1 },
    });
    expect((await pool.query('select from leasehold.fence')).rowCount).toBe(1);
  });

  test('asks for the name of the database, and does nothing for another one or without a terminal', async () => {
    const args = ['fence', 'install', '-d', database.url];
    expect(await callCli(args, {}, 'shop\n')).toMatchObject({
      ...{ code: 2, stdout: '', stderr: expect.stringContaining('that is not its name; nothing was done') },
    });
    expect(await callCli(args)).toMatchObject({ code: 2, stdout: '' });
    expect(await schemas()).toEqual([]);
    expect(await callCli(args, {}, `${name}\n`)).toMatchObject({ code: 0 });
    expect(await schemas()).toEqual(['leasehold']);
  });

  test('shows no password, also where the database does not answer or lets nobody in', async () => {
    const away = await callCli(['fence', 'status', '-d', 'postgres://app:s3cret@127.0.0.1:1/shop']);
    expect(away).toMatchObject({ code: 4, stdout: '' });
    expect(away.stderr).toContain('cannot reach postgres://127.0.0.1:1/shop: connect ECONNREFUSED');
    const url = new URL(database.url);
    url.pathname = 'no_such_database';
    const none = await callCli(['fence', 'status', '-d', url.href]);
    expect(none.code).toBe(4);
    expect(none.stderr).toContain('database "no_such_database" does not exist');
    const wrong = await callCli(['fence', 'install', '--yes'], { DATABASE_URL: 'app:s3cret@h' });
    expect(wrong.code).toBe(2);
    expect(away.stderr + none.stderr + wrong.stderr).not.toContain('s3cret');
  });
});

describe('leasehold fence status', () => {
  test('ends with 3 where the fence is missing or outdated, and installs nothing', async () => {
    const missing = await fence('status');
    expect(missing).toMatchObject({ code: 3, stderr: expect.stringContaining('Next: leasehold fence install') });
    expect(missing.stdout).toContain('state\tMISSING\n');
    expect(await schemas()).toEqual([]);
    await installSchema(pool);
    await pool.query('delete from leasehold.versions');
    expect(await fence('status')).toMatchObject({ code: 3, stdout: expect.stringContaining('OUTDATED, version 0') });
  });

  test('tells rows, the highest tokens, the protected tables, and what is a seal or disabled', async () => {
    await installSchema(pool);
    await pool.query('create table accounts (id int)');
    await pool.query(`select leasehold.protect('accounts', $$'shop/account:' || NEW.id$$)`);
    await pool.query('alter table accounts disable trigger leasehold_protect');
    const ledger = postgresFence(pool);
    const [admitted, sealed] = [grantFor('shop/a'), grantFor('shop/b')];
    await ledger.activate(admitted);
    await ledger.seal(sealed.resource, sealed.fencingToken);
    const { code, stdout } = await fence('status');
    expect(code).toBe(0);
    expect(stdout).toContain('state\tINSTALLED, version 1 (this program: 1)\nresources\t2\n');
    expect(stdout).toContain(`public.accounts\tDISABLED\t'shop/account:' || NEW.id\n`);
    const lines = stdout.split('\n').filter((line) => line.startsWith('shop/'));
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^shop/b\t${sealed.fencingToken}\t\\S+Z\tSEALED$`)),
      expect.stringMatching(new RegExp(`^shop/a\t${admitted.fencingToken}\t\\S+Z\t${admitted.leaseId}$`)),
    ]);
    const all = json(await fence('status', '--json', '-n', '1'));
    expect(all).toMatchObject({ schema: 'leasehold/fence-status/v1', state: 'current', rows: 2, bypasses: 0 });
    expect(all['highest']).toHaveLength(1);
    expect(all['protectedTables']).toMatchObject([{ table: 'public.accounts', isEnabled: false }]);
  });
});

describe('leasehold fence protect', () => {
  const EXPRESSION = `'shop/account:' || NEW.id`;
  const insert = (id: number): Promise<unknown> => pool.query('insert into accounts values ($1)', [id]);

  beforeEach(async () => {
    await pool.query('create table accounts (id int)');
  });

  test('makes a table refuse what is not guarded, and takes it back', async () => {
    expect(await fence('protect', 'accounts', EXPRESSION, '--yes')).toMatchObject({
      ...{ code: 3, stdout: '', stderr: expect.stringContaining('Try: leasehold fence install') },
    });
    await installSchema(pool);
    const asked = await callCli(['fence', 'protect', 'accounts', EXPRESSION, '-d', database.url], {}, 'acounts\n');
    expect(asked.code).toBe(2);
    await insert(1);
    const done = await callCli(['fence', 'protect', 'accounts', EXPRESSION, '-d', database.url], {}, 'accounts\n');
    expect(done).toMatchObject({ code: 0, stdout: 'accounts is protected\n' });
    expect(done.stderr).toContain('refuses each row that is written without a guard');
    await expect(insert(2)).rejects.toMatchObject({ code: 'LH002' });
    const ledger = postgresFence(pool);
    await ledger.write(grantFor('shop/account:2'), (tx) => tx.query('insert into accounts values (2)'));

    expect(json(await fence('protect', 'accounts', '--remove', '--yes', '--json'))).toMatchObject({
      outcome: 'removed',
    });
    await insert(3);
    expect(await fence('protect', 'accounts', '--remove', '--yes')).toMatchObject({ code: 3 });
  });

  test.each([
    ['nowhere', EXPRESSION, 'relation "nowhere" does not exist'],
    ['accounts', 'NEW.no', 'column new.no does not exist'],
    ['accounts', 'NEW.', 'syntax error'],
    ['accounts', ' ', 'the expression is null or empty'],
    ['pg_stat_activity', 'NEW.pid::text', 'is no table'],
  ])('of %s by %j is a wrong command line, and changes nothing', async (table, expression, message) => {
    await installSchema(pool);
    const { code, stdout, stderr } = await fence('protect', table, expression, '--yes');
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
    await insert(1);
  });

  test('waits 3 s at most for a table that is in use, so that nobody waits behind it', async () => {
    await installSchema(pool);
    const client = await pool.connect();
    try {
      await client.query('begin; insert into accounts values (1)');
      const protecting = fence('protect', 'accounts', EXPRESSION, '--yes');
      await isBlocked(pool, 1);
      const { code, stderr } = await protecting;
      expect(code).toBe(3);
      expect(stderr).toContain('holds the lock that this needs; nothing was changed');
    } finally {
      await client.query('rollback');
      client.release();
    }
  });
});

describe('leasehold fence prune', () => {
  test('tells what would go and changes nothing; with --yes it goes, and no old owner gets in', async () => {
    await installSchema(pool);
    const ledger = postgresFence(pool);
    const [old, kept] = [grantFor('shop/old'), grantFor('shop/kept')];
    for (const grant of [old, kept]) await ledger.activate(grant);
    await pool.query(`update leasehold.fence set changed_at = now() - interval '91 days' where resource = 'shop/old'`);

    const dry = await fence('prune', '--older-than', '90d');
    expect(dry).toMatchObject({ code: 0, stdout: `1 of 2 rows of ${name} are older than 90 d\n` });
    expect(dry.stderr).toContain(`The horizon would rise from 0 to ${old.fencingToken}`);
    expect(dry.stderr).toContain('Nothing was changed.');
    expect(await ledger.highest('shop/old')).toEqual({ fencingToken: old.fencingToken, leaseId: old.leaseId });

    const done = json(await fence('prune', '--older-than', '90d', '--yes', '--json'));
    expect(done).toMatchObject({ isDryRun: false, rows: 2, old: 1, removed: 1, horizon: old.fencingToken });
    await expect(ledger.activate(old)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
    await ledger.activate(kept);
    expect(json(await fence('prune', '--older-than', '90d', '--json'))).toMatchObject({ isDryRun: true, old: 0 });
  });

  test('needs the right to delete, and says so', async () => {
    await installSchema(pool);
    await pool.query(`drop role if exists prune_reader; create role prune_reader login;
      grant usage on schema leasehold to prune_reader;
      grant select on all tables in schema leasehold to prune_reader`);
    try {
      const url = new URL(database.url);
      url.username = 'prune_reader';
      const { code, stderr } = await callCli(['fence', 'prune', '--older-than', '90d', '--yes', '-d', url.href]);
      expect(code).toBe(3);
      expect(stderr).toMatch(/permission denied for table \w+; nothing was changed/);
    } finally {
      await pool.query('drop owned by prune_reader; drop role prune_reader');
    }
  });
});
