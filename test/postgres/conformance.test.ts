import type { PGlite } from '@electric-sql/pglite';
import { describeFence } from '@leasehold/core/testing';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

import { createPglite, createSite, pgliteSubject, pgSubject, postgresJsSubject, type Site } from './support.ts';

let site: Site;
let db: PGlite;

beforeAll(async () => {
  [site, db] = await Promise.all([createSite(inject('postgresUrl')), createPglite()]);
});

afterAll(async () => {
  await Promise.all([site[Symbol.asyncDispose](), db.close()]);
});

const all = ['second', 'count'] as const;
const suites = [
  describeFence('PostgreSQL over pg', () => pgSubject(site.url), all),
  describeFence('PostgreSQL over pg, repeatable read', () => pgSubject(site.url, { isolation: 'repeatable read' }), [
    'second',
  ]),
  describeFence('PostgreSQL over pg, serializable', () => pgSubject(site.url, { isolation: 'serializable' }), [
    'second',
  ]),
  describeFence('PostgreSQL over postgres.js', () => postgresJsSubject(site.url), all),
  describeFence('PGlite', () => pgliteSubject(db), all),
];

test('no case of the suite is left out, but that of a line of siblings where snapshots are taken before it', () => {
  expect(suites.map(({ leftOut }) => leftOut.length)).toEqual([0, 1, 1, 0, 0]);
});
