import { expect, test } from 'vitest';

import { ConfigError } from '../../src/errors.ts';
import { schemaSql } from '../../src/postgres/index.ts';

test('sql/0001-fence.sql is the SQL of the sources', async () => {
  const again = 'to write it anew: npx vitest run --project unit packages/core/test/postgres/schema.test.ts -u';
  await expect(schemaSql(), again).toMatchFileSnapshot('../../sql/0001-fence.sql');
});

test('any client and any migration tool can send it: one statement, nothing of psql, and no parameters', () => {
  const sql = schemaSql();
  expect(sql.match(/\$leasehold\$/g)).toHaveLength(2);
  expect(sql.replace(/^--.*\n/, '')).toMatch(/^do \$leasehold\$\n[\s\S]*\nend \$leasehold\$;\n$/);
  expect(sql).not.toMatch(/^\s*\\/m);
  expect(sql).not.toMatch(/\$\d|\?|statement-breakpoint/);
});

test('another schema is named everywhere, and quoted: it may be a reserved word', () => {
  const sql = schemaSql({ schema: 'user' });
  expect(sql).toContain('create table "user".fence');
  expect(sql).not.toMatch(/leasehold\./);
});

test('what is no plain name of a schema is refused', () => {
  for (const schema of ['', 'A', 'a b', 'a.b', '1a', 'pg_x', 'é', "a'", 'a"b', 'x'.repeat(49), 5, null]) {
    expect(() => schemaSql({ schema: schema as string })).toThrow(ConfigError);
  }
  expect(() => schemaSql({ scheme: 'a' } as object)).toThrow(/scheme/);
});
