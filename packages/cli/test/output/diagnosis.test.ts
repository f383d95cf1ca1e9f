import type { Diagnosis, Verdict } from '@leasehold/core/diagnosis';
import { expect, test } from 'vitest';
import { diagnosisView, type Asked } from '../../src/output/diagnosis.ts';
import { Output } from '../../src/output/output.ts';

const no = { allowed: false, missing: [] };
const verdict: Verdict = {
  ...{ code: 'free', severity: 'ok', sentence: 'It is so.', waitFor: null },
  allowed: { acquire: false, revoke: false, forceRelease: no, forceReleaseUnfenced: no },
};
const diagnosis: Diagnosis = {
  ...{ schema: 'leasehold/diagnosis/v1', resource: 'billing', namespace: 'shop', at: '2026-11-30T10:00:00.500Z' },
  ...{ verdict, lease: null, fences: [], evidence: [], servers: [], masters: [], byHand: [] },
  owner: { state: 'unverifiable', probe: 'none', detail: '', caveat: '', byHand: [] },
  observation: { state: 'none', forMs: 0, neededMs: 0 },
};

/** What people are told to do. */
async function adviceOn(
  its: Partial<Verdict>,
  rest: Partial<Diagnosis> = {},
  how: Partial<Asked> = {},
): Promise<string> {
  let text = '';
  const stream = { write: (more: string) => void (text += more) };
  const output = new Output({ env: {}, stdin: process.stdin, stdout: stream, stderr: stream }, { color: false });
  const target = { prefix: 'shop', address: 'rediss://a:6379/2' };
  const asked: Asked = { target, config: 'leasehold.yaml', flags: {}, ...how };
  await diagnosisView(output, { ...diagnosis, ...rest, verdict: { ...verdict, ...its } }, asked);
  return text.split('What to do\n')[1] ?? '';
}

test('of two masters both are named, how to ask the other with the same fences, and which token seals both', async () => {
  const masters = [
    { endpoint: 'a:6379', promotedFrom: null },
    { endpoint: 'b:6379', promotedFrom: 'a:6379' },
  ];
  const split = { code: 'split-brain', severity: 'alarm' } as const;
  const text = await adviceOn(split, { masters });
  expect(text).toContain('Nobody releases or repairs anything before a second person has understood it.\n');
  expect(text).toContain('a:6379 and b:6379 (was a replica of a:6379, and promoted)');
  expect(text).toContain('leasehold diagnose billing -c leasehold.yaml -u rediss://b:6379/2\n');
  expect(text).toContain('--token <the larger of their tokens>');
});

test("another program's lock is not to be removed while its owner may live", async () => {
  const text = await adviceOn({ code: 'foreign', severity: 'alarm' });
  expect(text).toContain('Find out whose it is.');
  expect(text).toContain('Do not remove it while its owner may live.');
});

test('a wait has an end by the clock, and of what was lost nobody makes it longer', async () => {
  const lost = { code: 'data-lost', severity: 'act', waitFor: { what: 'what was lost', ms: 150_000 } } as const;
  const text = await adviceOn(lost);
  expect(text).toContain('Wait 150.0 s, until 2026-11-30T10:02:31Z: what was lost.\n');
  expect(text).toContain(
    'Do not write the record by hand, and do not restart the server: a restart begins the wait again.',
  );
});

test('what is free under a prefix that nobody gave may be held under another one', async () => {
  const target = { prefix: 'leasehold', address: 'redis://a:6379' };
  const free = { allowed: { ...verdict.allowed, acquire: true } };
  const url = 'redis://a:6379';
  const given = await adviceOn(free, {}, { target, config: undefined, flags: { url, prefix: 'leasehold' } });
  expect(given).toContain('Whoever asks gets it.\n');
  expect(given).not.toContain('none was given');
  expect(given).toContain('By hand: leasehold diagnose billing --by-hand -u redis://a:6379 --prefix leasehold\n');
  const guessed = await adviceOn(free, {}, { target, config: undefined, flags: { url } });
  expect(guessed).toContain('asked of the prefix leasehold, because none was given');
});
