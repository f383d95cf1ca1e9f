import type { HistoryLine } from '@leasehold/core/testing/history';
import { describe, expect, test } from 'vitest';
import { historyOf, judge } from '../../src/drill/judge.ts';
import { PROOF_NAMES } from '../../src/drill/names.ts';
import { proofs } from '../../src/drill/proofs.ts';
import type { ProofRun } from '../../src/drill/run-proof.ts';
import { drillSvg } from '../../src/output/drill-svg.ts';
import { assertWellFormed } from '../output/well-formed.ts';

const RESOURCE = 'leasehold-drill/pause-1';
const TTL_MS = 1000;

type Draft = Pick<HistoryLine, 'process' | 'act' | 'phase'> & Partial<HistoryLine>;

/** A lease of each, one after the other, as processes tell of it; then a write of the first one that was on its way. */
function lines(late: {
  readonly sentMs: number;
  readonly endMs: number;
  readonly phase: 'ok' | 'fail';
}): HistoryLine[] {
  const seq = new Map<string, number>();
  const of = (atMs: number, draft: Draft): HistoryLine => {
    const next = (seq.get(draft.process) ?? 0) + 1;
    seq.set(draft.process, next);
    return { atMs, seq: next, resource: RESOURCE, ...draft };
  };
  const lease = (process: string, fencingToken: number, fromMs: number): HistoryLine[] => {
    const own = { process, leaseId: process, ttlMs: TTL_MS };
    const granted = { ...own, fencingToken };
    return [
      of(fromMs, { ...own, act: 'acquire', phase: 'invoke', call: 1 }),
      of(fromMs + 1, { ...granted, act: 'acquire', phase: 'ok', call: 1, remainingMs: TTL_MS }),
      of(fromMs + 2, { ...granted, act: 'activate', phase: 'invoke', call: 2 }),
      of(fromMs + 3, { ...granted, act: 'activate', phase: 'ok', call: 2 }),
      of(fromMs + 4, { ...granted, act: 'write', phase: 'invoke', call: 3, writeId: `${process}-1` }),
      of(fromMs + 5, { ...granted, act: 'write', phase: 'ok', call: 3, writeId: `${process}-1` }),
    ];
  };
  const own = { process: 'owner', leaseId: 'owner', fencingToken: 1, writeId: 'late', delegated: true } as const;
  return [
    ...lease('owner', 1, 0),
    ...lease('successor', 2, 2000),
    of(late.sentMs, { ...own, act: 'write', phase: 'invoke', call: 4 }),
    of(late.endMs, { ...own, act: 'write', phase: late.phase, call: 4, outcome: 'STALE_TOKEN' }),
    of(2900, { process: 'successor', act: 'release', phase: 'invoke', leaseId: 'successor', call: 9 }),
    of(2901, { process: 'successor', act: 'release', phase: 'ok', leaseId: 'successor', call: 9 }),
  ];
}

const entry = (writeId: string, leaseId: string, fencingToken: number) => ({ writeId, leaseId, fencingToken });
const CLEAN = [entry('owner-1', 'owner', 1), entry('successor-1', 'successor', 2)];

function broken(its: ReturnType<typeof lines>, ledger?: Parameters<typeof historyOf>[1]): readonly string[] {
  return judge(historyOf(its, ledger, 'drill', 3000), {}).breaches.map((breach) => breach.split(' ')[0] ?? '');
}

describe('what a fence let happen is judged', () => {
  test('as clean where the late write is refused', () => {
    const its = lines({ sentMs: 2500, endMs: 2501, phase: 'fail' });
    expect(broken(its)).toEqual([]);
    expect(broken(its, CLEAN)).toEqual([]);
    expect(judge(historyOf(its, CLEAN, 'drill', 3000), {}).counts).toMatchObject({
      acceptedWrites: 2,
      refusedWrites: 1,
    });
  });

  test('as broken where a write was accepted that was sent after the successor had been activated', () => {
    expect(broken(lines({ sentMs: 2500, endMs: 2501, phase: 'ok' }))).toEqual(['S1', 'S3']);
  });

  test('as clean where a write was accepted before, and only its confirmation came late', () => {
    expect(broken(lines({ sentMs: 100, endMs: 2501, phase: 'ok' }))).toEqual([]);
  });

  test('by the ledger of the resource, whatever processes say', () => {
    const its = lines({ sentMs: 2500, endMs: 2501, phase: 'fail' });
    expect(broken(its, [...CLEAN, entry('late', 'owner', 1)])).toEqual(['S1', 'S3', 'S4']);
    // Confirmed, and not there.
    expect(broken(its, CLEAN.slice(0, 1))).toEqual(['S4']);
  });
});

test('each proof has a name of its own, and the help has them all in their order', () => {
  expect(proofs.map(({ name }) => name)).toEqual(PROOF_NAMES);
  expect(new Set(PROOF_NAMES).size).toBe(PROOF_NAMES.length);
});

test('the picture is well-formed, also of a run that never came to anything, and says everything in words', () => {
  const [proof] = proofs;
  if (proof === undefined) throw new Error('no proofs');
  const drawn = (its: readonly HistoryLine[]): string =>
    drillSvg({ proof, history: historyOf(its, undefined, 'drill', 3000) } as unknown as ProofRun, proof.name);
  const picture = drawn(lines({ sentMs: 2500, endMs: 2501, phase: 'fail' }));
  assertWellFormed(picture);
  expect(picture).toContain('owner, token 1: owner from 0 ms');
  expect(picture).toContain('Refused by the fence: 1.');
  assertWellFormed(drawn([]));
});
