import { expect, test } from 'vitest';

import { nodeProblem } from '../../scripts/lib/prepare.mjs';
import { summarize } from '../../scripts/lib/results.mjs';

const file = (name: string, statuses: readonly string[], status = 'passed') => ({
  name: `/repo/${name}`,
  status,
  assertionResults: statuses.map((its, index) => ({ status: its, fullName: `test ${index}` })),
});

test('counts', () => {
  const report = { testResults: [file('a', ['passed', 'failed'], 'failed'), file('b', ['passed'])] };
  expect(summarize(report, 1, '/repo')).toEqual({ passed: 2, failed: 1, notRun: [], remarks: [] });
});

test('what was not run is named, whatever the reporter calls it', () => {
  const report = { testResults: [file('a', ['passed', 'skipped', 'pending', 'todo'])] };
  expect(summarize(report, 0, '/repo').notRun).toEqual(['a: test 1', 'a: test 2', 'a: test 3']);
});

test('a failure outside of any test counts once', () => {
  const unloaded = { testResults: [file('a', [], 'failed'), file('b', ['passed'])] };
  expect(summarize(unloaded, 1, '/repo')).toMatchObject({ passed: 1, failed: 1 });
  const unhandled = { testResults: [file('b', ['passed'])] };
  expect(summarize(unhandled, 1, '/repo')).toMatchObject({ passed: 1, failed: 1 });
  expect(summarize(null, 1, '/repo')).toMatchObject({ passed: 0, failed: 1 });
});

test('Node 20.19 is the oldest', () => {
  expect(nodeProblem('20.18.3')).toMatch(/Node 20\.19 or newer is needed; this is 20\.18\.3/);
  expect(nodeProblem('18.20.0')).not.toBeNull();
  for (const version of ['20.19.0', '20.20.2', '22.0.0', '24.1.0']) expect(nodeProblem(version)).toBeNull();
});
