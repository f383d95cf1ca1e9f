import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { fileName } from '@leasehold/core/conditional';

/** Names that are alike: from few characters, some of them the ones that names are encoded with. */
const hostile = fc.array(
  fc.constantFrom(
    'a',
    'A',
    'b',
    '%',
    '%25',
    '%2f',
    '~',
    '/',
    '.',
    '..',
    '\\',
    ' ',
    'é',
    'e\u0301',
    '🦊',
    'ﬁ',
    ':',
    '\u0000',
  ),
  { minLength: 1, maxLength: 60 },
);
const names = fc.oneof(
  hostile.map((parts) => parts.join('')),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 }),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 100 }),
);
/** As a file system may see it that takes cases and spellings for one. */
const folded = (name: string): string => fileName(name).toLowerCase().normalize('NFKC');

describe('the file name of a resource', () => {
  test.each([
    ['shop/pears', 'shop~2fpears'],
    ['shop/customer:42', 'shop~2fcustomer~3a42'],
    ['Shop/é', '~53hop~2f~c3~a9'],
    ['a/..', 'a~2f~2e~2e'],
    ['x_y-z', 'x_y-z'],
  ])('%s is %s', (resource, name) => {
    expect(fileName(resource)).toBe(name);
  });

  test('is never that of another one', () => {
    fc.assert(
      fc.property(names, names, (one, other) => one === other || folded(one) !== folded(other)),
      { numRuns: 3000 },
    );
  });

  test('is safe, and not long', () => {
    const longest = `${'x'.repeat(64)}/${'🦊'.repeat(64)}`;
    fc.assert(
      fc.property(fc.oneof(names, fc.constant(longest)), (name) => {
        expect(fileName(name)).toMatch(/^(?:[a-z0-9_-]|~[0-9a-f]{2})+(?:\.[0-9a-f]{64})?$/);
        expect(fileName(name).length).toBeLessThanOrEqual(129);
        expect(new URL(`http://127.0.0.1/${fileName(name)}`).pathname).toBe(`/${fileName(name)}`);
        expect(encodeURIComponent(fileName(name))).toBe(fileName(name));
      }),
      { numRuns: 300 },
    );
  });

  test('has the resource in it while it is short', () => {
    fc.assert(
      fc.property(names, (name) => {
        const file = fileName(name);
        fc.pre(!file.includes('.'));
        expect(decodeURIComponent(file.replaceAll('~', '%'))).toBe(Buffer.from(name).toString());
      }),
    );
  });

  test('two long names that differ at their end only have two names', () => {
    const stem = `shop/${'x'.repeat(240)}`;
    expect(fileName(`${stem}1`)).not.toBe(fileName(`${stem}2`));
    // Nor does a short one have the name of a long one.
    expect(fileName(fileName(`${stem}1`))).not.toBe(fileName(`${stem}1`));
  });
});
