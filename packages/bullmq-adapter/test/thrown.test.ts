import { runInNewContext } from 'node:vm';
import { LeaseLostError } from '@leasehold/core';
import { DelayedError, RateLimitError, UnrecoverableError, WaitingChildrenError, WaitingError } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { asError, causesOf, codeOf, isControlError, isError, propertyOf } from '../src/thrown.ts';

function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

function trap(): never {
  throw new Error('do not look');
}

const lost = new LeaseLostError('reports', { reason: 'expired', leaseId: 'a', fencingToken: 1 });
const throwing = (property: string): Error => Object.defineProperty(new Error('mine'), property, { get: trap });
const endless = Object.defineProperty(new Error('mine'), 'cause', {
  get: () => Object.create(endless, { own: { value: 1 } }) as Error,
});

const itsOwnCause = new Error('mine');
itsOwnCause.cause = itsOwnCause;

const anything: readonly (readonly [string, unknown])[] = [
  ['undefined', undefined],
  ['null', null],
  ['a text', 'boom'],
  ['a number', 7],
  ['a symbol', Symbol('boom')],
  ['a function', trap],
  ['an object without a prototype', Object.create(null)],
  ['a revoked proxy', revoked({})],
  ['a revoked proxy of an error', revoked(new Error('mine'))],
  ['a frozen error', Object.freeze(new Error('mine'))],
  ['an error of another realm', runInNewContext('new TypeError("mine")')],
  ['an error whose cause throws', throwing('cause')],
  ['an error whose code throws', throwing('code')],
  ['an error whose name throws', throwing('name')],
  ['an error whose message throws', throwing('message')],
  ['an error whose stack throws', throwing('stack')],
  ['an error whose cause is a revoked proxy', new Error('mine', { cause: revoked({}) })],
  ['an error that is its own cause', itsOwnCause],
];

describe.each(anything)('%s', (_, thrown) => {
  it('can be looked at', () => {
    expect(() => [codeOf(thrown), causesOf(thrown), isControlError(thrown), isError(thrown)]).not.toThrow();
    expect(isControlError(thrown)).toBe(false);
    expect(codeOf(thrown)).toBeUndefined();
  });

  it('becomes what BullMQ can read', () => {
    const { message, name, stack } = asError(thrown);
    expect([typeof message, typeof name, typeof stack]).toEqual(['string', 'string', 'string']);
  });
});

describe('asError', () => {
  it('leaves what BullMQ can read', () => {
    const errors = [
      new Error(''),
      Object.freeze(new Error('mine')),
      runInNewContext('new Error("mine")') as Error,
      throwing('cause'),
      { message: 'only shaped like one' },
    ];
    for (const error of errors) expect(asError(error)).toBe(error);
  });

  it.each([
    [undefined, 'no Error was thrown but undefined'],
    ['boom', "no Error was thrown but 'boom'"],
    [{ status: 500 }, 'no Error was thrown but { status: 500 }'],
    [Symbol('boom'), 'no Error was thrown but Symbol(boom)'],
  ])('says that it was %o', (thrown, message) => {
    const error = asError(thrown);
    expect(error.message).toBe(message);
    expect(error.cause).toBe(thrown);
  });

  it('says it in a few words', () => {
    expect(asError('x'.repeat(1_000_000)).message.length).toBeLessThan(600);
  });

  it('runs nothing of what was thrown', () => {
    const thrown = { [Symbol.for('nodejs.util.inspect.custom')]: trap, toString: trap, toJSON: trap };
    expect(asError(thrown).message).toMatch(/^no Error was thrown but \{/);
  });
});

describe('codeOf and causesOf', () => {
  it('know an error of ours, and one that was made from it', () => {
    expect(codeOf(lost)).toBe('LEASE_LOST');
    const wrapped = new Error('the query failed', { cause: lost });
    expect(codeOf(wrapped)).toBeUndefined();
    expect(causesOf(wrapped)).toEqual([wrapped, lost]);
  });

  it('do not believe an outer error that cannot be read', () => {
    expect(codeOf(Object.defineProperty(new Error('outer', { cause: lost }), 'code', { get: trap }))).toBeUndefined();
  });

  it('come to an end', () => {
    expect(causesOf(itsOwnCause)).toEqual([itsOwnCause]);
    expect(causesOf(endless).length).toBeLessThan(100);
    expect(propertyOf(throwing('cause'), 'cause')).toBeUndefined();
  });
});

describe('isControlError', () => {
  it('knows what BullMQ knows, by name', () => {
    class DelayedErrorOfAnotherCopy extends Error {
      override name = 'DelayedError';
    }
    const errors = [
      new DelayedError(),
      new WaitingError(),
      new WaitingChildrenError(),
      new RateLimitError(),
      new UnrecoverableError('no'),
      new DelayedErrorOfAnotherCopy(),
      runInNewContext('Object.assign(new Error("later"), { name: "DelayedError" })'),
    ];
    for (const error of errors) expect(isControlError(error)).toBe(true);
    for (const other of [new Error('no'), 'DelayedError']) expect(isControlError(other)).toBe(false);
  });
});
