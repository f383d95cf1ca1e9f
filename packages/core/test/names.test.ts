import { checkJobName, checkPrefix, checkResourceName, qualify } from '@leasehold/core';
import { describe, expect, test } from 'vitest';

describe('names', () => {
  test.each([
    'r',
    'customer:42',
    'a/b',
    '{x}',
    'a}b',
    '%7D',
    ' ',
    'ü',
    '🦊',
    'x'.repeat(256),
    '€'.repeat(85),
    '__proto__',
  ])('a resource may be called %j', (name) => expect(() => checkResourceName('resource', name)).not.toThrow());

  test.each([
    '',
    'x'.repeat(257),
    '€'.repeat(86),
    'a\u0000b',
    'a\u007fb',
    'a\u0085b',
    'a\u2028b',
    '\ud83e',
    '\udd8a',
    7,
    null,
    ['a'],
  ])('a resource may not be called %j', (name) =>
    expect(() => checkResourceName('resource', name)).toThrow(/^CONFIG: resource: /),
  );

  test('prefixes and job names are stricter', () => {
    for (const good of ['leasehold', 'shop.eu-1_a', 'a'.repeat(64)])
      expect(() => checkPrefix('prefix', good)).not.toThrow();
    for (const bad of ['', 'a/b', '-a', '{a}', 'a b', 'a'.repeat(65), 1])
      expect(() => checkPrefix('prefix', bad)).toThrow(/prefix/);
    for (const good of ['nightly-report', 'shop:import', 'a.b_c'])
      expect(() => checkJobName('job', good)).not.toThrow();
    for (const bad of ['', '__proto__', 'a b', 'a{b', 'a'.repeat(129)])
      expect(() => checkJobName('job', bad)).toThrow(/job/);
  });

  test('qualified names cannot collide', () => {
    expect(qualify('shop', 'x/y')).not.toBe(qualify('shop.x', 'y'));
    expect(() => checkPrefix('prefix', 'shop/x')).toThrow(/is not a prefix/);
  });
});
