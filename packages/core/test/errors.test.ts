import { readFileSync } from 'node:fs';
import * as core from '@leasehold/core';
import {
  LeaseholdError,
  LeaseLostError,
  ResourceBusyError,
  RunCancelledError,
  TickRefusedError,
  type TickReason,
} from '@leasehold/core';
import { describe, expect, test } from 'vitest';

const source = readFileSync(new URL('../src/errors.ts', import.meta.url), 'utf8');
const reasons = readFileSync(new URL('../src/reasons.ts', import.meta.url), 'utf8');
const docs = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');

function sorted(matches: IterableIterator<RegExpMatchArray>): string[] {
  return [...matches].map((match) => match[1] as string).sort();
}

describe('the list of errors', () => {
  const start = source.indexOf('export type ErrorCode');
  const declared = source.slice(start, source.indexOf(';', start));
  const codes = sorted(declared.matchAll(/'([A-Z_]+)'/g));

  test('docs/errors.md has exactly the codes there are', () => {
    expect(codes.length).toBeGreaterThan(10);
    expect(sorted(docs.matchAll(/^\| `([A-Z_]+)` \|/gm))).toEqual(codes);
  });

  test('every code is thrown by exactly one class, which is exported and in its row', () => {
    // The first code in a class is its own; that of a subclass goes to its parent's constructor.
    const classes = [
      ...source.matchAll(/export class (\w+) extends (?:LeaseholdError|ResourceBusyError) \{[^]*?'([A-Z_]{5,})'/g),
    ];
    expect(classes.map(([, , code]) => code).sort()).toEqual(codes);
    for (const [, name, code] of classes) {
      expect(core).toHaveProperty(name as string);
      expect(docs).toMatch(new RegExp(`^\\| \`${code}\` \\| \`${name}\``, 'm'));
    }
  });

  test('the docs name every reason of a loss, a cancellation and a refusal', () => {
    for (const type of ['LossReason', 'CancelReason']) {
      const start = reasons.indexOf(`export type ${type}`);
      const named = sorted(reasons.slice(start, reasons.indexOf(';', start)).matchAll(/'([a-z-]+)'/g));
      expect(named.length).toBeGreaterThan(3);
      for (const reason of named) {
        expect(docs).toContain(`\`${reason}\``);
      }
    }
  });
});

describe('an error', () => {
  const loss = new LeaseLostError('customer:42', {
    reason: 'store-unreachable',
    leaseId: 'abc',
    fencingToken: 17,
    detail: 'last confirmed 31000 ms ago',
  });

  test('is one line that stands alone', () => {
    expect(loss.message).toBe(
      "LEASE_LOST customer:42: store-unreachable, last confirmed 31000 ms ago; this run's fence is 17; stop, a successor may be at work",
    );
    expect(loss).toMatchObject({
      name: 'LeaseLostError',
      code: 'LEASE_LOST',
      resource: 'customer:42',
      fencingToken: 17,
    });
  });

  test('is recognised through causes, by code, and from a second copy of the package', () => {
    const wrapped = new Error('orm', { cause: new Error('driver', { cause: loss }) });
    expect(LeaseholdError.is(wrapped)).toBe(true);
    expect(LeaseholdError.is(wrapped, 'LEASE_LOST')).toBe(true);
    expect(LeaseholdError.is(wrapped, 'STALE_TOKEN')).toBe(false);
    expect(LeaseholdError.is(new Error('LEASE_LOST'))).toBe(false);
    expect(LeaseholdError.is('LEASE_LOST')).toBe(false);
    expect(LeaseholdError.is(undefined)).toBe(false);
    const foreign = Object.assign(new Error('x'), { code: 'CONFIG', [Symbol.for('leasehold.error')]: true });
    expect(LeaseholdError.is(foreign, 'CONFIG')).toBe(true);
  });

  test('a chain of causes that bites its tail ends', () => {
    const a = new Error('a');
    a.cause = a;
    expect(LeaseholdError.is(a)).toBe(false);
  });

  test('busy says who, and why', () => {
    const holder = { owner: 'web-7 pid 4 since 02:41:07Z', fencingToken: 5, job: null };
    expect(new ResourceBusyError('r', { reason: 'held', holder, remainingMs: 12.2 }).message).toBe(
      'RESOURCE_BUSY r: held by web-7 pid 4 since 02:41:07Z, 13 ms left; try later or skip this run',
    );
    expect(new ResourceBusyError('r', { reason: 'turn', holder: null, remainingMs: 50 }).message).toContain(
      'next waiter',
    );
    expect(new ResourceBusyError('r', { reason: 'quarantine', holder: null, remainingMs: 50 }).message).toContain(
      'lost a live lease',
    );
    const tick = (reason: TickReason, aheadMs: number, remainingMs: number): string =>
      new TickRefusedError('r', { reason, aheadMs, remainingMs }).message;
    expect(tick('clock-ahead', 39.5, 39.5)).toContain('40 ms ahead');
    expect(tick('too-late', -300_001.5, 0)).toContain('too-late: 300001 ms');
    expect(tick('superseded', -5, 0)).toContain('superseded: this tick is done with');
    expect(tick('already-ran', -20_000, 39_999.1)).toContain(
      'began 20000 ms ago, within minHold; ask again in 40000 ms',
    );
    expect(new RunCancelledError('r', 'shutdown', 17).message).toContain('still held');
    expect(new RunCancelledError('r', 'shutdown').message).toContain('nothing was acquired');
  });
});
