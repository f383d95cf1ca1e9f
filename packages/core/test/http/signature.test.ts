import type * as Crypto from 'node:crypto';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';
import { beforeEach, describe, expect, test, vi } from 'vitest';

import { ConfigError } from '../../src/errors.ts';
import type { Grant } from '../../src/fence/fence.ts';
import { parseFencing, fencingHeaders, signer, verifier, type Verify } from '../../src/http/index.ts';
import { grant } from './held.ts';

vi.mock('node:crypto', async (original) => {
  const crypto = await original<typeof Crypto>();
  return { ...crypto, timingSafeEqual: vi.fn(crypto.timingSafeEqual) };
});

const secret = 'a secret of thirty-two bytes, as it must be';
const keys = { k1: secret, k2: new Uint8Array(32).fill(7) };
const sign = signer({ keys, current: 'k1' });
const verify = verifier({ keys });

describe('a signature', () => {
  test('is of this grant and of no other', () => {
    const signature = sign(grant);
    expect(verify(grant, signature)).toBe(true);
    const others: Partial<Grant>[] = [
      ...[{ resource: 'shop/pear' }, { resource: 'shop/pears ' }, { leaseId: 'a1b3' }, { leaseId: 'A1B2' }],
      ...[{ fencingToken: grant.fencingToken + 1 }, { fencingToken: grant.fencingToken - 1 }],
    ];
    for (const other of others) expect(verify({ ...grant, ...other }, signature)).toBe(false);
  });

  test('is HMAC-SHA-256 over a line that says what it is and the three values, so that others can make it', () => {
    const text = `leasehold fencing grant v1\nshop%2F50%20%25\n5\na%0Ab`;
    const mac = createHmac('sha256', secret).update(text).digest('base64url');
    expect(sign({ resource: 'shop/50 %', fencingToken: 5, leaseId: 'a\nb' })).toBe(`v1;k1;${mac}`);
  });

  test('is told apart where plain joining would not do', () => {
    const pairs: [Partial<Grant>, Partial<Grant>][] = [
      [{ resource: 'shop/a\n1' }, { resource: 'shop/a', fencingToken: 1 }],
      [
        { fencingToken: 12, leaseId: '3' },
        { fencingToken: 1, leaseId: '23' },
      ],
      [{ leaseId: '1\n2' }, { leaseId: '1%0A2' }],
    ];
    for (const [one, other] of pairs) expect(sign({ ...grant, ...one })).not.toBe(sign({ ...grant, ...other }));
  });

  test('is accepted from each key that is good, until its key is taken away', () => {
    const next = signer({ keys, current: 'k2' })(grant);
    expect(verify(grant, next)).toBe(true);
    const { k2 } = keys;
    const after = verifier({ keys: { k2 } });
    expect([after(grant, next), after(grant, sign(grant))]).toEqual([true, false]);
    // The same id with another secret.
    expect(verifier({ keys: { k1: k2 } })(grant, sign(grant))).toBe(false);
  });

  test('that is malformed is refused, whatever is wrong with it', () => {
    const good = sign(grant);
    const mac = good.slice('v1;k1;'.length);
    const wrong = [
      ...['', 'v1', 'v1;k1', 'v1;k1;', `v2;k1;${mac}`, `v1;;${mac}`, `v1;k9;${mac}`, `V1;k1;${mac}`, mac],
      ...[
        `${good} `,
        ` ${good}`,
        `${good}\n`,
        `${good}=`,
        `${good};`,
        good.slice(0, -1),
        `${good}A`,
        good.toUpperCase(),
      ],
      ...[`v1;__proto__;${mac}`, `v1;constructor;${mac}`, `v1;k1;${'A'.repeat(43)}`, 'x'.repeat(10_000)],
    ];
    for (const each of wrong) expect(verify(grant, each), each).toBe(false);
    // Each of these last characters decodes to the same bytes.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet.indexOf(good.at(-1) as string);
    const twins = [1, 2, 3].map((bit) => good.slice(0, -1) + alphabet[(last & ~3) | ((last + bit) & 3)]);
    for (const twin of twins) expect(verify(grant, twin), twin).toBe(false);
  });
});

/** Whether every verdict is one comparison in constant time over equal lengths, and nothing cheaper. */
function comparesInConstantTime(judge: Verify): boolean {
  const compare = vi.mocked(timingSafeEqual);
  const right = sign(grant);
  const signatures = [right, right.replace(/.$/, '!'), right.replace('k1', 'k9'), '', 'v1;k1;short', 'x'.repeat(500)];
  return signatures.every((signature) => {
    compare.mockClear();
    judge(grant, signature);
    const [call] = compare.mock.calls;
    return compare.mock.calls.length === 1 && call?.[0].byteLength === 43 && call[1].byteLength === 43;
  });
}

describe('a verification', () => {
  beforeEach(() => void vi.mocked(timingSafeEqual).mockClear());

  test('takes constant time, also for a key that nobody has', () => {
    expect(comparesInConstantTime(verify)).toBe(true);
  });

  test('seeded bug: one that compares with === is found', () => {
    const early: Verify = (each, signature) => signature === sign(each);
    expect(early(grant, sign(grant))).toBe(true);
    expect(comparesInConstantTime(early)).toBe(false);
  });

  test('seeded bug: one that does not look further when the key is unknown is found', () => {
    const hasty: Verify = (each, signature) => signature.startsWith('v1;k1;') && verify(each, signature);
    expect(comparesInConstantTime(hasty)).toBe(false);
  });

  test('counts only if it is true, not if it is a promise of it', () => {
    const headers = fencingHeaders(grant, { sign });
    const late = (async () => true) as unknown as Verify;
    for (const judge of [late, () => 1 as unknown as boolean, () => undefined as unknown as boolean]) {
      expect(() => parseFencing(headers, { resource: grant.resource, verify: judge })).toThrow('FENCING_HEADER');
    }
    expect(parseFencing(headers, { resource: grant.resource, verify })).toEqual(grant);
  });
});

describe('secrets', () => {
  test('are long enough, and never in an error', () => {
    const short = 'short secret';
    const wrong: [unknown, string][] = [
      [{ keys: { k1: short }, current: 'k1' }, 'CONFIG: keys.k1: has 12 bytes: must have at least 32'],
      [{ keys: { k1: new Uint8Array(31) }, current: 'k1' }, 'has 31 bytes'],
      [{ keys: { k1: 12345 }, current: 'k1' }, 'must be a string or bytes'],
      [{ keys: { 'k;1': secret }, current: 'k;1' }, 'has the id "k;1"'],
      [{ keys: { '': secret }, current: '' }, 'has the id ""'],
      [{ keys: {}, current: 'k1' }, 'CONFIG: keys: are none'],
      [{ keys: null, current: 'k1' }, 'CONFIG: keys: must be an object'],
      [{ keys, current: 'k3' }, 'CONFIG: current: is "k3"'],
      [{ keys, current: 'toString' }, 'CONFIG: current'],
      [{ keys, current: 'k1', algorithm: 'md5' }, 'algorithm: is not an option'],
    ];
    for (const [options, message] of wrong) {
      const error = ((): unknown => {
        try {
          return signer(options as never);
        } catch (thrown) {
          return thrown;
        }
      })();
      expect(error).toBeInstanceOf(ConfigError);
      expect((error as Error).message).toContain(message);
      for (const told of [inspect(error), JSON.stringify(error)]) {
        for (const hidden of [secret, short, '12345']) expect(told).not.toContain(hidden);
      }
    }
    expect(() => verifier({ keys: { k1: short } })).toThrow('has 12 bytes');
    expect(() => verifier({} as never)).toThrow('CONFIG: keys');
  });

  test('do not show in what holds them', () => {
    for (const holder of [sign, verify, { sign, verify }]) {
      for (const told of [
        inspect(holder, { showHidden: true, depth: 9 }),
        String(JSON.stringify(holder)),
        inspect(holder),
      ]) {
        expect(told).not.toContain(secret);
      }
    }
  });

  test('that are changed by their owner later are not changed here', () => {
    const bytes = new Uint8Array(32).fill(1);
    const late = signer({ keys: { k1: bytes }, current: 'k1' });
    const before = late(grant);
    bytes.fill(2);
    expect(late(grant)).toBe(before);
  });
});
