import { describe, expect, test } from 'vitest';

import { judge, type Facts, type VerdictCode } from '../../src/diagnosis/verdict.ts';
import type { OwnerFinding, OwnerState } from '../../src/diagnosis/probe.ts';
import type { LeaseRecord } from '../../src/store/store.ts';

const NOW_US = 1_796_007_600_000_000;
const TTL_MS = 30_000;
const NEEDED_MS = TTL_MS + 1000;

function owner(state: OwnerState): OwnerFinding {
  return { state, probe: 'same-host', detail: 'pid 4121', caveat: '', byHand: [] };
}

/** A record that was extended `agoMs` ago. */
function record(agoMs: number, fields: Partial<LeaseRecord> = {}): LeaseRecord {
  const extendedUs = NOW_US - agoMs * 1000;
  const expiresUs = extendedUs + TTL_MS * 1000;
  return {
    state: expiresUs > NOW_US ? 'held' : 'expired',
    owner: 'web-7f9c',
    ownerJson: '{}',
    leaseId: 'id',
    fencingToken: 100,
    ttlMs: TTL_MS,
    acquiredUs: extendedUs,
    extendedUs,
    expiresUs,
    extensions: 3,
    revoked: false,
    previous: null,
    waiting: 0,
    nowUs: NOW_US,
    ...fields,
  };
}

const FENCE = { name: 'ledger', enforcing: true, highest: 100, sealed: false };

function facts(fields: Partial<Facts> = {}): Facts {
  return {
    resource: 'reports',
    storeTrouble: '',
    masters: 1,
    shape: fields.record === null ? 'absent' : 'record',
    record: record(1000),
    evictionPolicy: 'noeviction',
    evictedKeys: 0,
    restarted: false,
    fences: [FENCE],
    loggedSeals: [],
    observation: { state: 'none', forMs: 0, neededMs: NEEDED_MS },
    owner: owner('unverifiable'),
    connections: 1,
    marginMs: 1000,
    trustedMs: TTL_MS,
    ageMs: Infinity,
    quarantined: false,
    ...fields,
  };
}

const WATCHED = { state: 'unchanged', forMs: NEEDED_MS, neededMs: NEEDED_MS } as const;
const LATE_MS = 25_000;
const PAST_MS = TTL_MS + 2000;

const rows: readonly (readonly [VerdictCode, Partial<Facts>])[] = [
  ['unknown', { storeTrouble: 'it is loading' }],
  ['unknown', { storeTrouble: 'it is a replica', masters: 2 }],
  ['split-brain', { masters: 2 }],
  ['foreign', { shape: 'foreign', record: null }],
  ['evicted', { record: null, evictionPolicy: 'allkeys-lru', evictedKeys: 3, fences: [] }],
  ['data-lost', { record: null, restarted: true, fences: [] }],
  ['data-lost', { record: null }],
  ['free', { record: null, fences: [] }],
  ['free', { record: null, fences: [{ ...FENCE, highest: null }] }],
  ['released', { record: record(1000, { owner: '', state: 'free' }) }],
  ['token-regressed', { fences: [{ ...FENCE, highest: 101 }] }],
  ['token-regressed', { fences: [{ ...FENCE, highest: 101, sealed: true }] }],
  ['token-regressed', { fences: [{ ...FENCE, highest: 101, sealed: true }], loggedSeals: [102] }],
  ['token-regressed', { fences: [{ ...FENCE, highest: 101 }], loggedSeals: [101] }],
  ['clock-regressed', { record: record(-5000) }],
  ['revoked', { record: record(LATE_MS, { revoked: true }), owner: owner('gone') }],
  ['held', {}],
  ['orphaned-running', { owner: owner('gone') }],
  ['held', { record: record(LATE_MS), observation: { ...WATCHED, state: 'changed' }, owner: owner('gone') }],
  ['held', { observation: { ...WATCHED, state: 'changed' }, owner: owner('stopped') }],
  ['paused', { record: record(LATE_MS), owner: owner('stopped') }],
  ['paused', { owner: owner('stopped') }],
  ['paused', { observation: { ...WATCHED, forMs: 900 }, owner: owner('stopped') }],
  ['partitioned', { record: record(LATE_MS), owner: owner('alive'), connections: 0 }],
  ['silent', { record: record(LATE_MS), owner: owner('alive'), connections: 2 }],
  ['silent', { record: record(LATE_MS), owner: owner('alive'), connections: undefined }],
  ['silent', { record: record(LATE_MS) }],
  ['orphaned-running', { record: record(LATE_MS), owner: owner('gone') }],
  ['expired', { record: record(PAST_MS) }],
  ['expired', { record: record(TTL_MS + 500), observation: WATCHED, owner: owner('gone') }],
  ['expired', { record: record(PAST_MS), observation: { ...WATCHED, state: 'changed' }, owner: owner('gone') }],
  ['expired-alive', { record: record(PAST_MS), observation: WATCHED, owner: owner('alive') }],
  ['expired-alive', { record: record(PAST_MS), observation: WATCHED, owner: owner('stopped') }],
  ['orphaned', { record: record(PAST_MS), observation: WATCHED, owner: owner('gone') }],
  ['stale-suspect', { record: record(PAST_MS), observation: WATCHED }],
  ['stale-unfenced', { record: record(PAST_MS), observation: WATCHED, fences: [] }],
  ['stale-unfenced', { record: record(PAST_MS), observation: WATCHED, fences: [{ ...FENCE, enforcing: false }] }],
  ['stale-unfenced', { record: record(PAST_MS), observation: WATCHED, fences: [{ ...FENCE, highest: null }] }],
];

/** In which of the rows a release by force is allowed, and in which without a fence. */
const FORCED: ReadonlySet<VerdictCode> = new Set(['orphaned', 'stale-suspect']);
const UNFENCED: ReadonlySet<VerdictCode> = new Set(['orphaned', 'stale-suspect', 'stale-unfenced']);

describe('the verdict is the first row that matches', () => {
  test.each(rows)('%s (%#)', (code, fields) => {
    const verdict = judge(facts(fields));
    expect(verdict.code).toBe(code);
    expect(verdict.allowed.forceRelease.allowed).toBe(FORCED.has(code));
    expect(verdict.allowed.forceReleaseUnfenced.allowed).toBe(UNFENCED.has(code));
    expect(verdict.allowed.forceRelease.missing.length > 0).toBe(!FORCED.has(code));
    expect(verdict.sentence).toContain('reports');
  });

  test('and every code has a row', () => {
    const codes: Readonly<Record<VerdictCode, true>> = {
      ...{ unknown: true, 'split-brain': true, foreign: true, evicted: true, 'data-lost': true, free: true },
      ...{ released: true, 'token-regressed': true, 'clock-regressed': true, revoked: true, held: true, paused: true },
      ...{ partitioned: true, 'orphaned-running': true, silent: true, expired: true, 'expired-alive': true },
      ...{ orphaned: true, 'stale-suspect': true, 'stale-unfenced': true },
    } as Readonly<Record<VerdictCode, true>>;
    expect(Object.keys(codes).filter((code) => !rows.some(([its]) => its === code))).toEqual([]);
  });
});

test('a seal that the log tells of changes nothing else, and is told calmly; beside one that it does not tell of it is a riddle', () => {
  const sealed = { ...FENCE, highest: 101, sealed: true };
  for (const [code, fields] of rows) {
    const { record, masters, storeTrouble } = facts(fields);
    if (record === null || record.owner === '' || masters > 1 || storeTrouble !== '') continue;
    if (fields.fences !== undefined) continue;
    const bare = judge(facts(fields));
    const shut = judge(facts({ ...fields, fences: [sealed], loggedSeals: [101] }));
    expect(shut).toMatchObject({ code, severity: bare.severity, allowed: bare.allowed, waitFor: bare.waitFor });
    expect(shut.sentence).toContain('It is shut out of ledger: sealed by hand');
    expect(bare.sentence).not.toContain('shut out');
    const riddle = { ...sealed, name: 'mail', highest: 102 };
    expect(judge(facts({ ...fields, fences: [sealed, riddle], loggedSeals: [101] })).code).toBe('token-regressed');
  }
});

test('a fence that is not enforcing is not said to shut anybody out', () => {
  const loose = { ...FENCE, enforcing: false, highest: 101 };
  expect(judge(facts({ fences: [loose] })).sentence).toContain('It is not enforcing');
  const sealed = facts({ fences: [{ ...loose, sealed: true }], loggedSeals: [101] });
  expect(judge(sealed)).toMatchObject({ code: 'held', sentence: expect.not.stringContaining('shut out') });
});

test('a release by force is told of in the sentence where it is allowed, and nowhere else', () => {
  for (const [, fields] of rows) {
    const { sentence, allowed } = judge(facts(fields));
    expect(sentence.includes('may be released by force')).toBe(allowed.forceRelease.allowed);
  }
  const unfenced = judge(facts({ record: record(PAST_MS), observation: WATCHED, owner: owner('gone'), fences: [] }));
  expect(unfenced).toMatchObject({ code: 'orphaned', sentence: expect.not.stringContaining('by force') });
});

test('of who holds it no more is said than is known', () => {
  const said = (state: OwnerState, fields: Partial<Facts> = {}): string =>
    judge(facts({ owner: owner(state), ...fields })).sentence;
  expect(said('alive')).toBe('reports is held by web-7f9c: alive, and extended 1.0 s ago.');
  expect(said('alive', { record: record(1000, { extensions: 0 }) })).toContain('alive, and acquired 1.0 s ago');
  expect(said('unverifiable')).toContain('extended 1.0 s ago; its process cannot be seen from here');
  const seen = { observation: { ...WATCHED, state: 'changed' as const } };
  expect(said('gone', seen)).toContain('but its process is gone');
  const asked = { record: record(1000, { revoked: true }) };
  expect(said('alive', asked)).toContain('its process may go on after that');
  expect(said('stopped', asked)).toContain('cannot answer');
});

test('to ask its owner to end is allowed of any lease that runs, but through a server that may not be the master', () => {
  const revoke = (fields: Partial<Facts>): boolean => judge(facts(fields)).allowed.revoke;
  expect(revoke({})).toBe(true);
  expect(revoke({ fences: [{ ...FENCE, highest: 101 }] })).toBe(true); // token-regressed
  expect(revoke({ record: record(-5000) })).toBe(true); // clock-regressed
  expect(revoke({ record: record(PAST_MS) })).toBe(false);
  expect(revoke({ masters: 2 })).toBe(false);
  expect(revoke({ storeTrouble: 'it is loading' })).toBe(false);
});

test('an owner line without end, or with what a terminal obeys, is told in part and on one line', () => {
  const line = `\u001b[31mweb\n${'x'.repeat(1_000_000)}`;
  const past = record(PAST_MS);
  for (const broken of [
    { record: { ...record(1000), owner: line } },
    { record: { ...past, owner: line }, observation: WATCHED, owner: owner('gone') },
    { record: { ...past, owner: line }, fences: [{ ...FENCE, highest: 101 }] },
  ]) {
    const { sentence } = judge(facts(broken));
    expect(sentence).toContain('[31mweb x');
    expect(sentence.length).toBeLessThan(600);
    expect(sentence).not.toMatch(/\p{Cc}/u);
  }
});

test('a figure that compares with nothing lets nobody release: nobody has seen that a margin or a ttl is over', () => {
  const past = { record: record(PAST_MS), observation: WATCHED, owner: owner('gone') };
  expect(judge(facts(past)).allowed.forceRelease.allowed).toBe(true);
  const unwatched: Facts['observation'] = { state: 'none', forMs: 0, neededMs: NaN };
  for (const broken of [
    { ...past, observation: unwatched },
    { ...past, marginMs: NaN },
    { ...past, record: { ...past.record, expiresUs: NaN } },
  ]) {
    const { code, allowed } = judge(facts(broken));
    expect(code).toBe('expired');
    expect([allowed.forceRelease.allowed, allowed.forceReleaseUnfenced.allowed]).toEqual([false, false]);
  }
});

test('a fence that knows nobody of the resource vouches for nothing; beside one that does it is no obstacle', () => {
  const past = { record: record(PAST_MS), observation: WATCHED, owner: owner('gone') };
  const stranger = { ...FENCE, name: 'mail', highest: null };
  const alone = judge(facts({ ...past, fences: [stranger] })).allowed;
  expect(alone.forceRelease.missing).toEqual([expect.stringContaining('mail has never admitted anybody here')]);
  expect(alone.forceReleaseUnfenced.allowed).toBe(true);
  expect(judge(facts({ ...past, fences: [FENCE, stranger] })).allowed.forceRelease).toEqual({
    allowed: true,
    missing: [],
  });
  // Sealed by hand it is known to somebody.
  const sealed = { ...stranger, highest: 90, sealed: true };
  expect(judge(facts({ ...past, fences: [sealed] })).allowed.forceRelease.allowed).toBe(true);
});

test('what was lost is waited for as long as its owner may trust it, by acquisitions too if the manager says so', () => {
  const lost = { record: null, restarted: true, fences: [], ageMs: TTL_MS - 12_000 };
  const open = judge(facts(lost));
  expect(open).toMatchObject({ code: 'data-lost', allowed: { acquire: true }, waitFor: { ms: 12_000 } });
  const kept = judge(facts({ ...lost, quarantined: true }));
  expect(kept).toMatchObject({ code: 'data-lost', allowed: { acquire: false }, waitFor: { ms: 12_000 } });
  expect(kept.waitFor?.what).toContain('quarantine');
  expect(judge(facts({ ...lost, ageMs: 50_000 })).waitFor).toBeNull();
  // A fence knows of it, or it was thrown away: that may have been just now, however long ago the start was.
  const perhapsNow = { ms: TTL_MS, what: expect.stringContaining('counts from the first look that found no record') };
  expect(judge(facts({ ...lost, fences: [FENCE] })).waitFor).toMatchObject(perhapsNow);
  expect(open.waitFor?.what).not.toContain('first look');
  const evicted = judge(facts({ ...lost, evictionPolicy: 'allkeys-lru', evictedKeys: 1 }));
  expect(evicted).toMatchObject({ code: 'evicted', waitFor: { ms: TTL_MS } });
  // The policy was mended: what it has done is not.
  const mended = judge(facts({ ...lost, evictedKeys: 3 }));
  expect(mended).toMatchObject({ code: 'data-lost', sentence: expect.stringContaining('has evicted keys') });
  expect(open.sentence).not.toContain('evicted');
});

/** mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

test('whatever the facts are, force is only allowed past the margin on two clocks, with a sealed fence, for an owner that is not seen', () => {
  const random = randomOf(7);
  const pick = <T>(...all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  let allowed = 0;
  for (let each = 0; each < 20_000; each++) {
    const chosen = facts({
      storeTrouble: pick('', '', '', '', 'loading'),
      masters: pick(1, 1, 1, 2),
      record: pick(null, ...[0, 10_000, LATE_MS, TTL_MS, TTL_MS + 500, PAST_MS, 90_000, -5000].map((ms) => record(ms))),
      restarted: pick(true, false),
      fences: pick(
        [],
        [FENCE],
        [FENCE, { ...FENCE, name: 'b', highest: undefined }],
        [{ ...FENCE, enforcing: false }],
        [{ ...FENCE, highest: 200 }],
      ),
      observation: pick(
        WATCHED,
        WATCHED,
        { ...WATCHED, forMs: 5000 },
        { ...WATCHED, state: 'changed' as const },
        { ...WATCHED, state: 'none' as const, forMs: 0 },
      ),
      owner: owner(pick('gone', 'alive', 'stopped', 'unverifiable')),
      connections: pick(undefined, 0, 1),
    });
    const verdict = judge(chosen);
    const { forceRelease, forceReleaseUnfenced } = verdict.allowed;
    if (!forceReleaseUnfenced.allowed) continue;
    allowed++;
    const { storeTrouble, masters, observation, marginMs } = chosen;
    const its = chosen.record as LeaseRecord;
    expect([storeTrouble, masters, observation.state]).toEqual(['', 1, 'unchanged']);
    expect(['gone', 'unverifiable']).toContain(chosen.owner.state);
    expect(its.nowUs - its.expiresUs).toBeGreaterThanOrEqual(marginMs * 1000);
    expect(observation.forMs).toBeGreaterThanOrEqual(observation.neededMs);
    if (forceRelease.allowed)
      expect(chosen.fences.some(({ enforcing, highest }) => enforcing && highest !== undefined)).toBe(true);
  }
  expect(allowed).toBeGreaterThan(200);
});
