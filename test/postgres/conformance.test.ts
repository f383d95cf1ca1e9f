import type { PGlite } from '@electric-sql/pglite';
import { describeFence, fenceCases, type FenceHook } from '@leasehold/core/testing';
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
  const needing = (...hooks: readonly FenceHook[]): readonly string[] =>
    fenceCases.filter(({ needs }) => needs.some((hook) => hooks.includes(hook))).map(({ name }) => name);
  const line = needing('count');
  expect(suites.map(({ leftOut }) => leftOut)).toEqual([[], line, line, [], needing(...faults)]);
});
