import type { Diagnosis, OwnerState, Verdict, VerdictCode } from '@leasehold/core/diagnosis';
import { describe, expect, test } from 'vitest';
import { leaseAdvice } from '../../src/output/lease-advice.ts';

const TOKEN = 1_795_987_422_001_234;
const READ_AT = new Date('2026-11-30T10:00:00.000Z');
const KILL = '[ "$(…)" = 5 ] && kill -KILL 29928';

const lease: NonNullable<Diagnosis['lease']> = {
  ...{ resource: 'reports', state: 'held', owner: 'web-2', identity: null, leaseId: 'id', fencingToken: TOKEN },
  ...{ ttlMs: 30_000, remainingMs: 20_000, extensions: 3, revoked: false, waiting: 0, previous: null },
  ...{ acquiredAt: READ_AT, extendedAt: READ_AT, expiresAt: READ_AT, readAt: READ_AT },
};
const before = { owner: 'web-1 pid 29928', fencingToken: TOKEN - 5, endedAt: new Date(READ_AT.getTime() - 4000) };
const LEDGER = { name: 'ledger', enforcing: true, highest: TOKEN, sealed: false };
const STOP = expect.stringContaining('leasehold stop');
const SEAL = expect.stringMatching(/ledger still admits .*: leasehold seal reports --fence ledger --reason …$/);
const HALF_DONE = expect.stringContaining('half done');

function ownerThatIs(state: OwnerState): Diagnosis['owner'] {
  const endByHand = state === 'stopped' ? KILL : state === 'alive' ? KILL.replace('KILL', 'TERM') : undefined;
  return { state, probe: 'same-host', detail: `it is ${state} (state T)`, caveat: '', byHand: [], endByHand };
}

interface Case {
  readonly state?: OwnerState;
  readonly fences?: Diagnosis['fences'];
  readonly lease?: Partial<NonNullable<Diagnosis['lease']>>;
  readonly verdict?: Partial<Verdict>;
  readonly allowed?: Partial<Verdict['allowed']>;
}

function adviceOn(code: VerdictCode, its: Case = {}): readonly string[] {
  const no = { allowed: false, missing: [] };
  const allowed = { acquire: false, revoke: true, forceRelease: no, forceReleaseUnfenced: no, ...its.allowed };
  return leaseAdvice(
    {
      ...{ schema: 'leasehold/diagnosis/v1', resource: 'reports', namespace: 'shop', at: READ_AT.toISOString() },
      verdict: { code, severity: 'wait', sentence: '', waitFor: null, ...its.verdict, allowed },
      lease: { ...lease, ...its.lease },
      owner: ownerThatIs(its.state ?? 'alive'),
      fences: its.fences ?? [LEDGER],
      ...{ evidence: [], servers: [], masters: [], byHand: [] },
      observation: { state: 'none', forMs: 0, neededMs: 0 },
    },
    '',
  );
}

describe('who holds it', () => {
  test('is not said to be at work: a run that hangs extends, too', () => {
    const advice = adviceOn('held');
    expect(advice.join(' ')).not.toContain('at work');
    expect(advice).toEqual([expect.stringContaining('does not show that its run gets on'), STOP]);
  });

  test.each(['stopped', 'gone'] as const)('and is %s is not asked to end: it could not answer', (state) => {
    for (const code of ['held', 'paused', 'orphaned-running', 'token-regressed'] as const) {
      expect(adviceOn(code, { state })).not.toContainEqual(STOP);
    }
  });

  test('and was asked to end is waited for until its lease is over, and may go on after that', () => {
    const waitFor = { what: 'the lease to run out', ms: 11_600 };
    const asked = (fences: Diagnosis['fences']) => adviceOn('revoked', { verdict: { waitFor }, fences });
    const fenced = asked([LEDGER]);
    expect(fenced).toEqual([
      'Wait 11.6 s, until 2026-11-30T10:00:12Z: the lease to run out.',
      expect.stringMatching(/^Then look whether its process has ended .* with its writes refused/),
      expect.stringMatching(/^To end it then: .* kill -TERM 29928$/),
    ]);
    expect(asked([])[1]).toContain('without a fence two act');
  });
});

describe('a process that stands still', () => {
  test('is ended first where no fence refuses it, with the signal that reaches it and a look at its start', () => {
    for (const code of ['paused', 'expired-alive'] as const) {
      const advice = adviceOn(code, { state: 'stopped', fences: [], allowed: { acquire: code === 'expired-alive' } });
      expect(advice.slice(0, 3)).toEqual([
        expect.stringMatching(/^End its process first: it is stopped/),
        `${KILL}    # looks first whether it is the same process still`,
        'SIGTERM would stay pending as long as it is stopped, and to let it go on (SIGCONT) would let it write.',
      ]);
      expect(advice.join(' ')).not.toContain('Whoever asks gets it');
    }
  });

  test('behind a fence does not have to be, and can be shut out before the next owner writes', () => {
    const advice = adviceOn('expired-alive', { state: 'stopped', allowed: { acquire: true, revoke: false } });
    expect(advice.join(' ')).not.toContain('first:');
    expect(advice).toContainEqual(expect.stringContaining(KILL));
    expect(advice).toContainEqual(expect.stringContaining('Whoever asks gets it'));
    expect(advice).toContainEqual(SEAL);
  });
});

test('a seal is proposed where the writes of somebody who may be there are still admitted, and nowhere else', () => {
  const codes = ['silent', 'paused', 'partitioned', 'expired', 'expired-alive', 'stale-suspect'] as const;
  for (const code of codes) {
    expect(adviceOn(code)).toContainEqual(SEAL);
    const shut = [{ ...LEDGER, highest: TOKEN + 1, sealed: true }];
    for (const fences of [shut, [], [{ ...LEDGER, enforcing: false }], [{ ...LEDGER, highest: null }]]) {
      expect(adviceOn(code, { fences })).not.toContainEqual(SEAL);
    }
  }
  for (const code of ['held', 'revoked', 'orphaned', 'released'] as const) {
    expect(adviceOn(code)).not.toContainEqual(SEAL);
  }
});

describe('of a lease that ran out', () => {
  const waitFor = { what: 'the margin, and to see the record unchanged', ms: 153_000 };
  const over = { state: 'unverifiable', allowed: { acquire: true, revoke: false } } as const;

  test('the wait is only for a release by force', () => {
    const advice = adviceOn('expired', { ...over, verdict: { waitFor } });
    const [taken, wait] = advice;
    expect(taken).toMatch(/^Whoever asks gets it/);
    expect(wait).toMatch(/^Wait 153\.0 s, .* Only a release by force needs that \(--observe\)\.$/);
  });

  test('nobody is told both that somebody has to act and that nothing has to be done', () => {
    const [first] = adviceOn('orphaned', { ...over, state: 'gone', verdict: { severity: 'act' } });
    expect(first).toBe(
      'Nobody has asked for it since: start the next run, which takes it over as always. It needs no release.',
    );
    const [alarm] = adviceOn('token-regressed', { ...over, verdict: { severity: 'alarm' } });
    expect(alarm).toBe('Whoever asks would get it all the same.');
  });

  test('what was left half done is looked for, once', () => {
    const previous = { ...before, reason: 'expired' };
    for (const code of ['orphaned-running', 'expired', 'expired-alive', 'orphaned', 'stale-suspect'] as const) {
      const advice = adviceOn(code, { ...over, lease: { previous } });
      expect(advice.filter((line) => line.includes('half done'))).toHaveLength(1);
    }
    expect(adviceOn('held')).not.toContainEqual(HALF_DONE);
  });
});

describe('the owner before', () => {
  const told = (reason: string, code: VerdictCode = 'held') =>
    adviceOn(code, { lease: { previous: { ...before, reason }, ...(code === 'released' && { state: 'free' }) } });

  test.each(['held', 'released'] as const)('that did not let go itself is told of (%s)', (code) => {
    expect(told('expired', code)).toContain(
      'Before it: web-1 pid 29928, whose lease ran out 4.0 s ago. Look whether its process has ended, and what it left half done.',
    );
    expect(told('force-released', code)).toContainEqual(expect.stringContaining('released by force'));
    expect(told('replaced', code)).toContainEqual(expect.stringContaining('a fence refused'));
  });

  test.each(['released', 'handed-over', 'constructor'])('is no trouble: %s', (reason) => {
    expect(told(reason).join(' ')).not.toContain('Before it');
  });
});
