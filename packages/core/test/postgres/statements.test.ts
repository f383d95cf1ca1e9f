import { expect, test } from 'vitest';

import { nameIn, Statements } from '../../src/postgres/statements.ts';

test('a grant that was changed since it was written last is written anew', () => {
  const statements = new Statements('leasehold', { idleMs: 1, lockMs: 2 });
  const grant = { resource: 'shop/a', fencingToken: 5, leaseId: 'x' };
  const written = (): string => statements.guard(grant);
  expect(written()).toBe(`select leasehold.guard(E'shop\\u002Fa', 5, E'x', 1, 2)`);
  expect(written()).toBe(`select leasehold.guard(E'shop\\u002Fa', 5, E'x', 1, 2)`);
  grant.fencingToken = 6;
  expect(written()).toBe(`select leasehold.guard(E'shop\\u002Fa', 6, E'x', 1, 2)`);
  grant.leaseId = 'y';
  expect(written()).toBe(`select leasehold.guard(E'shop\\u002Fa', 6, E'y', 1, 2)`);
  grant.resource = 'shop/b';
  expect(written()).toBe(`select leasehold.guard(E'shop\\u002Fb', 6, E'y', 1, 2)`);
});

test('what the guard answers names its transaction, or is refused', () => {
  expect(nameIn(['757 62656e6368 5s5000|00000001 1764524485.1'])).toEqual({
    xid: '757',
    place: '00000001 1764524485.1',
  });
  expect(nameIn(['757 62656e6368 |'])).toEqual({ xid: '757', place: '' });
  // What a user has set as the place of a session: nothing can be proved by it, and nothing is refused for it.
  expect(nameIn(['757 62 |a|b\nc'])).toEqual({ xid: '757', place: 'a|b\nc' });
  for (const answer of [true, null, undefined, '', '757', 'x 1|2', ' 757 62|x', { it: '757 62|x' }]) {
    expect(() => nameIn([answer])).toThrow('the guard answered');
  }
});
