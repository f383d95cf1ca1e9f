import { expect, test } from 'vitest';

import { ConfigError } from '../../src/errors.ts';
import { literal } from '../../src/postgres/literal.ts';

test('letters, digits, _ and - stay readable; the rest is written by code point', () => {
  expect(literal('resource', 'reports_2-b')).toBe("E'reports_2-b'");
  expect(literal('resource', 'shop/a b')).toBe("E'shop\\u002Fa\\u0020b'");
  expect(literal('resource', 'é\u2028')).toBe("E'\\u00E9\\u2028'");
  expect(literal('resource', '🦊')).toBe("E'\\U0001F98A'");
});

test('nothing is left that a client or PostgreSQL could read as its own', () => {
  const all = Array.from({ length: 0xd7ff }, (_, code) => String.fromCodePoint(code + 1)).join('');
  expect(literal('resource', all)).toMatch(/^E'(?:[A-Za-z0-9_-]|\\u[0-9A-F]{4})*'$/);
});

test.each(['a\0b', '\ud83e', 'a\udd8a', '\udd8a\ud83e'])('what PostgreSQL cannot store is refused: %j', (name) => {
  expect(() => literal('resource', name)).toThrow(ConfigError);
});
