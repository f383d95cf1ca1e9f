import type { PGlite } from '@electric-sql/pglite';
import { postgresFence } from '@leasehold/core/postgres';
import { describeFence, fenceCases, runFenceCase } from '@leasehold/core/testing';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';

import {
  createPglite,
  createSite,
  grantFor,
  pgliteSubject,
  pgSubject,
  postgresJsSubject,
  type Site,
} from './support.ts';

let site: Site;
let db: PGlite;

beforeAll(async () => {
  [site, db] = await Promise.all([createSite(inject('postgresUrl')), createPglite()]);
});

afterAll(async () => {
  await Promise.all([site[Symbol.asyncDispose](), db.close()]);
});

const faults = ['loseAnswer', 'loseRequest', 'abandon'] as const;
const suites = [
  describeFence('PostgreSQL over pg', () => pgSubject(site.url), ['count', 'second', ...faults]),
  describeFence('PostgreSQL over postgres.js', () => postgresJsSubject(site.url), ['count', 'second', ...faults]),
  describeFence('PGlite', () => pgliteSubject(db), ['count', 'second']),
];

/** What isolation levels make a difference to. Bodies that count stand in a line, and here their snapshots come before it. */
const concurrent = fenceCases.filter(
  ({ name, needs }) =>
    !needs.includes('count') &&
    /lose no update$|under way|before the same data|admits like|at the same time|random order, .* run$/.test(name),
);

describe.each(['repeatable read', 'serializable'] as const)('PostgreSQL over pg, %s', (isolation) => {
  test.each(concurrent)('$name', async (fenceCase) => {
    await runFenceCase(fenceCase, () => pgSubject(site.url, { isolation }));
  });
});

test('only a PGlite, which has no connection to lose, leaves out a case', () => {
  const needing = fenceCases.filter(({ needs }) => needs.some((hook) => faults.some((fault) => fault === hook)));
  expect(suites.map(({ leftOut }) => leftOut)).toEqual([[], [], needing.map(({ name }) => name)]);
});

describe('PGlite, which has one connection', () => {
  const failure = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'no failure',
      (error: unknown) => error,
    );
  const notWritten = { code: 'FENCE_UNAVAILABLE', outcome: 'not-written' };
  const rows = async (resource: string): Promise<number> =>
    (await db.query('select from log where resource = $1', [resource])).rows.length;

  test('a body that swallows an error, or rolls back by itself, has written nothing', async () => {
    const [fence, grant] = [postgresFence(db), grantFor()];
    const insert = `insert into log (resource, entry) values ('${grant.resource}', 'entry')`;
    const swallowing = fence.write(grant, async (tx) => {
      await tx.query(insert);
      await failure(tx.query('select 1/0'));
    });
    expect(await failure(swallowing)).toMatchObject(notWritten);
    const rollingBack = fence.write(grant, async (tx) => {
      await tx.query(insert);
      await tx.rollback();
    });
    expect(await failure(rollingBack)).toMatchObject({ code: 'CONFIG', option: 'body' });
    expect(await rows(grant.resource)).toBe(0);
  });

  test('work that fails at COMMIT is told its own error', async () => {
    await db.exec('create table parts (id int primary key, whole int references parts deferrable initially deferred)');
    const write = postgresFence(db).write(grantFor(), (tx) => tx.query('insert into parts values (1, 99)'));
    expect(await failure(write)).toMatchObject({ code: '23503' });
  });

  test('a write inside a write waits for itself until its deadline, and leaves nothing behind', async () => {
    const fence = postgresFence(db, { timeout: 100, idleTimeout: 50, lockTimeout: 60 });
    const grant = grantFor();
    let inner: unknown;
    await fence.write(grant, async (tx) => {
      inner = await failure(fence.write(grant, (own) => own.query('select 1/0')));
      await tx.query(`insert into log (resource, entry) values ($1, 'outer')`, [grant.resource]);
    });
    expect(inner).toMatchObject(notWritten);
    expect(await rows(grant.resource)).toBe(1);
    expect(await fence.write(grant, () => 'in')).toBe('in');
  });
});
