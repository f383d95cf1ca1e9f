// docs/diagnosis.md says what the code does.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

import { diagnose } from '../../src/diagnosis/index.ts';
import type { OwnerState } from '../../src/diagnosis/probe.ts';
import { judge, type Facts, type FenceFact, type Observation, type VerdictCode } from '../../src/diagnosis/verdict.ts';
import { LeaseManager } from '../../src/lease/manager.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import { factsWith, free, NEEDED_MS, ownerThatIs, recordOf, TOKEN } from './facts.ts';

const page = readFileSync(new URL('../../../../docs/diagnosis.md', import.meta.url), 'utf8');

/** The cells of the table under a heading, the first without marks. */
function rowsOf(heading: string): readonly (readonly string[])[] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| ---'));
  return rows.slice(1).map((row) => {
    const [, first = '', ...rest] = row.split('|').map((cell) => cell.trim());
    return [first.replaceAll('`', ''), ...rest];
  });
}

/** Its first two columns. */
function table(heading: string): [string, string][] {
  return rowsOf(heading).map(([first = '', second = '']) => [first, second]);
}

function product<T>(choices: { readonly [K in keyof T]: readonly T[K][] }): T[] {
  let all: Partial<T>[] = [{}];
  for (const key of Object.keys(choices) as (keyof T)[]) {
    all = all.flatMap((each) => choices[key].map((value) => ({ ...each, [key]: value })));
  }
  return all as T[];
}

test('every verdict has its row, with its severity', () => {
  const records = [5000, 25_000, 30_500, 40_000, -5000].map((ms) => recordOf(ms));
  const fence: FenceFact = { name: 'ledger', enforcing: true, highest: TOKEN, sealed: false };
  const unchanged: Observation = { state: 'unchanged', forMs: NEEDED_MS, neededMs: NEEDED_MS };
  const watches: Observation[] = [
    unchanged,
    { ...unchanged, state: 'none', forMs: 0 },
    { ...unchanged, state: 'changed' },
  ];
  const owners = (['gone', 'alive', 'stopped', 'unverifiable'] satisfies OwnerState[]).map(ownerThatIs);
  const found = new Map<VerdictCode, string>();
  for (const facts of product<Partial<Facts>>({
    storeTrouble: ['', 'silent'],
    masters: [1, 2],
    shape: ['record', 'foreign'],
    record: [null, free, { ...free, waiting: 2 }, recordOf(25_000, { revoked: true }), ...records],
    evictionPolicy: ['noeviction', 'allkeys-lru'],
    evictedKeys: [0, 2],
    restarted: [false, true],
    fences: [[], [fence], [{ ...fence, highest: TOKEN + 1 }], [{ ...fence, enforcing: false }]],
    observation: watches,
    owner: owners,
    connections: [0, 1],
  })) {
    const { code, severity } = judge(factsWith(facts));
    found.set(code, severity);
  }
  expect(found.size).toBeGreaterThan(20);
  expect(Object.fromEntries(table('Verdicts'))).toEqual(Object.fromEntries(found));
});

test('every verdict is given in a test to what really is in that state', () => {
  const tests = readFileSync(new URL('../../../../test/diagnosis/rows.test.ts', import.meta.url), 'utf8');
  // Each test by the beginning of its name, and what it expects.
  const bodies = tests.split(/\n  test(?:Needing)?\(/).slice(1);
  const rows = rowsOf('Seen for real');
  expect(rows.map(([code]) => code)).toEqual(table('Verdicts').map(([code]) => code));
  for (const [code = '', how, name] of rows) {
    expect(how).not.toBe('');
    const found = bodies.filter((body) => body.slice(0, 120).includes(`'${name}`) && body.includes(`'${code}: `));
    expect([code, found.length]).toEqual([code, 1]);
  }
});

test('every piece of evidence has its row, with its name', async () => {
  const rows = table('Evidence');
  expect(rows.map(([id]) => id)).toEqual(Array.from({ length: 13 }, (_, at) => `E${at + 1}`));
  await using manager = new LeaseManager({ store: new MemoryLeaseStore() });
  await using _lease = await manager.acquire('reports');
  const { evidence } = await diagnose(manager, 'reports', { probes: [] });
  expect(evidence.length).toBeGreaterThan(6);
  for (const { id, name } of evidence) expect(rows).toContainEqual([id, name]);
});
