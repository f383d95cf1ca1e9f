import type { Grant, Holding } from '@leasehold/core';
import { postgresFence, schemaSql, type PostgresFence } from '@leasehold/core/postgres';
import { fenceCases, runFenceCase } from '@leasehold/core/testing';
import type pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

import { checks, sqlMutants, waits, type Bench } from './mutants.ts';
import { connectPool, createSite, pgSubject, type Site } from './support.ts';

let site: Site;
let pool: pg.Pool;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url);
});

afterAll(async () => {
  await pool.end();
  await site[Symbol.asyncDispose]();
});

async function bench(schema: string, sql: string): Promise<Bench> {
  await pool.query(sql);
  return { pool, schema, fence: postgresFence(pool, { schema }) };
}

/** Resolves if the case, or the check, finds nothing wrong. */
async function passes(name: string, on: Bench): Promise<void> {
  await pool.query(`truncate ${on.schema}.fence; update ${on.schema}.horizon set token = 0`);
  const check = checks[name];
  if (check !== undefined) return check(on);
  const found = fenceCases.find((each) => each.name === name);
  if (found === undefined) throw new Error(`no case and no check is called ${name}`);
  await runFenceCase(found, () => pgSubject(site.url, { schema: on.schema }));
}

test('a schema without an error passes all that the errors are found by', async () => {
  const sound = await bench('sound', schemaSql({ schema: 'sound' }));
  for (const name of new Set(sqlMutants.map(({ foundBy }) => foundBy))) await passes(name, sound);
});

test.each(sqlMutants.map((mutant, index) => ({ ...mutant, schema: `mutant_${index}` })))(
  'found: SQL that $does',
  async ({ replaced, foundBy, schema }) => {
    let sql = schemaSql({ schema });
    for (const [what, by] of replaced) {
      const changed = sql.replaceAll(typeof what === 'string' ? what : new RegExp(what, 'g'), () =>
        by.replaceAll('SCHEMA', schema),
      );
      expect(changed, `${String(what)} is in the SQL`).not.toBe(sql);
      sql = changed;
    }
    const mutant = await bench(schema, sql);
    const missed = await passes(foundBy, mutant).then(
      () => true,
      () => false,
    );
    expect(missed, `${foundBy} did not find it`).toBe(false);
  },
);

/** Asks the fence, and then writes in another transaction. */
class CheckThenWrite {
  readonly name = 'check then write';
  readonly enforcing = true;
  readonly #fence: PostgresFence<pg.PoolClient>;
  readonly seal;
  readonly highest;

  constructor(fence: PostgresFence<pg.PoolClient>) {
    this.#fence = fence;
    this.seal = fence.seal.bind(fence);
    this.highest = fence.highest.bind(fence);
  }

  activate(grant: Grant | Holding): Promise<void> {
    return this.#fence.activate(grant);
  }

  async write<T>(grant: Grant | Holding, body: (tx: pg.PoolClient) => T | Promise<T>): Promise<T> {
    await this.#fence.write(grant, () => {});
    const client = await pool.connect();
    try {
      await client.query('begin');
      const value = await body(client);
      await client.query('commit');
      return value;
    } finally {
      client.release();
    }
  }
}

test('found: a fence that checks in a transaction of its own', async () => {
  const fence = postgresFence(pool);
  await waits(pool, fence);
  await expect(waits(pool, new CheckThenWrite(fence))).rejects.toThrow('let in while');
});
