import { expect, test } from 'vitest';
import { matcher } from '../../src/commands/pattern.ts';

test.each([
  ['customer:*', 'customer:42', true],
  ['customer:*', 'customer:', true],
  ['customer:*', 'xcustomer:42', false],
  ['*:42', 'customer:42', true],
  ['a?c', 'abc', true],
  ['a?c', 'ac', false],
  ['a?c', 'a🎉c', true],
  ['a.c', 'abc', false],
  ['[ab]', '[ab]', true],
  ['*b*b', 'abcb', true],
  ['*b*c', 'abcb', false],
  ['', '', true],
  ['', 'a', false],
])('%j on %j: %s', (pattern, name, expected) => expect(matcher(pattern)(name)).toBe(expected));

test('a pattern of many stars is as fast as any', () => {
  const from = performance.now();
  expect(matcher(`${'*a'.repeat(60)}b`)('a'.repeat(256))).toBe(false);
  expect(performance.now() - from).toBeLessThan(500);
});
