import { describe, expect, test } from 'vitest';

import { StaleTokenError } from '../../src/errors.ts';
import { sqlErrorOf, staleIn } from '../../src/postgres/refusal.ts';

const detail = JSON.stringify({ resource: 'shop/a', fencingToken: 5, highest: { fencingToken: 9, leaseId: 'x' } });
const message = 'leasehold: token 5 of shop/a is stale, 9 was admitted';
const refusal = Object.assign(new Error(message), { code: 'LH001', severity: 'ERROR', detail });

const wrapped: Record<string, unknown> = {
  'pg and Knex': refusal,
  Drizzle: new Error('Failed query', { cause: refusal }),
  'Prisma 7': Object.assign(new Error('Raw query failed'), {
    code: 'P2010',
    meta: {
      driverAdapterError: {
        name: 'DriverAdapterError',
        cause: { originalCode: 'LH001', code: 'LH001', message, detail },
      },
    },
  }),
  TypeORM: Object.assign(new Error('QueryFailedError'), { driverError: refusal }),
  Sequelize: Object.assign(new Error('SequelizeDatabaseError'), { parent: refusal, original: refusal }),
  'several of them': new Error('a', {
    cause: new Error('b', { cause: Object.assign(new Error('c'), { driverError: refusal }) }),
  }),
};

describe('the refusal is found', () => {
  test.each(Object.keys(wrapped))('in what %s throws', (who) => {
    expect(staleIn(wrapped[who], 'ledger')).toMatchObject({
      code: 'STALE_TOKEN',
      resource: 'shop/a',
      fencingToken: 5,
      fence: 'ledger',
      highest: { fencingToken: 9, leaseId: 'x' },
    });
  });

  test('where the client drops the DETAIL, with the numbers of its message', () => {
    const bare = Object.assign(new Error(message), { code: 'LH001' });
    expect(staleIn(bare, 'ledger')).toMatchObject({
      resource: 'shop/a',
      fencingToken: 5,
      highest: { fencingToken: 9, leaseId: null },
    });
  });

  test('where another program wrote the DETAIL', () => {
    for (const other of ['', '{', 'null', '[]', '{"fencingToken":"5"}']) {
      expect(staleIn(Object.assign(new Error(message), { code: 'LH001', detail: other }), 'x')?.fencingToken).toBe(5);
    }
  });

  test('as the error that a write has made of it', () => {
    const stale = new StaleTokenError('shop/a', {
      fence: 'f',
      fencingToken: 5,
      highest: { fencingToken: 9, leaseId: null },
    });
    expect(staleIn(new Error('job failed', { cause: stale }), 'ledger')).toBe(stale);
  });
});

test('what says nothing of a refusal is none, whatever it is', () => {
  const circle = new Error('circle');
  circle.cause = circle;
  const wide = new Error('wide', {
    cause: Object.fromEntries(Array.from({ length: 99 }, (_, i) => [`k${i}`, refusal])),
  });
  const thrower = new Proxy(new Error('thrower'), {
    get() {
      throw new Error('no');
    },
  });
  const { proxy: revoked, revoke } = Proxy.revocable({}, {});
  revoke();
  const others = [
    circle,
    wide,
    thrower,
    revoked,
    null,
    undefined,
    'LH001',
    1,
    { code: 1 },
    Object.assign(new Error('x'), { code: '40001' }),
  ];
  for (const other of others) expect(staleIn(other, 'ledger')).toBeUndefined();
});

test('codes of the operating system and of Prisma are no SQLSTATEs', () => {
  for (const code of ['EPIPE', 'EBUSY', 'P2010', 'P1001', 'ECONNRESET', '57p01', '1234']) {
    expect(sqlErrorOf(Object.assign(new Error('x'), { code }))).toBeUndefined();
  }
  for (const code of ['57P01', 'P0001', 'LH001', 'XX000', '23505', 'HV000']) {
    expect(sqlErrorOf(Object.assign(new Error('x'), { code }))?.code).toBe(code);
  }
});
