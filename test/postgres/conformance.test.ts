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

const faults = ['loseAnswer', 'loseRequest', 'abandon'] as const;
/** Bodies that count would have to stand in a line of siblings, and here their snapshots are taken before it. */
const snapshot = ['second', ...faults] as const;
const suites = [
  describeFence('PostgreSQL over pg', () => pgSubject(site.url), ['count', ...snapshot]),
  describeFence(
    'PostgreSQL over pg, repeatable read',
    () => pgSubject(site.url, { isolation: 'repeatable read' }),
    snapshot,
  ),
  describeFence('PostgreSQL over pg, serializable', () => pgSubject(site.url, { isolation: 'serializable' }), snapshot),
  describeFence('PostgreSQL over postgres.js', () => postgresJsSubject(site.url), ['count', ...snapshot]),
  describeFence('PGlite', () => pgliteSubject(db), ['count', 'second']),
];

test('only a PGlite, which has no connection to lose, leaves out more than the case of siblings in a line', () => {
  expect(suites.map(({ leftOut }) => leftOut.length)).toEqual([0, 1, 1, 0, faults.length]);
});
