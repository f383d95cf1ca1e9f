import { LeaseholdError, type Grant } from '@leasehold/core';
import { postgresFence, type PostgresFence, type PostgresFenceOptions } from '@leasehold/core/postgres';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';

import { connectPool, createSite, grantFor, isBlocked, type Site } from './support.ts';

let site: Site;
let pool: pg.Pool;
let fence: PostgresFence<pg.PoolClient>;
let grant: Grant;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url, { max: 12 });
  fence = postgresFence(pool);
});

afterAll(async () => {
  await pool.end();
  await site[Symbol.asyncDispose]();
});

beforeEach(async () => {
  grant = grantFor();
  await fence.activate(grant);
});

const append = (tx: pg.ClientBase, entry: string): Promise<unknown> =>
  tx.query('insert into log (resource, entry) values ($1, $2)', [grant.resource, entry]);

async function entries(): Promise<readonly string[]> {
  const { rows } = await pool.query<{ entry: string }>('select entry from log where resource = $1 order by at', [
    grant.resource,
  ]);
  return rows.map(({ entry }) => entry);
}

const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error: unknown) => error,
  );

/** Something that is waited for, and the hand that lets it happen. */
function gate(): { readonly passed: Promise<void>; open(): void } {
  let open = (): void => {};
  const passed = new Promise<void>((resolve) => (open = resolve));
  return { passed, open: () => open() };
}

describe('side by side', () => {
  test('ten bodies of one grant are inside at the same time', async () => {
    let inside = 0;
    const all = gate();
    const body = async (tx: pg.PoolClient): Promise<void> => {
      if (++inside === 10) all.open();
      await all.passed;
      await append(tx, 'in');
    };
    await Promise.all(Array.from({ length: 10 }, () => fence.write(grant, body)));
    expect(await entries()).toHaveLength(10);
  });

  test('so are the first writes of a grant that nobody has activated', async () => {
    const fresh = grantFor();
    let inside = 0;
    await Promise.all(Array.from({ length: 4 }, () => fence.write(fresh, async () => void inside++)));
    expect(inside).toBe(4);
  });

  test('activating again what is activated waits for nobody', async () => {
    await fence.write(grant, async () => fence.activate(grant));
  });

  test('a write inside a write of the same grant works, and commits on its own', async () => {
    const own = new Error('outer');
    const write = fence.write(grant, async (tx) => {
      await append(tx, 'outer');
      await fence.write(grant, (inner) => append(inner, 'inner'));
      throw own;
    });
    expect(await failure(write)).toBe(own);
    expect(await entries()).toEqual(['inner']);
  });

  test('in a pool of one it waits for itself, and is ended by its deadline', async () => {
    await using one = connectPool(site.url, { max: 1 });
    const small = postgresFence(one, { timeout: 200, idleTimeout: 100, lockTimeout: 101 });
    let inner: unknown;
    const write = small.write(grant, async () => {
      inner = await failure(small.write(grant, () => 'never'));
    });
    expect(await failure(write)).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect(inner).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    // The connection that came too late went back.
    expect(await small.write(grant, () => 'in')).toBe('in');
    expect(one.totalCount).toBe(one.idleCount);
  });
});

describe('a newer grant and an open transaction of the one before', () => {
  test('waits for it, and then sees what it has written', async () => {
    const later = grantFor(grant.resource);
    let activation: Promise<void> | undefined;
    await fence.write(grant, async (tx) => {
      activation = fence.activate(later);
      await isBlocked(pool, 1);
      await append(tx, 'before');
    });
    await activation;
    expect(await entries()).toEqual(['before']);
    expect(await failure(fence.write(grant, () => 'late'))).toMatchObject({ code: 'STALE_TOKEN' });
  });

  test('waits no longer than lockTimeout', async () => {
    const later = grantFor(grant.resource);
    const impatient = postgresFence(pool, { idleTimeout: 50, lockTimeout: 100 });
    await fence.write(grant, async (tx) => {
      const error = await failure(impatient.activate(later));
      expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
      expect((error as Error).message).toContain('a transaction of an earlier owner is open');
      await append(tx, 'in');
    });
    expect(await entries()).toEqual(['in']);
  });

  test('an owner that stands still in its transaction is ended, and knows that it wrote nothing', async () => {
    const strict = postgresFence(pool, { idleTimeout: 100 });
    const later = grantFor(grant.resource);
    const write = strict.write(grant, async (tx) => {
      await append(tx, 'lost');
      await strict.activate(later);
      await append(tx, 'lost as well');
    });
    const error = await failure(write);
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect(await entries()).toEqual([]);
  });

  test.each(['repeatable read', 'serializable'] as const)(
    'under %s as well: nothing that it wrote is missing from the snapshot of the next',
    async (isolation) => {
      // Not activated: the first write is the activation, and its first snapshot is older than the wait.
      const strict = postgresFence(pool, { isolation });
      const later = grantFor(grant.resource);
      const sum = async (tx: pg.ClientBase): Promise<number> => {
        const { rows } = await tx.query<{ n: number }>('select count(*)::int as n from log where resource = $1', [
          grant.resource,
        ]);
        return rows[0]!.n;
      };
      let next: Promise<number> | undefined;
      await fence.write(grant, async (tx) => {
        next = strict.write(later, sum);
        await isBlocked(pool, 1);
        await append(tx, 'before');
      });
      expect(await next).toBe(1);
      // And to a transaction of one's own it is said.
      const client = await pool.connect();
      await client.query(`begin isolation level ${isolation}`);
      const error = await failure(client.query(fence.guardSql(grantFor(grant.resource))));
      client.release(true);
      expect(error).toMatchObject({ code: 'LH004', hint: expect.stringContaining('leasehold.activate') });
    },
  );

  test('a conflict before the body has begun is tried again, as a new transaction', async () => {
    const strict = postgresFence(pool, { isolation: 'repeatable read' });
    const client = await pool.connect();
    await client.query('begin');
    await client.query('update leasehold.fence set changed_at = now() where resource = $1', [grant.resource]);
    let times = 0;
    const write = strict.write(grant, () => ++times);
    await isBlocked(pool, 1);
    // The row is another than in the snapshot of the guard: 40001.
    await client.query('commit');
    client.release();
    expect(await write).toBe(1);
  });
});

describe('the session of a transaction', () => {
  const settings = async (client: pg.ClientBase): Promise<unknown> =>
    (
      await client.query(`select current_setting('idle_in_transaction_session_timeout') as idle,
        current_setting('lock_timeout') as lock, current_setting('leasehold.guarded', true) as marks`)
    ).rows[0];

  test('has the limits until it ends, and keeps nothing afterwards', async () => {
    await using one = connectPool(site.url, { max: 1 });
    const small = postgresFence(one, { idleTimeout: '3s' });
    const before = await one.connect();
    expect(await settings(before)).toEqual({ idle: '0', lock: '0', marks: null });
    before.release();
    await small.write(grant, async (tx) => {
      expect(await settings(tx)).toMatchObject({ idle: '3s', lock: '0' });
      await tx.query('savepoint s');
      await tx.query('rollback to s');
      expect(await settings(tx)).toMatchObject({ idle: '3s', lock: '0' });
    });
    const after = await one.connect();
    expect(await settings(after)).toEqual({ idle: '0', lock: '0', marks: '' });
    after.release();
  });

  test('limits of its own that are lower stay, also where it waits', async () => {
    await using one = connectPool(site.url, {
      max: 1,
      options: '-c idle_in_transaction_session_timeout=700ms -c lock_timeout=2min',
    });
    const small = postgresFence(one, { idleTimeout: '3s' });
    const later = grantFor(grant.resource);
    await small.write(later, async (tx) => {
      expect(await settings(tx)).toMatchObject({ idle: '700ms', lock: '2min' });
    });
  });

  test('works whatever its defaults are', async () => {
    await using one = connectPool(site.url, {
      max: 1,
      options:
        '-c default_transaction_isolation=serializable -c default_transaction_read_only=on -c search_path= -c standard_conforming_strings=off -c client_min_messages=error',
    });
    const small = postgresFence(one);
    const later = grantFor(grant.resource);
    await small.activate(later);
    await small.write(later, async (tx) => {
      const { rows } = await tx.query('show transaction_isolation');
      expect(rows).toEqual([{ transaction_isolation: 'read committed' }]);
    });
    await small.seal(later.resource, later.fencingToken);
    expect(await small.highest(later.resource)).toEqual({ fencingToken: later.fencingToken, leaseId: null });
  });
});

describe('bad arguments', () => {
  test.each([
    [`null, 5, 'x'`, '22023'],
    [`'', 5, 'x'`, '22023'],
    [`'a', 5, 'x'`, '22023'],
    [`'/a', 5, 'x'`, '22023'],
    [`'n/', 5, 'x'`, '22023'],
    [`'n/a', null, 'x'`, '22023'],
    [`'n/a', 0, 'x'`, '22023'],
    [`'n/a', -1, 'x'`, '22023'],
    [`'n/a', 9007199254740992, 'x'`, '22023'],
    [`'n/a', 5, null`, '22023'],
    [`'n/a', 5, ''`, '22023'],
    [`'n/a', 9007199254740991, 'x'`, 'LH003'],
  ])('no function of SQL lets (%s) pass', async (args, code) => {
    for (const name of ['guard', 'admit', 'activate']) {
      await expect(pool.query(`select leasehold.${name}(${args})`)).rejects.toMatchObject({ code });
    }
  });

  test('nor a missing limit', async () => {
    for (const limits of ['null, 1', '0, 1', '1, null', '1, 0', '-1, 1']) {
      for (const name of ['guard', 'admit']) {
        await expect(pool.query(`select leasehold.${name}('n/a', 5, 'x', ${limits})`)).rejects.toMatchObject({
          code: '22023',
        });
      }
    }
    // Nor for a grant that was admitted before.
    await postgresFence(pool).activate(grant);
    for (const limits of ['null, 1', '0, 1', '1, null', '1, 0', '-1, 1']) {
      const sql = postgresFence(pool)
        .guardSql(grant)
        .replace(/\d+, \d+\)$/, `${limits})`);
      for (const each of [sql, sql.replace('.guard(', '.admit('), sql.replace('.guard(', '.guard_write(')]) {
        await expect(pool.query(each)).rejects.toMatchObject({ code: '22023' });
      }
    }
    await expect(pool.query(`select leasehold.activate('n/a', 5, 'x', null)`)).rejects.toMatchObject({ code: '22023' });
    await expect(pool.query(`select leasehold.seal('n/a', 5, null)`)).rejects.toMatchObject({ code: '22023' });
  });

  test('a single Client is refused', async () => {
    const client = new pg.Client(site.url);
    const make = (one: unknown): unknown => postgresFence(one as pg.Pool);
    expect(() => make(client)).toThrow(/cannot run two transactions side by side/);
    const lent = await pool.connect();
    expect(() => make(lent)).toThrow(/cannot run two transactions side by side/);
    lent.release();
  });
});

describe('a pool without a connection to give', () => {
  const limits: PostgresFenceOptions = { timeout: 100, idleTimeout: 50, lockTimeout: 51 };

  test('every call settles, and what comes late goes back', async () => {
    await using one = connectPool(site.url, { max: 1 });
    const small = postgresFence(one, limits);
    const taken = await one.connect();
    const calls = [
      small.activate(grant),
      small.write(grant, () => 'never'),
      small.seal(grant.resource, 1),
      small.highest(grant.resource),
    ];
    for (const { status, reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
      expect(status).toBe('rejected');
      expect(LeaseholdError.is(reason, 'FENCE_UNAVAILABLE')).toBe(true);
    }
    taken.release();
    await small.activate(grant);
    expect([one.totalCount, one.idleCount, one.waitingCount]).toEqual([1, 1, 0]);
  });

  test('a server that is not there is said to be so', async () => {
    await using nowhere = connectPool('postgres://postgres@127.0.0.1:1/postgres');
    const error = await failure(postgresFence(nowhere, limits).write(grant, () => 'never'));
    expect(error).toMatchObject({ code: 'FENCE_UNAVAILABLE', outcome: 'not-written' });
    expect((error as Error).message).toContain('ECONNREFUSED');
  });
});
