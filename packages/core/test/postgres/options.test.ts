import { describe, expect, test } from 'vitest';

import { ConfigError } from '../../src/errors.ts';
import { postgresFence, type PostgresFenceOptions } from '../../src/postgres/index.ts';

const client = {
  connect: async () => {
    throw new Error('not here');
  },
  query: () => {},
};

const fence = (options: object): unknown => postgresFence(client, options as PostgresFenceOptions);

describe('options that cannot work are refused by name', () => {
  test.each([
    ['retries', { retries: 3 }],
    ['name', { name: '' }],
    ['schema', { schema: 'Leasehold' }],
    ['schema', { schema: 'pg_fence' }],
    ['schema', { schema: 'a"; drop table x; --' }],
    ['schema', { schema: `a${'b'.repeat(48)}` }],
    ['timeout', { timeout: 0 }],
    ['timeout', { timeout: Infinity }],
    ['timeout', { timeout: '5 s' }],
    ['idleTimeout', { idleTimeout: 0 }],
    ['lockTimeout', { lockTimeout: '5s' }],
    ['lockTimeout', { idleTimeout: '10s', lockTimeout: '9s' }],
    ['isolation', { isolation: 'snapshot' }],
    ['isolation', { isolation: 'read committed; drop table x' }],
  ])('%s: %j', (option, options) => {
    expect(() => fence(options)).toThrow(ConfigError);
    expect(() => fence(options)).toThrow(expect.objectContaining({ option }));
  });

  test('lockTimeout follows idleTimeout', () => {
    expect(fence({ idleTimeout: '30s' })).toMatchObject({ name: 'postgres', enforcing: true });
  });
});

describe('clients', () => {
  const nothing = (): void => {};

  test('a single Client is refused, and why', () => {
    for (const more of [{ escapeIdentifier: nothing }, { release: nothing }, { getTypeParser: nothing }]) {
      expect(() => postgresFence({ ...client, ...more })).toThrow(/cannot run two transactions side by side/);
    }
  });

  test('a transaction of postgres.js is refused, and so is whatever else', () => {
    const tx = { unsafe: nothing, begin: nothing, savepoint: nothing };
    expect(() => postgresFence(tx as never)).toThrow(/client: is a transaction/);
    for (const other of [undefined, null, 'postgres://localhost', {}, { query: nothing }]) {
      expect(() => postgresFence(other as never)).toThrow(/must be a Pool of pg/);
    }
  });
});
