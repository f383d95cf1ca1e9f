import { checkJobName, checkPrefix, checkResourceName, qualify } from '@leasehold/core';
import { describe, expect, test } from 'vitest';

import { fileName } from '../src/conditional/file/name.ts';
import { checkLeaseId, checkQualifiedName } from '../src/names.ts';

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

  test('a qualified name has a namespace before its first slash, and a resource after it', () => {
    for (const good of ['a/b', 'a/b/c', 'a//', 'a/ ', `${'n'.repeat(64)}/${'x'.repeat(256)}`])
      expect(() => checkQualifiedName('resource', good)).not.toThrow();
    for (const bad of [
      '',
      'a',
      '/',
      '/a',
      'a/',
      ' a/b',
      '../a',
      'a/\n',
      'a/\0',
      'a/\ud800',
      `${'n'.repeat(65)}/x`,
      5,
      null,
    ])
      expect(() => checkQualifiedName('resource', bad)).toThrow(/^CONFIG: resource: /);
    expect(() => checkQualifiedName('resource', 'a')).toThrow('must be a qualified name');
  });

  test('a leaseId is short, and can be told from every other one', () => {
    for (const good of ['x', ' ', "'", 'é', 'x'.repeat(256)]) expect(() => checkLeaseId('leaseId', good)).not.toThrow();
    for (const bad of ['', 'x'.repeat(257), '\n', '\0', '\udc00', 5, null])
      expect(() => checkLeaseId('leaseId', bad)).toThrow(/^CONFIG: leaseId: /);
  });

  test('halves of surrogate pairs have no file name: all of them would have one', () => {
    for (const bad of ['a/\ud800', 'a/\ud801', 7]) expect(() => fileName(bad as string)).toThrow(/^CONFIG: resource: /);
    expect(fileName('a/🦊')).toBe('a~2f~f0~9f~a6~8a');
  });

  test('qualified names cannot collide', () => {
    expect(qualify('shop', 'x/y')).not.toBe(qualify('shop.x', 'y'));
    expect(() => checkPrefix('prefix', 'shop/x')).toThrow(/is not a prefix/);
  });
});
