import { expect, test } from 'vitest';

import { roundOf, titleOf, WORKLOADS, type Plan, type Wanted } from './plan.ts';
import { ticksThatGoBack } from './workload.ts';

const wanted: Wanted = { seed: 7, workloads: WORKLOADS, only: [], pairs: true, strikeMs: 1000 };
const round = (its: Partial<Wanted> = {}): readonly Plan[] => roundOf({ ...wanted, ...its }, () => true);

test('a seed gives one plan, and another one another', () => {
  const titles = round().map(titleOf);
  expect(round().map(titleOf)).toEqual(titles);
  expect(round({ seed: 8 }).map(titleOf)).not.toEqual(titles);
});

test('a round has each nemesis alone, and pairs in turn with them; what a run must have met comes first', () => {
  const alone = round({ pairs: false });
  expect(new Set(alone.map(({ nemeses }) => nemeses.length))).toEqual(new Set([1]));
  const first = alone.slice(0, 3).map(({ workload, nemeses }) => `${workload} ${nemeses[0]?.name}`);
  expect(first.toSorted()).toEqual(['core acquire-reply-lost', 'core kill-in-section', 'core pause']);
  expect(
    round()
      .slice(0, 6)
      .map(({ nemeses }) => nemeses.length),
  ).toEqual([1, 2, 1, 2, 1, 2]);
});

test('what a machine does not permit, and what excludes each other, is in no plan', () => {
  const plans = roundOf(wanted, (need) => need !== 'networks');
  const names = plans.map(({ nemeses }) => nemeses.map(({ name }) => name));
  expect(names.flat()).not.toContain('cable');
  expect(names.flat()).toContain('promotion');
  expect(names.filter((pair) => pair.includes('diagnose') && pair.includes('revoke'))).toEqual([]);
});

test('a name that no nemesis has is answered with those that there are', () => {
  expect(() => round({ only: ['kil'] })).toThrow(/^--only kil: there is no such fault; there are kill, /);
});

test('a run of an earlier tick than the one before is told of, unless the store has forgotten', () => {
  const run = (fencingToken: number, tickAt: number) =>
    ({
      atMs: fencingToken,
      seq: 1,
      process: 'a',
      act: 'run',
      phase: 'ok',
      resource: 'x',
      fencingToken,
      tickAt,
    }) as const;
  const lost = { atMs: 5, seq: 1, process: 'n', act: 'nemesis', phase: 'ok', nemesis: 'data-loss' } as const;
  const history = (...lines: Parameters<typeof ticksThatGoBack>[0]['lines']) => ({
    lines,
    fences: [],
    grants: [],
    endMs: 9,
  });
  expect(ticksThatGoBack(history(run(1, 1000), run(2, 1000), run(3, 2000)))).toEqual([]);
  expect(ticksThatGoBack(history(run(1, 2000), run(2, 1000)))).toHaveLength(1);
  expect(ticksThatGoBack(history(run(1, 2000), lost, run(2, 1000)))).toEqual([]);
});
