import { describe, expect, test } from 'vitest';

import { ForeignKeyError } from '../../src/errors.ts';
import { keyOf, MalformedReply, script, withText } from '../../src/redis/script.ts';
import { acquireArgs, acquireReply } from '../../src/redis/scripts/acquire.ts';
import { messageOf } from '../../src/redis/message.ts';
import { adoptArgs, adoptReply } from '../../src/redis/scripts/adopt.ts';
import { cancelArgs, cancelReply } from '../../src/redis/scripts/cancel.ts';
import { extendArgs, extendReply } from '../../src/redis/scripts/extend.ts';
import { historyArgs, historyReply } from '../../src/redis/scripts/history.ts';
import { readArgs, readReply } from '../../src/redis/scripts/read.ts';
import { releaseArgs, releaseReply } from '../../src/redis/scripts/release.ts';
import { revokeArgs, revokeReply } from '../../src/redis/scripts/revoke.ts';
import { ticksArgs, ticksReply } from '../../src/redis/scripts/ticks.ts';
import type { AcquireRequest, AdoptRequest, ExtendItem, ReleaseRequest } from '../../src/store/store.ts';

const record = 'shop:{reports}';
const request: AcquireRequest = {
  resource: 'reports',
  leaseId: 'abc',
  ttlMs: 30_000,
  mode: 'try',
  owner: { line: 'web-1 pid 7', json: '{"pid":7}' },
  channel: '',
  floor: 0,
  replaces: '',
  waitRefreshMs: 10_000,
  quarantineMs: 0,
  history: 'exceptions',
};
const release: ReleaseRequest = {
  resource: 'reports',
  leaseId: 'abc',
  outcome: 'done',
  floor: 0,
  history: 'exceptions',
};
const tick = { job: 'nightly', at: 1_700_000_000_000, startingDeadlineMs: 300_000, maxAheadMs: 2000, retry: 5 };

describe('acquire', () => {
  const args = acquireArgs(record, request);
  const reply = (text: string) => acquireReply(text, args, request);

  test('sends strings in fixed places, the tick as a further key', () => {
    expect(args.slice(1)).toEqual([
      ...['5', record, `${record}:q`, `${record}:w`, `${record}:p`, `${record}:log`],
      ...['abc', 'web-1 pid 7', '{"pid":7}', '30000', ''],
    ]);
    const rest = ['try', '0', '', '10000', '0', 'exceptions'];
    for (const [index, unusual] of [
      { mode: 'park' as const },
      { floor: 7 },
      { replaces: 'abb' },
      { quarantineMs: 1500 },
      { history: 'all' as const },
    ].entries()) {
      const its = acquireArgs(record, { ...request, ...unusual });
      const at = [0, 1, 2, 4, 5][index] ?? -1;
      expect(its.slice(1)).toEqual([...args.slice(1), ...rest.with(at, String(Object.values(unusual)[0]))]);
    }
    expect(acquireArgs(record, { ...request, spareTokens: 1000 }).slice(-7)).toEqual([...rest, '1000']);
    const withTick = acquireArgs(record, { ...request, tick });
    expect(withTick[1]).toBe('6');
    expect(keyOf(withTick, 6)).toBe(`${record}:tick:nightly`);
    expect(withTick.slice(-5)).toEqual(['exceptions', '1700000000000', '300000', '2000', '5']);
    const trigger = { job: 'nightly', at: null, minHoldMs: 500, retry: 0 };
    const kept = acquireArgs(record, { ...request, tick: trigger, retentionMs: 60_000 });
    expect(kept.slice(-6)).toEqual(['exceptions', '', '500', '0', '0', '60000']);
    // Nothing of a record but its tick is forgotten because of an acquire.
    expect(acquireArgs(record, { ...request, retentionMs: 60_000 })).toEqual(args);
  });

  test('decodes every reply', () => {
    expect(reply('abc granted 0 17')).toEqual({
      kind: 'granted',
      fencingToken: 17,
      remainingMs: 30_000,
      again: false,
      tick: null,
    });
    expect(reply('abc granted 0 1764400000000000 29999500')).toEqual({
      kind: 'granted',
      fencingToken: 1_764_400_000_000_000,
      remainingMs: 29_999.5,
      again: true,
      tick: null,
    });
    expect(reply('abc granted 0 17 - 2 1700000000000')).toEqual({
      kind: 'granted',
      fencingToken: 17,
      remainingMs: 30_000,
      again: false,
      tick: { at: 1_700_000_000_000, attempt: 2 },
    });
    expect(reply('abc granted 0 17 1500 1 1700000000000')).toMatchObject({
      remainingMs: 1.5,
      again: true,
      tick: { at: 1_700_000_000_000, attempt: 1 },
    });
    expect(reply('abc no 0 held 1500 -1 17 a%7Db web-1 pid 7')).toMatchObject({
      holder: { owner: 'web-1 pid 7', fencingToken: 17, job: 'a}b' },
    });
    expect(reply('abc no 0 held 1500 -1 17 - web-1 pid 7 since 02:41:07Z')).toEqual({
      kind: 'busy',
      reason: 'held',
      holder: { owner: 'web-1 pid 7 since 02:41:07Z', fencingToken: 17, job: null },
      remainingMs: 1.5,
    });
    expect(reply('abc no 1 turn 50000 3 0 - ')).toEqual({
      kind: 'queued',
      reason: 'turn',
      holder: null,
      remainingMs: 50,
      position: 3,
    });
    expect(reply('abc tick 0 clock-ahead 2500 2500')).toEqual({
      ...{ kind: 'tick', reason: 'clock-ahead', aheadMs: 2.5, remainingMs: 2.5 },
    });
    expect(reply('abc tick 0 too-late -2500 0')).toMatchObject({ reason: 'too-late', aheadMs: -2.5, remainingMs: 0 });
    expect(reply('abc spent 0')).toEqual({ kind: 'spent' });
    expect(reply('abc cancelled 0')).toEqual({ kind: 'cancelled' });
    expect(reply('abc out-of-range 0 99')).toEqual({ kind: 'out-of-range', fencingToken: 99 });
    expect(() => reply('abc foreign 0 2 string')).toThrow(ForeignKeyError);
    expect(() => reply('abc foreign 0 2 string')).toThrow('shop:{reports}:q holds a string');
  });

  test('believes nothing that is not an answer to this leaseId', () => {
    for (const text of ['abd spent 0', 'abcd spent 0', 'abc', 'abc what 0', 'abc no 0 why 1 -1 0 - ']) {
      expect(() => reply(text)).toThrow(MalformedReply);
    }
    expect(() => reply('abc granted 0 many 1 0')).toThrow(RangeError);
    expect(() => acquireReply(null, args, request)).toThrow(MalformedReply);
  });
});

test('release and cancel', () => {
  expect(releaseArgs(record, release).slice(1)).toEqual([
    ...['5', record, `${record}:q`, `${record}:w`, `${record}:p`, `${record}:log`, 'abc', 'done'],
  ]);
  expect(releaseArgs(record, { ...release, floor: 7 }).slice(-3)).toEqual(['done', '7', 'exceptions']);
  expect(releaseArgs(record, { ...release, history: 'all' }).slice(-3)).toEqual(['done', '0', 'all']);
  const args = releaseArgs(record, { ...release, job: 'nightly' });
  expect(keyOf(args, 6)).toBe(`${record}:tick:nightly`);
  expect(releaseReply('abc released 2', args, release)).toEqual({ kind: 'released' });
  expect(releaseReply('abc lost 0 superseded', args, release)).toEqual({ kind: 'lost', reason: 'superseded' });
  expect(() => releaseReply('abc lost 0 boredom', args, release)).toThrow(MalformedReply);
  expect(() => releaseReply('abc foreign 0 6 list', args, release)).toThrow('tick:nightly holds a list');

  expect(releaseArgs(record, { ...release, retentionMs: 70_000 }).slice(-2)).toEqual(['exceptions', '70000']);

  const cancel = { ...release, tombstoneMs: 60_000 };
  expect(cancelArgs(record, { ...cancel, retentionMs: 70_000 }).slice(-2)).toEqual(['60000', '70000']);
  expect(cancelArgs(record, cancel).slice(-5)).toEqual(['abc', 'done', '0', 'exceptions', '60000']);
  expect(cancelReply('abc ended 0', args, cancel)).toEqual({ kind: 'ended' });
  expect(cancelReply('abc nothing 0', args, cancel)).toEqual({ kind: 'nothing' });
});

describe('extend', () => {
  const items: ExtendItem[] = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((leaseId) => ({
    resource: leaseId,
    leaseId,
    ttlMs: 1000,
  }));
  const args = extendArgs(
    items.map(({ resource }) => `shop:{${resource}}`),
    items,
  );
  const [call] = args.slice(9);
  const told: number[] = [];
  const question = { items, told: (us: number) => void told.push(us) };

  test('says the ttl once, and has a name of its own', () => {
    expect(args.slice(1, 4)).toEqual(['7', 'shop:{a}', 'shop:{b}']);
    expect(args.slice(10)).toEqual(['1000', 'abcdefg']);
    expect(call).toMatch(/^a#\d+$/);
    expect(extendArgs(['shop:{a}'], items.slice(0, 1))[3]).not.toBe(call);
  });

  test('a line that makes no sense leaves its lease unknown and harms no other', () => {
    const reply = [
      `${call} 1700000000000000 1`,
      '1 extended 1500000',
      '2 revoked 500',
      '3 lost missing',
      '4 foreign',
      '5 extended ?',
      '6 bored',
    ];
    expect(extendReply(reply.join('\n'), args, question)).toEqual([
      { verdict: 'extended', remainingMs: 1500 },
      { verdict: 'revoked', remainingMs: 0.5 },
      { verdict: 'lost', reason: 'missing' },
      { verdict: 'foreign', key: 'shop:{d}' },
      { verdict: 'unknown' },
      { verdict: 'unknown' },
      { verdict: 'extended', remainingMs: 1000 },
    ]);
    expect(told).toEqual([1_700_000_000_000_000]);
  });

  test.each([
    ['of another call', 'a#0 1700000000000000 7'],
    ['to something else', 'a released 0'],
    ['without the time', `${call} soon 7`],
    ['that counts too many', `${call} 1700000000000000 7\n1 lost expired`],
    ['that counts too few', `${call} 1700000000000000 6`],
    ['that counts none', `${call} 1700000000000000`],
    ['that names a lease twice', `${call} 1700000000000000 5\n1 lost expired\n1 lost expired`],
    ['that names no lease', `${call} 1700000000000000 6\n8 lost expired`],
    ['that names nothing', `${call} 1700000000000000 6\nlost expired`],
  ])('a reply %s is not believed', (_, reply) => {
    expect(() => extendReply(reply, args, question)).toThrow(MalformedReply);
  });

  test('what not all have in common goes once, with the places of its leases', () => {
    const its = ['{"a":1}', undefined, '{"b":1}', '{"a":1}'].map((ownerJson, index) => ({
      ...{ resource: `r${index}`, leaseId: `id${index}`, ttlMs: index < 2 ? 1000 : 2000, ownerJson },
    }));
    const mixed = extendArgs(['k0', 'k1', 'k2', 'k3'], its);
    expect(mixed.slice(7)).toEqual(['1000', 'id0id1id2id3', 'o{"a":1}', '1,4', 't2000', '3,4', 'o{"b":1}', '3']);
  });

  test.each([
    ['lengths', ['a', 'bcd']],
    ['bytes', ['ab', 'é']],
  ])('leaseIds of different %s are not cut out of one text', (_, ids) => {
    const its = ids.map((leaseId) => ({ resource: 'r', leaseId, ttlMs: 1000 }));
    expect(extendArgs(['k0', 'k1'], its).slice(5)).toEqual(['1000', '', `i${ids[0]}`, '1', `i${ids[1]}`, '2']);
  });
});

test('read', () => {
  const args = readArgs(record);
  expect(readReply(['none'], args, 'reports')).toBeNull();
  expect(() => readReply(['foreign', '1', 'hash'], args, 'reports')).toThrow('holds a hash that is not ours');
  expect(() => readReply(['record', '1', '0'], args, 'reports')).toThrow(MalformedReply);
  const values = ['', '{"pid":7}', 'abc', '17', 'over 1000 4 2 3', '1', 'web-1 pid 7', '16', '3', 'released'];
  expect(readReply(['record', '5', '2', ...values], args, 'reports')).toEqual({
    state: 'free',
    owner: '',
    ownerJson: '',
    leaseId: 'abc',
    fencingToken: 17,
    ttlMs: 1000,
    acquiredUs: 1,
    extendedUs: 2,
    expiresUs: 3,
    extensions: 4,
    revoked: false,
    previous: { owner: 'web-1 pid 7', fencingToken: 16, endUs: 3, reason: 'released' },
    waiting: 2,
    nowUs: 5,
  });
});

describe('the scripts that came later', () => {
  const adopt: AdoptRequest = { ...request, from: 'old', job: 'nightly' };

  test('adopt', () => {
    const args = adoptArgs(record, adopt);
    expect(args.slice(1)).toEqual([
      ...['6', record, `${record}:q`, `${record}:w`, `${record}:p`, `${record}:log`, `${record}:tick:nightly`],
      ...['abc', 'web-1 pid 7', '{"pid":7}', '30000', 'old', '', '0', 'exceptions'],
    ]);
    const reply = (text: string) => adoptReply(text, args, adopt);
    expect(reply('abc granted 0 17')).toEqual({
      kind: 'granted',
      fencingToken: 17,
      remainingMs: 30_000,
      again: false,
      tick: null,
    });
    expect(reply('abc granted 0 17 5000')).toMatchObject({ remainingMs: 5, again: true, tick: null });
    expect(reply('abc lost 0 superseded')).toEqual({ kind: 'lost', reason: 'superseded' });
    expect(reply('abc out-of-range 0 99')).toEqual({ kind: 'out-of-range', fencingToken: 99 });
    expect([reply('abc spent 0').kind, reply('abc cancelled 0').kind]).toEqual(['spent', 'cancelled']);
    expect(() => reply('abc foreign 0 6 list')).toThrow('tick:nightly holds a list');
    expect(() => reply('abc no 0')).toThrow(MalformedReply);
  });

  test('revoke', () => {
    const revoke = { resource: 'reports', leaseId: 'abc', operator: 'ann', reason: 'it hangs' };
    const args = revokeArgs(record, revoke);
    expect(args.slice(-3)).toEqual(['abc', 'ann', 'it hangs']);
    expect(revokeReply('abc revoked 1 5000', args, revoke)).toEqual({ kind: 'revoked', remainingMs: 5 });
    expect(revokeReply('abc lost 0 missing', args, revoke)).toEqual({ kind: 'lost', reason: 'missing' });
    expect(() => revokeReply('abc foreign 0 1 hash', args, revoke)).toThrow(ForeignKeyError);
    expect(() => revokeReply('abd revoked 1 5000', args, revoke)).toThrow(MalformedReply);
  });

  test('history: what is not ours among the events is left out', () => {
    const args = historyArgs(record, Infinity);
    expect(args.slice(1)).toEqual(['1', `${record}:log`, '64']);
    const noted = ['event', 'lost', 'owner', 'web', 'fencing_token', '17', 'at_us', '5', 'detail', 'done'];
    const entries = [[...noted, 'job', 'nightly', 'tick_at', '1700'], noted.slice(0, -2), ['colour', 'blue'], null];
    expect(historyReply(['events', ...entries], args, 'reports')).toEqual([
      { atUs: 5, event: 'lost', owner: 'web', fencingToken: 17, detail: 'done', job: 'nightly', tickAt: 1700 },
      { atUs: 5, event: 'lost', owner: 'web', fencingToken: 17, detail: '', job: null, tickAt: null },
    ]);
    expect(() => historyReply(['foreign', 'list'], args, 'reports')).toThrow('reports}:log holds a list');
    expect(() => historyReply('events', args, 'reports')).toThrow(MalformedReply);
  });

  test('ticks', () => {
    const args = ticksArgs(record, 'nightly');
    expect(ticksReply(['ticks'], args, 'reports')).toEqual([]);
    expect(ticksReply(['ticks', '9', 'claimed', '17', 'web', '2', '8', 'done', '16', '', ''], args, 'reports')).toEqual(
      [
        { at: 9, attempt: 2, status: 'claimed', fencingToken: 17, owner: 'web' },
        { at: 8, attempt: 1, status: 'done', fencingToken: 16, owner: '' },
      ],
    );
    expect(() => ticksReply(['foreign', 'hash'], args, 'reports')).toThrow('holds a hash that is not ours');
    expect(() => ticksReply(['ticks', '9', 'bored', '17', 'web', '1'], args, 'reports')).toThrow(MalformedReply);
  });
});

test('messages: what is none of this prefix is dropped', () => {
  expect(messageOf('shop', 'look 200 abc shop:{a%20b}')).toEqual({
    kind: 'look',
    resource: 'a b',
    leaseId: 'abc',
    afterMs: 200,
  });
  expect(messageOf('shop', 'free 0 - shop:{a}')).toEqual({ kind: 'free', resource: 'a', leaseId: '', afterMs: 0 });
  for (const text of [
    '',
    'go',
    'go 0 abc other:{a}',
    'go 0 abc shop:{a}:q',
    'stop 0 abc shop:{a}',
    'go x abc shop:{a}',
  ]) {
    expect(messageOf('shop', text)).toBeUndefined();
  }
});

test('a script is known by its SHA, and sent with its text where it is not known', () => {
  const called = script('one', 'return 1');
  expect(called.sha).toBe('e0e1f9fabfc9d4800c877a703b823ac0578ff8db');
  expect(withText(called, [called.sha, '0', 'x'])).toEqual(['return 1', '0', 'x']);
});
