import { describe, expect, test } from 'vitest';

import { ConfigError, findStale, LeaseholdError } from '../src/errors.ts';
import {
  isAuthFailure,
  isNoScript,
  isRefusal,
  isSelectFailure,
  isUnsent,
  withoutCommand,
} from '../src/redis/failure.ts';
import { given, isError, messageOf, propertyOf } from '../src/thrown.ts';
import { unreadable } from './thrown.ts';

describe('looking at what was thrown', () => {
  test.each(unreadable)('never throws itself: %s', (_, make) => {
    const thrown = make();
    expect(typeof messageOf(thrown)).toBe('string');
    expect(typeof isError(thrown)).toBe('boolean');
    expect(propertyOf(thrown, 'code')).toBeUndefined();
    expect(LeaseholdError.of(thrown)).toBeUndefined();
    expect(LeaseholdError.is(thrown, 'CONFIG')).toBe(false);
    expect(findStale(thrown)).toBeUndefined();
    for (const is of [isAuthFailure, isNoScript, isRefusal, isSelectFailure, isUnsent]) expect(is(thrown)).toBe(false);
    withoutCommand(thrown);
  });

  test('says what it says of itself', () => {
    expect(messageOf(new Error('no room'))).toBe('no room');
    expect(messageOf('a text')).toBe('a text');
    expect(messageOf(Symbol('x'))).toBe('Symbol(x)');
    expect(messageOf(Object.create(null))).toBe('something was thrown that cannot be looked at');
  });

  test('causes without an end do not keep it', () => {
    class Endless extends Error {
      override get cause(): unknown {
        return new Endless('next');
      }
    }
    expect(LeaseholdError.is(new Endless('first'))).toBe(false);
    const copy = withoutCommand(new Endless('first')) as Error;
    expect((copy.cause as Error).message).toBe('next');
  });
});

describe('a function among the options', () => {
  test('that throws is a wrong option, with its error as the cause', () => {
    const cause = new Error('no such table');
    const call = (): never =>
      given('key', () => {
        throw cause;
      });
    expect(call).toThrow('CONFIG: key: threw: no such table');
    expect(call).toThrow(expect.objectContaining({ option: 'key', cause }));
  });

  test('that says so itself is taken at its word', () => {
    const own = new ConfigError('resource', 'is no name');
    const call = (): never =>
      given('path', () => {
        throw own;
      });
    expect(call).toThrow(own);
  });
});
