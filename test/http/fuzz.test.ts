import { checkResourceName, qualify, type Grant } from '@leasehold/core';
import { fencingHeaders, parseFencing, signer, verifier } from '@leasehold/core/http';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

const keys = { old: 'x'.repeat(32), new: 'y'.repeat(64) };
const sign = signer({ keys, current: 'new' });
const verify = verifier({ keys });

function isName(text: string): boolean {
  try {
    checkResourceName('resource', text);
    return true;
  } catch {
    return false;
  }
}

// Whole characters of all planes, half ones, and what HTTP, URLs, logs and files give a meaning to.
const anyText = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 80 }),
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 }).map((units) => String.fromCharCode(...units)),
  fc
    .array(
      fc.constantFrom(
        ...Array.from('\r\n\t\0 ,;:="\\/%?#&+.\'()<>@[]{}~!*-_aA0é\u0301🦊\u2028\u00a0\u00ff'),
        '\ud800',
        '\udc00',
      ),
      { maxLength: 40 },
    )
    .map((characters) => characters.join('')),
);
const anyName = anyText.filter(isName);
const anyPrefix = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/);
const anyToken = fc.oneof(
  fc.integer({ min: 1, max: 100 }),
  fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  fc.integer({ min: Number.MAX_SAFE_INTEGER - 3, max: Number.MAX_SAFE_INTEGER }),
);
const anyGrant: fc.Arbitrary<Grant> = fc.record({
  resource: fc.tuple(anyPrefix, anyName).map(([prefix, name]) => qualify(prefix, name)),
  fencingToken: anyToken,
  leaseId: fc.oneof(fc.stringMatching(/^[0-9a-f]{32}$/), anyName),
});

function refusal(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

describe('what is sent is what is read', () => {
  test('every grant there can be, through real headers', () => {
    fc.assert(
      fc.property(anyGrant, (grant) => {
        const written = fencingHeaders(grant, { sign });
        // Throws for whatever is no legal header.
        const headers = new Headers(written);
        for (const value of Object.values(written)) expect(value).toMatch(/^[\u0021-\u002b\u002d-\u007e]+$/);
        expect(parseFencing(headers, { resource: grant.resource, verify })).toEqual(grant);
      }),
      { numRuns: 1000 },
    );
  });

  test('no two grants are written alike, nor signed alike', () => {
    fc.assert(
      fc.property(anyGrant, anyGrant, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(fencingHeaders(one)).not.toEqual(fencingHeaders(other));
        expect(sign(one)).not.toBe(sign(other));
        expect(verify(other, sign(one))).toBe(false);
        if (one.resource === other.resource) return;
        const error = refusal(() => parseFencing(fencingHeaders(one), { resource: other.resource }));
        expect(error).toMatchObject({ code: 'FENCING_HEADER', status: 400, reason: 'other-resource' });
      }),
      { numRuns: 500 },
    );
  });
});

describe('what is not written by us is refused', () => {
  const grant: Grant = { resource: 'shop/50 % off', fencingToken: 1_700_000_000_000_000, leaseId: 'a1b2' };
  const good = fencingHeaders(grant, { sign });

  test('any text for any header: it says the same, or nothing', () => {
    const names = Object.keys(good);
    fc.assert(
      fc.property(fc.constantFrom(...names), anyText, (name, value) => {
        fc.pre(value !== good[name]);
        const read = refusal(() => parseFencing({ ...good, [name]: value }, { resource: grant.resource, verify }));
        expect(read).toMatchObject({ code: 'FENCING_HEADER' });
        expect([400, 401]).toContain((read as { status: number }).status);
        expect((read as Error).message).not.toMatch(/[\r\n\0]/);
      }),
      { numRuns: 1000 },
    );
  });

  test('a good value with one thing changed', () => {
    const change = fc.record({
      name: fc.constantFrom(...Object.keys(good)),
      at: fc.nat(100),
      drop: fc.constantFrom(0, 1),
      put: fc.constantFrom(
        '',
        ' ',
        '0',
        '+',
        '-',
        '%',
        '%0',
        '%30',
        'A',
        'a',
        ',',
        ';',
        '\r\n',
        '\0',
        'é',
        '５',
        '\ud800',
      ),
    });
    fc.assert(
      fc.property(change, ({ name, at, drop, put }) => {
        const value = good[name] as string;
        const start = at % (value.length + 1);
        const changed = value.slice(0, start) + put + value.slice(start + drop);
        fc.pre(changed !== value);
        const read = refusal(() => parseFencing({ ...good, [name]: changed }, { resource: grant.resource, verify }));
        expect(read).toMatchObject({ code: 'FENCING_HEADER' });
      }),
      { numRuns: 1000 },
    );
  });

  test('a grant that could not be read again is never written', () => {
    const wrong = fc.oneof(
      anyText.filter((text) => !isName(text)).map((name) => ({ ...grant, resource: `shop/${name}` })),
      anyText.filter((text) => !isName(text)).map((leaseId) => ({ ...grant, leaseId })),
      anyText.filter((text) => !text.includes('/')).map((resource) => ({ ...grant, resource })),
      fc
        .double()
        .filter((token) => !Number.isSafeInteger(token) || token < 1)
        .map((fencingToken) => ({ ...grant, fencingToken })),
    );
    fc.assert(
      fc.property(wrong, (each) => {
        expect(refusal(() => fencingHeaders(each))).toMatchObject({ code: 'CONFIG' });
      }),
      { numRuns: 500 },
    );
  });
});
