import type { Grant } from '@leasehold/core';
import { postgresFence, type PostgresFence } from '@leasehold/core/postgres';
import type pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { connectPool, createSite, grantFor, type Site } from './support.ts';

let site: Site;
let pool: pg.Pool;
let fence: PostgresFence<pg.PoolClient>;
/** Of shop/a and shop/b, activated. */
let a: Grant;
let b: Grant;

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
  await pool.query(
    'drop table if exists accounts cascade; create table accounts (id int primary key, owner text, v int)',
  );
  await protect('accounts', `'shop/' || NEW.owner`);
  [a, b] = [grantFor('shop/a'), grantFor('shop/b')];
  await Promise.all([fence.activate(a), fence.activate(b)]);
});

const protect = (table: string, expression: string): Promise<unknown> =>
  pool.query('select leasehold.protect($1::regclass, $2)', [table, expression]);

/** Statements in one transaction. */
async function inTransaction(...statements: readonly string[]): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    for (const statement of statements) await client.query(statement);
    await client.query('commit');
  } finally {
    await client.query('rollback');
    client.release();
  }
}

const guarded = (grant: Grant, ...statements: readonly string[]): Promise<void> =>
  inTransaction(fence.guardSql(grant), ...statements);

const bypassed = (...statements: readonly string[]): Promise<void> =>
  inTransaction(`select leasehold.bypass('set up')`, ...statements);

async function refused(work: Promise<unknown>, ...words: readonly string[]): Promise<void> {
  const error: unknown = await work.then(
    () => new Error('not refused'),
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ code: 'LH002', hint: expect.stringContaining('leasehold.bypass(reason)') });
  for (const word of words) expect((error as Error).message).toContain(word);
}

async function rows(table = 'accounts'): Promise<readonly unknown[]> {
  const result = await pool.query({ text: `select * from ${table} order by 1`, rowMode: 'array' });
  return result.rows as readonly unknown[];
}

const ROW = `insert into accounts values (1, 'a', 1)`;

describe('a protected table', () => {
  test('takes what is guarded, and nothing else', async () => {
    await refused(pool.query(ROW), 'INSERT', 'public.accounts', 'shop/a');
    await guarded(a, ROW);
    await refused(pool.query('update accounts set v = 2'), 'UPDATE');
    await refused(pool.query('delete from accounts'), 'DELETE');
    await guarded(a, 'update accounts set v = 2');
    expect(await rows()).toEqual([[1, 'a', 2]]);
    await guarded(a, 'delete from accounts');
    expect(await rows()).toEqual([]);
    await fence.write(a, (tx) => tx.query(ROW));
    expect(await rows()).toHaveLength(1);
  });

  test('wants the guard of the very resource, in the very transaction, before the write', async () => {
    await refused(guarded(b, ROW), 'shop/a');
    await refused(inTransaction(ROW, fence.guardSql(a)));
    await refused(inTransaction(fence.guardSql(a), 'commit', 'begin', ROW));
    await refused(inTransaction(fence.activateSql(a), ROW));
    // A setting that outlived its transaction.
    const left = `select set_config('leasehold.guarded', '1 ${Buffer.from('shop/a').toString('hex')} ', false)`;
    await refused(inTransaction(left, ROW));
    expect(await rows()).toEqual([]);
  });

  test('a stale guard kills its transaction, so that nothing gets to the table', async () => {
    const stale = fence.guardSql(a);
    await fence.activate(grantFor('shop/a'));
    await expect(inTransaction(stale, ROW)).rejects.toMatchObject({ code: 'LH001' });
    expect(await rows()).toEqual([]);
  });

  test('a row that moves needs the guards of both sides', async () => {
    await guarded(a, ROW);
    await refused(guarded(a, `update accounts set owner = 'b'`), 'shop/b');
    await refused(guarded(b, `update accounts set owner = 'b'`), 'shop/a');
    await guarded(a, fence.guardSql(b), `update accounts set owner = 'b'`);
    expect(await rows()).toEqual([[1, 'b', 1]]);
  });

  test('a row of no resource is nobody’s', async () => {
    await refused(guarded(a, 'insert into accounts values (1, null, 1)'), 'its name is null');
    await bypassed('insert into accounts values (1, null, 1)');
    await refused(guarded(a, 'delete from accounts'), 'its name is null');
  });

  test('one foreign row among many refuses the statement whole', async () => {
    await refused(guarded(a, `insert into accounts values (1, 'a', 1), (2, 'b', 1), (3, 'a', 1)`), 'shop/b');
    expect(await rows()).toEqual([]);
  });

  test('cannot be truncated, not even under a guard', async () => {
    await guarded(a, ROW);
    await refused(pool.query('truncate accounts'));
    await refused(guarded(a, 'truncate accounts'));
    await pool.query('create table parents (id int primary key); create table kids (id int references parents)');
    await protect('kids', `'shop/' || NEW.id`);
    await refused(pool.query('truncate parents cascade'), 'kids');
    await bypassed('truncate accounts');
    expect(await rows()).toEqual([]);
    await pool.query('drop table kids, parents');
  });

  test('names that look alike are apart: what is guarded is bytes', async () => {
    const near = grantFor('shop/a b');
    await guarded(near, `insert into accounts values (1, 'a b', 1)`);
    for (const owner of ['a', 'b', 'a  b', 'A B', 'a%', '_']) {
      await refused(guarded(near, `insert into accounts values (2, '${owner}', 1)`));
    }
    // A name that would be two, if names were kept as they are.
    await refused(guarded(grantFor('shop/x shop/y'), `insert into accounts values (2, 'y', 1)`), 'shop/y');
  });
});

describe('savepoints', () => {
  test('a guard that was rolled back does not count, one that was released does', async () => {
    const guard = fence.guardSql(a);
    await refused(inTransaction('savepoint s', guard, 'rollback to s', ROW));
    await inTransaction('savepoint s', guard, 'release s', ROW);
    const other = `insert into accounts values (2, 'a', 1)`;
    await inTransaction(guard, 'savepoint s', other, 'rollback to s', other);
    expect(await rows()).toEqual([
      [1, 'a', 1],
      [2, 'a', 1],
    ]);
  });

  test('a bypass that was rolled back does not count either, nor is it recorded', async () => {
    await pool.query('delete from leasehold.bypasses');
    await refused(inTransaction('savepoint s', `select leasehold.bypass('x')`, 'rollback to s', ROW));
    expect(await rows('leasehold.bypasses')).toEqual([]);
  });
});

describe('ways to write', () => {
  test('ON CONFLICT, COPY and MERGE', async () => {
    const upsert = `insert into accounts values (1, 'a', 1) on conflict (id) do update set v = accounts.v + 1`;
    await guarded(a, upsert, upsert);
    expect(await rows()).toEqual([[1, 'a', 2]]);
    await refused(pool.query(upsert), 'UPDATE');
    await pool.query(`insert into accounts values (1, 'a', 1) on conflict do nothing`);
    await refused(pool.query(`copy accounts from program 'printf "5\\ta\\t1\\n"'`));
    await guarded(a, `copy accounts from program 'printf "5\\ta\\t1\\n"'`);
    const {
      rows: [version],
    } = await pool.query<{ number: number }>(`select current_setting('server_version_num')::int as number`);
    const merge = `merge into accounts t using (values (5, 'b')) as s(id, owner) on t.id = s.id
      when matched then update set owner = s.owner when not matched then insert values (s.id, s.owner, 0)`;
    // MERGE is of PostgreSQL 15: before, the same in two statements.
    const merged = version!.number >= 150000 ? merge : `update accounts set owner = 'b' where id = 5`;
    await refused(guarded(a, merged), 'shop/b');
    await guarded(a, fence.guardSql(b), merged);
    expect(await rows()).toEqual([
      [1, 'a', 2],
      [5, 'b', 1],
    ]);
  });

  test('what a foreign key, another trigger or a rule does on the way', async () => {
    await pool.query(`create table owners (name text primary key); insert into owners values ('a'), ('b');
      alter table accounts add foreign key (owner) references owners on delete cascade on update cascade`);
    await guarded(a, ROW);
    await refused(pool.query(`delete from owners where name = 'a'`), 'DELETE');
    await refused(guarded(a, `update owners set name = 'c' where name = 'a'`), 'shop/c');
    await guarded(a, `delete from owners where name = 'a'`);
    expect(await rows()).toEqual([]);
    // A trigger whose name comes after ours, and which changes the row under our eyes.
    await pool.query(`create function to_b() returns trigger language plpgsql as $$ begin new.owner := 'b'; return new; end $$;
      create trigger zz before insert on accounts for each row execute function to_b()`);
    await pool.query(`insert into owners values ('a')`);
    await refused(guarded(a, ROW), 'shop/b');
    await guarded(b, ROW);
    expect(await rows()).toEqual([[1, 'b', 1]]);
    await pool.query('drop table owners cascade; drop function to_b cascade');
  });

  test('generated columns and defaults count as they are stored', async () => {
    await pool.query(
      `create table made (id int default 7, name text generated always as ('shop/' || chr(97 + id % 2)) stored)`,
    );
    await protect('made', 'NEW.name');
    await refused(guarded(a, 'insert into made default values'), 'shop/b');
    await guarded(b, 'insert into made default values');
    expect(await rows('made')).toEqual([[7, 'shop/b']]);
    await pool.query('drop table made');
  });

  test('partitions: through the parent, directly, when a row moves, those of later, and TRUNCATE of each', async () => {
    await pool.query(`create table parted (owner text, v int) partition by list (owner);
      create table parted_a partition of parted for values in ('a');
      create table parted_b (v int, owner text);
      alter table parted attach partition parted_b for values in ('b')`);
    await protect('parted', `'shop/' || NEW.owner`);
    await pool.query(`create table parted_c partition of parted for values in ('c')`);
    await refused(pool.query(`insert into parted values ('b', 1)`), 'shop/b');
    await refused(pool.query(`insert into parted_b values (1, 'b')`), 'shop/b');
    await refused(pool.query(`insert into parted values ('c', 1)`), 'shop/c');
    await guarded(b, `insert into parted values ('b', 1)`, `insert into parted_b values (2, 'b')`);
    await refused(guarded(b, `update parted set owner = 'a'`), 'shop/a');
    await guarded(b, fence.guardSql(a), `update parted set owner = 'a' where v = 1`);
    for (const table of ['parted', 'parted_a', 'parted_b']) await refused(pool.query(`truncate ${table}`));
    expect(await rows('parted')).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
    await pool.query(`select leasehold.unprotect('parted')`);
    await pool.query('truncate parted_b; drop table parted');
  });
});

describe('protect', () => {
  test('again: the expression is replaced', async () => {
    await protect('accounts', `'shop/' || case when NEW.v > 5 then 'b' else 'a' end`);
    await guarded(a, ROW);
    await refused(guarded(a, 'update accounts set v = 6'), 'shop/b');
    const { rows: left } =
      await pool.query(`select from pg_proc where proname like 'protect\\_%' and pronamespace = 'leasehold'::regnamespace
      and not exists (select from pg_trigger where tgfoid = pg_proc.oid)`);
    expect(left).toEqual([]);
  });

  test('unprotect takes it back, and says whether there was something', async () => {
    const unprotect = async (): Promise<unknown> =>
      (await pool.query(`select leasehold.unprotect('accounts') as was`)).rows[0].was;
    expect(await unprotect()).toBe(true);
    expect(await unprotect()).toBe(false);
    await pool.query(`${ROW}; truncate accounts`);
  });

  test.each([
    ['NEW.nothing', '42703'],
    ['no_function(NEW.owner)', '42883'],
    [`'shop/' || NEW.`, '42601'],
    [`NEW.owner; drop table accounts`, '42601'],
    [`NEW.owner) is not null or (true`, '42883'],
    ['NEW.v', '42883'],
    ['owner from accounts', '42601'],
    ['OLD.owner', '42P01'],
    ['array[1, 2] + NEW.v', '42883'],
    [' ', '22023'],
    [null, '22023'],
  ])('an expression that cannot work fails at once, and the old one stays: %j', async (expression, code) => {
    await expect(protect('accounts', expression as string)).rejects.toMatchObject({ code });
    await refused(pool.query(ROW));
    await guarded(a, ROW);
  });

  test('expressions may have comments, percent signs, quotes and dollars', async () => {
    await protect('accounts', `format('%s/%s', 'shop', NEW.owner) -- $body$ $leasehold$ ' % */ $1`);
    await refused(pool.query(ROW), 'shop/a');
    await guarded(a, ROW);
  });

  test('an expression means what it meant when it was given, whatever the search_path of who writes', async () => {
    await pool.query(`create schema one; create schema two; set search_path = public;
      create function one.name_of(text) returns text language sql as $$ select 'shop/' || $1 $$;
      create function two.name_of(text) returns text language sql as $$ select 'shop/b' $$`);
    await inTransaction(
      'set local search_path = one, public',
      `select leasehold.protect('accounts', 'name_of(NEW.owner)')`,
    );
    await refused(inTransaction('set local search_path = two, public', fence.guardSql(b), ROW), 'shop/a');
    await guarded(a, ROW);
    await pool.query(`select leasehold.unprotect('accounts'); drop schema one cascade; drop schema two cascade`);
  });

  test('whatever the table is called', async () => {
    for (const name of [`a"b'c`, 'Über %s', '"; drop table accounts; --', '$body$', 'new', 'select']) {
      const quoted = `"${name.replaceAll('"', '""')}"`;
      await pool.query(`create schema ${quoted}; create table ${quoted}.${quoted} (owner text)`);
      await protect(`${quoted}.${quoted}`, `'shop/' || NEW.owner`);
      await refused(pool.query(`insert into ${quoted}.${quoted} values ('a')`), name);
      await guarded(a, `insert into ${quoted}.${quoted} values ('a')`);
      await pool.query(`drop schema ${quoted} cascade`);
    }
  });

  test('views are refused, and children by inheritance are warned of', async () => {
    await pool.query('create view seen as select * from accounts; create table child () inherits (accounts)');
    await expect(protect('seen', 'NEW.owner')).rejects.toMatchObject({ code: '42809' });
    const client = await pool.connect();
    const notices: (string | undefined)[] = [];
    client.on('notice', ({ message }) => notices.push(message));
    await client.query(`select leasehold.protect('accounts', 'NEW.owner')`);
    client.release(true);
    expect(notices).toEqual([expect.stringContaining('children by inheritance')]);
  });
});

describe('bypass', () => {
  test('lets this transaction pass, says so aloud, and is recorded with its reason', async () => {
    await pool.query('delete from leasehold.bypasses');
    const client = await pool.connect();
    const notices: unknown[] = [];
    client.on('notice', ({ severity, message }) => notices.push([severity, message]));
    await client.query('begin');
    await client.query(`select leasehold.bypass('backfill of March')`);
    await client.query(ROW);
    await client.query('truncate accounts');
    await client.query('commit');
    await refused(client.query(ROW));
    client.release(true);
    expect(notices).toEqual([['NOTICE', expect.stringContaining('backfill of March')]]);
    const { rows: found } = await pool.query('select role, login, reason, at < now() as past from leasehold.bypasses');
    expect(found).toEqual([{ role: 'postgres', login: 'postgres', reason: 'backfill of March', past: true }]);
  });

  test('needs a reason', async () => {
    for (const reason of ['', '  \n', null]) {
      await expect(pool.query('select leasehold.bypass($1)', [reason])).rejects.toMatchObject({ code: '22023' });
    }
  });
});

test('protect calls nothing that somebody has put into a schema of the path', async () => {
  await pool.query('create table if not exists fooled (by text)');
  const fools: string[] = [];
  for (const [name, types] of [
    ['format', 'text, name, name'],
    ['format', 'text, text, text'],
    ['format', 'text, text'],
    ['quote_ident', 'name'],
    ['set_config', 'text, text, boolean'],
    ['current_setting', 'text'],
  ] as const) {
    fools.push(`public.${name}(${types})`);
    await pool.query(`create function public.${name}(${types}) returns text language plpgsql as
      $$ begin insert into fooled values ('${name}'); return ''; end $$`);
  }
  const path = 'public, pg_catalog';
  const client = await pool.connect();
  try {
    await client.query(`set search_path = ${path}`);
    await client.query(`select leasehold.protect('accounts', $$'shop/' || NEW.owner$$)`);
    expect((await client.query('show search_path')).rows).toEqual([{ search_path: path }]);
    expect((await client.query('select * from fooled')).rows).toEqual([]);
  } finally {
    await client.query('reset search_path');
    client.release();
    for (const fool of fools) await pool.query(`drop function ${fool}`);
  }
});
