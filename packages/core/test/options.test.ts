import {
  checkLeaseTiming,
  LeaseManager,
  MemoryLeaseStore,
  type LeaseManagerOptions,
  type LeaseTimingOptions,
} from '@leasehold/core';
import { describe, expect, test, vi } from 'vitest';
import { parseDuration } from '../src/duration.ts';

const store = new MemoryLeaseStore();

function refusal(options: object): string {
  try {
    new LeaseManager(options as LeaseManagerOptions);
  } catch (error) {
    return (error as Error).message;
  }
  return 'accepted';
}

describe('durations', () => {
  test.each([
    [250, 250],
    ['250ms', 250],
    ['30s', 30_000],
    ['1.5s', 1500],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    [Infinity, Infinity],
  ])('%s', (text, ms) => expect(parseDuration('ttl', text)).toBe(ms));

  test.each([
    -1,
    0.5,
    Number.NaN,
    -Infinity,
    '',
    '30',
    '30 s',
    '30sec',
    's',
    '-1s',
    '1e3s',
    '9'.repeat(30) + 'd',
    null,
    {},
    true,
  ])('refuses %s and names the option', (value) => expect(() => parseDuration('ttl', value)).toThrow(/^CONFIG: ttl: /));
});

describe('options of the manager', () => {
  test.each([
    [{}, /store: is undefined: must be a lease store/],
    [{ store: {} }, /store: is an object: must be a lease store/],
    [{ store, ttl: 30 }, /ttl: is 30 ms, below 100 ms; did you mean '30s'/],
    [{ store, ttl: Infinity }, /ttl: is Infinity ms, above 24 h/],
    [{ store, ttl: Number.NaN }, /ttl: NaN is not a duration/],
    [{ store, ttl: '1.5' }, /ttl: '1\.5' is not a duration/],
    [{ store, refreshRatio: 1.9 }, /refreshRatio: is 1\.9: must be at least 2/],
    [{ store, refreshRatio: Number.NaN }, /refreshRatio: is NaN: must be a number/],
    [{ store, refreshRatio: '3' }, /refreshRatio: is "3": must be a number/],
    [{ store, driftRate: -0.1 }, /driftRate: is -0\.1: must not be negative/],
    [{ store, driftRate: 0.5 }, /driftRate: is 0\.5: must be at most 0\.2/],
    [{ store, safetyMargin: 0 }, /safetyMargin: is 0: must be at least 10 ms/],
    [{ store, ttl: '1s', callTimeout: '1s' }, /callTimeout: with ttl 1000 ms .*must fit/],
    [{ store, callTimeout: 1 }, /callTimeout: is 1: must be at least 5 ms/],
    [{ store, activateTimeout: Infinity }, /activateTimeout: is Infinity: must be at least 5 ms and not Infinity/],
    [{ store, logger: console.log }, /logger: is a function: must be a logger/],
    [{ store, tll: '30s' }, /tll: is not an option here/],
    [{ store, owner: { nmae: 'x' } }, /owner/],
  ])('%j', (options, message) => expect(refusal(options)).toMatch(message));

  test('are accepted at the edges of what works', () => {
    const warn = vi.fn<(fields: object, message: string) => void>();
    const logger = { debug: () => {}, info: () => {}, warn, error: () => {} };
    expect(refusal({ store, ttl: 100, logger })).toBe('accepted');
    expect(refusal({ store, ttl: '24h', logger })).toBe('accepted');
    expect(refusal({ store, refreshRatio: 2, logger })).toBe('accepted');
    // Advice is given, and none where it is not needed.
    expect(warn.mock.calls.map(([, message]) => message.split(';')[0])).toEqual([
      'ttl is 100 ms',
      'ttl is 86400000 ms',
      'refreshRatio is 2',
    ]);
    expect(refusal({ store, ttl: '1s', refreshRatio: 5, logger })).toBe('accepted');
    expect(refusal({ store, ttl: '10m', logger })).toBe('accepted');
    expect(warn).toHaveBeenCalledTimes(3);
  });

  test('a pino logger fits', async () => {
    const lines: string[] = [];
    const { pino } = await import('pino');
    const logger = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
    const manager = new LeaseManager({ store, logger });
    await manager.run('logged', () => 1);
    const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(logged.map(({ msg }) => msg)).toEqual([
      'leases of 30000 ms, extended every 10000 ms, trusted for 29200 ms',
      'lease acquired',
      'lease released',
    ]);
    expect(logged[1]).toMatchObject({ resource: 'logged', fence: expect.any(Number) });
  });
});

test.each([
  {},
  { ttl: '30s', refreshRatio: 4, safetyMargin: '1s', driftRate: 0, callTimeout: '1s', activateTimeout: '5s' },
  { ttl: 99 },
  { refreshRatio: 101 },
  { safetyMargin: 9 },
  { driftRate: 0.3 },
  { callTimeout: 4 },
  { activateTimeout: Infinity },
  { ttl: '1s', callTimeout: '500ms' },
  { ttl: '1s', safetyMargin: '900ms' },
])('checkLeaseTiming refuses %j if a manager does, in the same words', (options) => {
  let said = 'accepted';
  try {
    checkLeaseTiming(options as LeaseTimingOptions);
  } catch (error) {
    said = (error as Error).message;
  }
  expect(said).toBe(refusal({ store, logger: { debug() {}, info() {}, warn() {}, error() {} }, ...options }));
});
