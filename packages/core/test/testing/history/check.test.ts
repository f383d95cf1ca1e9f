/**
 * The checker must be able to fail: a history as it should be passes every rule, and one with an error is found by the rule
 * that is about it, and by no other.
 */

import { describe, expect, test } from 'vitest';
import { checkCounts, checkHistory, invariants, noCounts, type History } from '@leasehold/core/testing';
import { seededHistories as otherHistories } from './bugs.ts';
import { lingeringHistories } from './linger-bugs.ts';
import { goodRun, Script } from './script.ts';

const seededHistories = [...otherHistories, ...lingeringHistories];

describe('a history is found that tells of', () => {
  for (const { does, foundBy, alsoBy = [], good, bad, shows, options = {} } of seededHistories) {
    test(`${does} (${foundBy})`, () => {
      const settings = { validity: false, ...options };
      expect(checkHistory(good().history, settings).findings.map(({ message }) => message)).toEqual([]);
      const { findings } = checkHistory(bad().history, settings);
      const messages = findings.map(({ message }) => message).join('\n');
      expect(new Set(findings.map(({ invariant }) => invariant)), messages).toEqual(new Set([foundBy, ...alsoBy]));
      for (const text of shows) expect(messages).toContain(text);
    });
  }

  test('an error for every rule of safety and liveness', () => {
    const found = new Set(seededHistories.map(({ foundBy }) => foundBy));
    const rules = invariants.map(({ id }) => id).filter((id) => !id.startsWith('V'));
    expect(rules.filter((id) => !found.has(id))).toEqual([]);
    expect(rules).toHaveLength(34);
  });
});

describe('a run that proves nothing fails', () => {
  test('when a fault had no effect, or never ended (V1)', () => {
    const script = goodRun().nemesis(100, 200, 'partition').nemesis(100, 200, 'eviction', { effect: 0 });
    script.call(300, 'world', 'nemesis', { nemesis: 'pause', target: 'a' }, { endMs: null });
    const messages = ofRule('V1', script.history);
    expect(messages).toHaveLength(2);
    expect(messages[0]).toContain('eviction had no effect');
    expect(messages[1]).toContain('pause never ended');
  });

  test('when nothing was exercised (V2)', () => {
    expect(ofRule('V2', new Script().history)).toHaveLength(5);
    expect(ofRule('V2', goodRun().history).join('\n')).not.toContain('no fence accepted a write');
  });

  test('judged over all runs of a suite together (V2)', () => {
    const counts = { ...noCounts(), acceptedWrites: 1, refusedWrites: 1, takeovers: 1, unknownAcquires: 1 };
    expect(checkCounts(counts).map(({ message }) => message)).toEqual([
      'V2 the runs exercised what they are to prove\n  no write was left without an answer',
    ]);
    expect(checkCounts({ ...counts, unknownWrites: 1 })).toEqual([]);
  });
});

describe('what a fault makes impossible is waived, and said so', () => {
  const twoOwners = (): Script =>
    new Script().lease(0, 'a', 'L1', 100).lease(200, 'b', 'L2', 200).release(500, 'a', 'L1').release(600, 'b', 'L2');

  test('two owners may believe after the data was lost, and are counted', () => {
    const { findings, waived, counts } = checkHistory(twoOwners().nemesis(100, 110, 'data-loss').history, {
      validity: false,
    });
    expect(findings).toEqual([]);
    expect(waived).toContainEqual({
      invariant: 'S15',
      why: 'data-loss struck',
    });
    expect(counts.overlaps).toBe(1);
  });

  test('an owner may write late after its clocks have stood still, for nothing in its process can tell', () => {
    const late = (): Script =>
      new Script().acquire(0, 'a', 'L1', 100).write(1500, 'a', 'L1', 100, 'w1').lost(1600, 'a', 'L1');
    const settings = { validity: false };
    const stopped = late().nemesis(50, 1000, 'pause', { target: 'a' });
    expect(checkHistory(stopped.history, settings).findings.map(({ invariant }) => invariant)).toEqual(['S6', 'L6']);
    const frozen = late().nemesis(50, 1000, 'frozen-clocks', { target: 'a' });
    expect(checkHistory(frozen.history, settings).findings).toEqual([]);
  });

  test('whoever was stopped while it told of an extension tells of it when it wakes up, and of no other', () => {
    const woken = (extendedMs: number): Script =>
      new Script()
        .acquire(0, 'a', 'L1', 100)
        .extend(extendedMs, 'a', 'L1')
        .nemesis(400, 2400, 'pause', { target: 'a' })
        .line(2400, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' })
        .lost(2401, 'a', 'L1');
    const broken = (script: Script): readonly string[] =>
      checkHistory(script.history, { validity: false }).findings.map(({ invariant }) => invariant);
    expect(broken(woken(380))).toEqual([]);
    const twice = woken(380).line(2400.5, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' });
    expect(broken(twice)).toEqual(['S9', 'L6']);
    const said = woken(300).line(350, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' });
    expect(broken(said)).toEqual(['S9', 'L6']);
  });

  test('whoever was woken up in the midst of a stop, as by another fault, was not stopped for so long', () => {
    const woken = (script: Script): Script =>
      script
        .nemesis(400, 2400, 'pause', { target: 'a' })
        .extend(2405, 'a', 'L1')
        .line(2410, 'a', 'extended', 'ok', { leaseId: 'L1', resource: 'r' })
        .lost(3400, 'a', 'L1');
    const broken = (script: Script): readonly string[] =>
      checkHistory(woken(script).history, { validity: false }).findings.map(({ invariant }) => invariant);
    const held = (): Script => new Script().acquire(0, 'a', 'L1', 100);
    expect(broken(held().extend(900, 'a', 'L1').extend(1700, 'a', 'L1'))).not.toContain('L6');
    expect(broken(held().extend(390, 'a', 'L1'))).toContain('L6');
  });

  test('a doubled request may come after its leaseId was taken back, unless one of them had no answer', () => {
    const taken = (phase: 'fail' | 'info'): Script =>
      new Script()
        .call(0, 'a', 'acquire', { leaseId: 'L1', ttlMs: 1000 }, { phase })
        .call(20, 'a', 'cancel', { leaseId: 'L1' })
        .nemesis(0, 10, 'duplication')
        .granted(500, 'L1', 100);
    const settings = { validity: false };
    expect(checkHistory(taken('fail').history, settings).findings).toEqual([]);
    const { findings } = checkHistory(taken('info').history, settings);
    expect(findings.map(({ invariant }) => invariant)).toEqual(['S11']);
  });

  test('only where it was: not before it, not of another resource, and not of another process', () => {
    const late = (): Script =>
      new Script().acquire(0, 'a', 'L1', 100).write(1150, 'a', 'L1', 100, 'w1').lost(1180, 'a', 'L1');
    const again = (): Script => new Script().acquire(0, 'a', 'L1', 100).granted(50, 'L1', 300).release(900, 'a', 'L1');
    const ran = (): Script =>
      ['L1', 'L2'].reduce(
        (script, leaseId, index) =>
          script
            .acquire(300 * index, 'a', leaseId, 100 + index)
            .line(300 * index + 50, 'a', 'run', 'ok', { resource: 'r', job: 'j', tickAt: 1, leaseId })
            .release(300 * index + 200, 'a', leaseId),
        new Script(),
      );
    const elsewhere = { target: 'z' } as const;
    const broken: [rules: string, script: Script][] = [
      ['S15', twoOwners().nemesis(9000, 9001, 'data-loss')],
      ['S15', twoOwners().nemesis(100, 110, 'data-loss', { resource: 'other' })],
      ['S15', twoOwners().nemesis(9000, 9001, 'frozen-clocks', elsewhere)],
      ['S6', late().nemesis(50, 1000, 'frozen-clocks', elsewhere)],
      ['S10', again().nemesis(9000, 9001, 'duplication', { target: 'a' })],
      ['S10', again().nemesis(0, 1, 'duplication', elsewhere)],
      ['S16', ran().nemesis(9000, 9001, 'data-loss')],
    ];
    for (const [rule, script] of broken) {
      const { findings } = checkHistory(script.history, { validity: false });
      expect(new Set(findings.map(({ invariant }) => invariant)), rule).toEqual(new Set([rule]));
    }
    const struck = checkHistory(ran().nemesis(250, 260, 'data-loss').history, { validity: false });
    expect(struck.findings).toEqual([]);
    expect(struck.waived).toContainEqual({ invariant: 'S16', why: 'data-loss struck' });
  });

  test('a pause waives nothing', () => {
    const { findings } = checkHistory(twoOwners().nemesis(700, 800, 'pause', { target: 'a' }).history, {
      validity: false,
    });
    expect(new Set(findings.map(({ invariant }) => invariant))).toEqual(new Set(['S15']));
  });

  test('tokens may go back only if the data was lost and the clock was behind as well', () => {
    const back = (): Script =>
      new Script().lease(0, 'a', 'L1', 100).release(100, 'a', 'L1').lease(200, 'b', 'L2', 90).release(300, 'b', 'L2');
    const lost = back().nemesis(110, 120, 'data-loss');
    const settings = { validity: false };
    const broken = checkHistory(lost.history, settings).findings.map(({ invariant }) => invariant);
    expect(new Set(broken)).toEqual(new Set(['S14']));
    expect(checkHistory(lost.nemesis(110, 120, 'store-clock-back').history, settings).findings).toEqual([]);
  });
});

test('what a run exercised is counted', () => {
  const script = new Script()
    .acquire(0, 'a', 'L1', 100)
    .write(100, 'a', 'L1', 100, 'w1')
    .nemesis(200, 3000, 'pause', { target: 'a' })
    .acquire(1100, 'b', 'L2', 200)
    .write(1200, 'b', 'L2', 200, 'w2')
    .call(1250, 'b', 'write', { leaseId: 'L2', fencingToken: 200, writeId: 'w3' }, { phase: 'info' })
    .release(1300, 'b', 'L2')
    .lost(3000, 'a', 'L1')
    .refusedWrite(3010, 'a', 'L1', 100, { fencingToken: 200, leaseId: 'L2' }, { delegated: true })
    .call(3100, 'c', 'acquire', { leaseId: 'L3' }, { phase: 'info' });
  expect(checkHistory(script.history).findings).toEqual([]);
  expect(checkHistory(script.history).counts).toEqual({
    ...noCounts(),
    ...{ acquisitions: 2, takeovers: 1, losses: 1, acceptedWrites: 2, refusedWrites: 1 },
    ...{ unknownAcquires: 1, unknownWrites: 1, faults: 1 },
  });
});

test('the order in which lines were written does not matter', () => {
  const { history } = goodRun();
  const lines = history.lines.toReversed();
  expect(checkHistory({ ...history, lines }, { validity: false })).toEqual(checkHistory(history, { validity: false }));
});

function ofRule(id: string, history: History): readonly string[] {
  return checkHistory(history)
    .findings.filter(({ invariant }) => invariant === id)
    .map(({ message }) => message);
}
