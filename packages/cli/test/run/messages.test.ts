import { LeaseLostError } from '@leasehold/core';
import { expect, test } from 'vitest';

import { errorOf, ours, plainOf } from '../../src/run/isolated/messages.ts';

test.each([
  [null],
  [undefined],
  ['ready'],
  [1],
  [[]],
  [{}],
  [{ type: 'done' }],
  [{ key: 'another', message: { type: 'done' } }],
])('%o, sent by a handler itself, is no message of ours', (sent) => {
  expect(ours(sent, 'key')).toBeUndefined();
});

test('a message with the key of its place is ours', () => {
  expect(ours({ key: 'key', message: { type: 'done', value: 1 } }, 'key')).toEqual({ type: 'done', value: 1 });
});

function refuse(): never {
  throw new TypeError('not to be looked at');
}

const opaque = new Proxy({}, { get: refuse, getPrototypeOf: refuse, has: refuse, ownKeys: refuse });
const guarded = Object.defineProperty(new Error('guarded'), 'reason', { get: refuse });

test.each([
  ['null', null, 'no Error was thrown but null'],
  ['a text', 'broken', "no Error was thrown but 'broken'"],
  ['a symbol', Symbol('broken'), 'no Error was thrown but Symbol(broken)'],
  ['an object', { broken: true }, 'no Error was thrown but { broken: true }'],
  ['a proxy that throws', opaque, 'what was thrown cannot be read: it throws when it is looked at'],
  ['an error with a getter that throws', guarded, 'guarded'],
  ['an error whose message is none', Object.assign(new Error('x'), { message: Symbol('x') }), ''],
])('%s, thrown in another thread or process, is told of and can be copied', (_what, thrown, told) => {
  const plain = structuredClone(plainOf(thrown));
  expect(plain).toMatchObject({ name: 'Error', message: told });
  expect(errorOf(plain).message).toBe(told);
});

test('an error of ours keeps its code and its reason', () => {
  const lost = new LeaseLostError('reports', { reason: 'expired', leaseId: 'id', fencingToken: 7 });
  expect(plainOf(lost)).toMatchObject({ name: 'LeaseLostError', code: 'LEASE_LOST', reason: 'expired' });
});
