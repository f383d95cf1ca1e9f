import { expect, test } from 'vitest';

import { diagnose, type Diagnosis } from '../../src/diagnosis/index.ts';
import { ForeignKeyError } from '../../src/errors.ts';
import { LeaseManager } from '../../src/lease/manager.ts';
import type { RecordShape } from '../../src/store/evidence.ts';
import { known } from '../../src/store/reading.ts';
import { outcomeOf, Scene } from './scene.ts';

/** Looks at another program's lock that has so long to live, by the milliseconds that have passed. */
async function watched(ttlOf: (passedMs: number) => number | null | undefined, observe = true): Promise<Diagnosis> {
  const { store, clock } = new Scene();
  const fromMs = clock.monotonicMs();
  const shapeNow = (): RecordShape => {
    const ttlMs = ttlOf(clock.monotonicMs() - fromMs);
    return ttlMs === undefined
      ? { kind: 'absent' }
      : { kind: 'foreign', type: 'string', preview: 'f'.repeat(32), ttlMs };
  };
  store.read = async (resource) => {
    if (shapeNow().kind === 'foreign') throw new ForeignKeyError(resource, 'k', 'holds a string');
    return null;
  };
  const evidence = store.evidence?.bind(store);
  Object.assign(store, {
    evidence: async (...args: Parameters<NonNullable<typeof evidence>>) => ({
      ...(await evidence?.(...args)),
      shape: known(shapeNow()),
    }),
  });
  const outcome = outcomeOf(diagnose(new LeaseManager({ store, clock }), 'r', { observe }));
  await clock.advanceAsync(120_000);
  if (outcome.value === undefined) throw new Error('it gave none', { cause: outcome.error });
  return outcome.value;
}

const rowOf = ({ evidence }: Diagnosis) => evidence.find(({ id }) => id === 'E3');

test("another program's lock that is extended while it is watched is said to have an owner that lives", async () => {
  const found = await watched((ms) => 30_000 - (ms % 10_000));
  expect(found).toMatchObject({ observation: { state: 'changed' }, verdict: { code: 'foreign' } });
  expect(found.verdict.sentence).toContain('its owner lives');
  expect(rowOf(found)).toMatchObject({ meaning: 'its owner is at work' });
  expect(found.verdict.allowed.forceRelease.allowed).toBe(false);
});

test('one that is not extended is not said to be over; one that ran out is gone', async () => {
  const still = await watched((ms) => 90_000 - ms);
  expect(still).toMatchObject({ observation: { state: 'unchanged' }, verdict: { code: 'foreign' } });
  expect(rowOf(still)?.meaning).toContain('does not show that its owner has ended');
  expect(still.verdict.sentence).not.toContain('lives');
  const over = await watched((ms) => (ms < 5000 ? 5000 - ms : undefined));
  expect(over.verdict.code).not.toBe('foreign');
});

test('one that nobody watched, or that never expires, is not said to be extended', async () => {
  expect(rowOf(await watched(() => 30_000, false))?.meaning).toContain('--observe tells whether it is extended');
  expect(rowOf(await watched(() => null))?.meaning).toContain('never expires');
});
