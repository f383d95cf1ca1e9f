import { expect, test } from 'vitest';
import { sameStore } from '../../src/output/again.ts';

test('a proposed command asks the same store, under the same prefix', () => {
  expect(sameStore({})).toBe('');
  expect(sameStore({ url: 'redis://cache-3:6379/2', prefix: 'shop floor' })).toBe(
    " -u redis://cache-3:6379/2 --prefix 'shop floor'",
  );
  const files = { cacert: 'ca.pem', cert: 'c.pem', key: 'k.pem', sni: 'cache' };
  expect(sameStore({ config: 'a.yaml', ...files, tls: true, cluster: true })).toBe(
    ' -c a.yaml --cacert ca.pem --cert c.pem --key k.pem --sni cache --tls --cluster',
  );
});

test('and has no password in it', () => {
  expect(sameStore({ url: 'rediss://ops:hunter2@cache-3:6379' })).toBe(' -u rediss://ops@cache-3:6379');
  expect(sameStore({ url: 'redis://:hunter2@cache-3:6379' })).not.toContain('hunter2');
});
