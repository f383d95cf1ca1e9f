import { describe, expect, test } from 'vitest';

import {
  decodeName,
  encodeName,
  fenceKey,
  logKey,
  parkedKey,
  queueKey,
  recordKey,
  resourceOf,
  tickKey,
  waitersKey,
} from '../../src/redis/keys.ts';
import { hashTag, slotOf } from '../../src/redis/slot.ts';

const HOSTILE = [
  'a}b',
  '{x}',
  '%7D',
  '}',
  '{',
  '%',
  '{}',
  'a b',
  'a\'b"c\\d',
  '🔒',
  'é',
  'reports:q',
  'a}:q',
  '%257D',
  '__proto__',
];

describe('names in keys', () => {
  test('usual names stay readable', () => {
    for (const name of ['reports', 'customer:42', 'shop/eu-west_1.orders', 'über', '🔒'])
      expect(encodeName(name)).toBe(name);
    expect(recordKey('leasehold', 'customer:42')).toBe('leasehold:{customer:42}');
  });

  test('no two names share a key, and every name comes back', () => {
    const keys = HOSTILE.map((name) => recordKey('shop', name));
    expect(new Set(keys).size).toBe(HOSTILE.length);
    for (const name of HOSTILE) {
      expect(decodeName(encodeName(name))).toBe(name);
      expect(resourceOf('shop', recordKey('shop', name))).toBe(name);
    }
  });

  test('all keys of a resource are in one slot, whatever its name', () => {
    for (const name of HOSTILE) {
      const record = recordKey('shop', name);
      const keys = [
        record,
        queueKey(record),
        waitersKey(record),
        parkedKey(record),
        logKey(record),
        tickKey(record, 'j:1'),
      ];
      expect(new Set(keys.map(slotOf)).size).toBe(1);
      expect(hashTag(record)).toBe(encodeName(name));
    }
  });

  test('no resource has a record where another one has something else', () => {
    const record = recordKey('shop', 'a');
    for (const key of [queueKey(record), tickKey(record, 'j'), logKey(record)])
      expect(resourceOf('shop', key)).toBeUndefined();
    expect(resourceOf('shop', 'other:{a}')).toBeUndefined();
  });

  test('the fence of a qualified name', () => {
    expect(fenceKey('shop/reports')).toBe('leasehold-fence:{shop/reports}');
  });
});

test('slots are those of a Cluster', () => {
  // The reference values of the Cluster specification.
  expect(slotOf('123456789')).toBe(0x31c3);
  expect(slotOf('foo{bar}{zap}')).toBe(slotOf('bar'));
  expect(hashTag('foo{}{bar}')).toBe('foo{}{bar}');
  expect(hashTag('foo{{bar}}zap')).toBe('{bar');
});
