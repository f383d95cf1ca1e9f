import type { Grant } from '@leasehold/core';
import { postgresFence, type PostgresFence } from '@leasehold/core/postgres';
import fc from 'fast-check';
import type pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';

import { connectPool, connectPostgresJs, createSite, grantFor, type Site } from './support.ts';

let site: Site;
let pool: pg.Pool;
let fence: PostgresFence<pg.PoolClient>;

beforeAll(async () => {
  site = await createSite(inject('postgresUrl'));
  pool = connectPool(site.url);
  fence = postgresFence(pool);
});

afterAll(async () => {
  await pool.end();
  await site[Symbol.asyncDispose]();
});

/** Pieces that mean something to SQL, to a client, or to the protocol. */
const pieces = [
  `'`,
  `"`,
  '\\',
  '\\u0027',
  `E'`,
  '?',
  '??',
  '$1',
  ':a',
  '%s',
  '{}',
  '${x}',
  '--',
  '/*',
  '*/',
  ';',
  '$$',
  ' ',
  '',
  '/',
  '\u{1F98A}',
  'e\u0301',
  '\ufeff',
  '\uffff',
  '\u{10ffff}',
  'drop table log',
];
const hostile = fc
  .array(fc.oneof(fc.constantFrom(...pieces), fc.string({ unit: 'binary', maxLength: 8 })), {
    minLength: 1,
    maxLength: 6,
  })
  // No name and no leaseId has control characters.
  .map((parts) => parts.join('').replace(/[\p{Cc}\u2028\u2029]/gu, ''));

/** Each sends a statement as it is. */
type Send = (sql: string) => Promise<unknown>;

test('what SQL gets is the name and the leaseId, byte for byte, whoever sends it', async () => {
  await using sql = connectPostgresJs(site.url);
  const sends: Send[] = [
    (text) => pool.query(text),
    // The extended protocol, with a parameter list that is empty.
    (text) => pool.query({ text, values: [], name: '' }),
    (text) => sql.unsafe(text),
    (text) => sql.unsafe(text, [], { prepare: true, simple: false } as never),
  ];
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(hostile, hostile, async (name, leaseId) => {
      fc.pre(name !== '' && leaseId !== '');
      const grant = { ...grantFor(`test/${name}`), leaseId };
      const written = [fence.guardSql(grant), fence.activateSql(grant), fence.admitSql(grant)][runs % 3]!;
      expect(written).toMatch(/^select leasehold\.[a-z]+\(E'[\w\\-]*', \d+, E'[\w\\-]*'(?:, \d+)+\)$/);
      await sends[runs++ % sends.length]!(written);
      const { rows } = await pool.query<{ resource: Buffer; lease_id: Buffer; token: string }>(
        `select convert_to(resource, 'UTF8') as resource, convert_to(lease_id, 'UTF8') as lease_id, token
         from leasehold.fence where token = $1`,
        [grant.fencingToken],
      );
      expect(rows).toHaveLength(1);
      expect(rows[0]!.resource.equals(Buffer.from(grant.resource))).toBe(true);
      expect(rows[0]!.lease_id.equals(Buffer.from(leaseId))).toBe(true);
      expect(await fence.highest(grant.resource)).toEqual({ fencingToken: grant.fencingToken, leaseId });
    }),
    { numRuns: 150 },
  );
});

test('what PostgreSQL cannot store is refused before it is sent', async () => {
  for (const bad of ['a\0b', 'half \ud83e', '\udd8a']) {
    for (const grant of [grantFor(bad), { ...grantFor(), leaseId: bad }]) {
      for (const make of [fence.guardSql, fence.activateSql, fence.admitSql]) {
        expect(() => make.call(fence, grant)).toThrow(expect.objectContaining({ code: 'CONFIG' }));
      }
      await expect(fence.activate(grant)).rejects.toMatchObject({ code: 'CONFIG' });
      await expect(fence.write(grant, () => 'in')).rejects.toMatchObject({ code: 'CONFIG' });
    }
    await expect(fence.highest(bad)).rejects.toMatchObject({ code: 'CONFIG' });
    await expect(fence.seal(bad, 5)).rejects.toMatchObject({ code: 'CONFIG' });
  }
});

test('only whole safe numbers above 0 are tokens', async () => {
  const bad: unknown[] = [
    0,
    -1,
    2 ** 53,
    1.5,
    NaN,
    Infinity,
    '5',
    '1e3',
    '007',
    '5; drop table log',
    5n,
    null,
    undefined,
    [5],
    { valueOf: () => 5 },
  ];
  for (const fencingToken of bad) {
    const grant = { ...grantFor(), fencingToken } as Grant;
    for (const make of [fence.guardSql, fence.activateSql, fence.admitSql]) {
      expect(() => make.call(fence, grant)).toThrow(expect.objectContaining({ code: 'CONFIG' }));
    }
    await expect(fence.activate(grant)).rejects.toMatchObject({ code: 'CONFIG' });
    await expect(fence.write(grant, () => 'in')).rejects.toMatchObject({ code: 'CONFIG' });
    await expect(fence.seal('test/a', fencingToken as number)).rejects.toMatchObject({ code: 'CONFIG' });
  }
});
