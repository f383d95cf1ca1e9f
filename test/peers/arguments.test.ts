import { expect, test } from 'vitest';

import { argumentsOf } from './arguments.ts';

const of = (text: string) =>
  argumentsOf(
    text.split(' ').filter((word) => word !== ''),
    ['killed', 'stopped'],
  );

test('without a word all are played', () => {
  expect(of('')).toEqual({ peers: undefined, proofs: undefined, leaseMs: 3000, repeat: 1, parallel: 2 });
  expect(of('--peer redlock-4 --proof stopped --lease 2000')).toMatchObject({
    ...{ peers: ['redlock-4'], proofs: ['stopped'], leaseMs: 2000 },
  });
  expect(of('--help')).toBeNull();
});

test.each([
  ['--peer redlock-4 --peer nosuch', /^--peer nosuch: there is no such peer; there are leasehold, /],
  ['--proof killed --proof nosuch', '--proof nosuch: there is no such proof; there are killed, stopped'],
  ['--lease 1000', '--lease is 1000: it must be a whole number from 1500'],
  ['--repeat 1.5', '--repeat is 1.5: it must be a whole number from 1'],
  ['--bogus', /^Unknown option '--bogus'/],
  ['redlock-4', /^Unexpected argument 'redlock-4'/],
])('%s is refused', (text, why) => {
  expect(() => of(text)).toThrow(why);
});
