import { describe, expect, test } from 'vitest';

import { diagnose, type Diagnosis, type OwnerProbe } from '../../src/diagnosis/index.ts';
import { LeaseManager } from '../../src/lease/manager.ts';
import { ownerIdentity } from '../../src/owner.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { LeaseRecord } from '../../src/store/store.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';
import { ownerThatIs, recordOf } from './facts.ts';

/** Answers with one record after the other, and stays at the last. */
class Staged extends MemoryLeaseStore {
  readonly #records: LeaseRecord[];

  constructor(clock: ManualClock, ...records: readonly LeaseRecord[]) {
    super({ clock });
    this.#records = [...records];
  }

  override async read(): Promise<LeaseRecord | null> {
    return (this.#records.length > 1 ? this.#records.shift() : this.#records[0]) ?? null;
  }
}

async function told(
  records: readonly LeaseRecord[],
  probes: readonly OwnerProbe[] = [],
  observe = false,
): Promise<Diagnosis> {
  const clock = new ManualClock();
  await using manager = new LeaseManager({ store: new Staged(clock, ...records), clock });
  let isDone = false;
  const diagnosed = diagnose(manager, 'reports', { probes, observe }).finally(() => (isDone = true));
  diagnosed.catch(() => {}); // awaited below
  while (!isDone) {
    await new Promise((resolve) => setImmediate(resolve));
    if (observe) clock.advance(100);
  }
  return await diagnosed;
}

describe('what an owner wrote of itself', () => {
  test('is judged by the owner that is in the record when it was watched, not by the one before', async () => {
    const named = (instance: string): string => JSON.stringify({ ...ownerIdentity('web-7f9c'), instance });
    const probe: OwnerProbe = {
      name: 'test',
      probe: async ({ instance }) => ({ ...ownerThatIs(instance === 'a' ? 'gone' : 'alive'), probe: `of ${instance}` }),
    };
    const before = recordOf(25_000, { ownerJson: named('a') });
    const after = recordOf(100, { ownerJson: named('b'), leaseId: 'lease-2', fencingToken: before.fencingToken + 1 });
    expect(await told([before, before, after], [probe], true)).toMatchObject({
      verdict: { code: 'held' },
      observation: { state: 'changed' },
      lease: { leaseId: 'lease-2' },
      owner: { state: 'alive', probe: 'of b' },
    });
  });

  test.each([
    'null',
    '[]',
    'no JSON',
    '{"vitals":{}}',
    '{"vitals":null,"pid":"1; reboot"}',
    '{"vitals":7,"host":{"a":1},"pod":["x"]}',
    '{"vitals":{"worstPauseMs":"x","worstExtensionRatio":"x","clockOffsetMs":{},"measuredAt":5},"unit":9}',
    `{"vitals":{"worstPauseMs":1e999,"serverRunId":{}},"instance":"'; $(reboot) \\n'x"}`,
  ])('breaks no diagnosis, whatever it is: %s', async (ownerJson) => {
    const diagnosis = await told([recordOf(40_000, { ownerJson })]);
    expect(diagnosis.verdict.code).toBe('expired');
    expect(diagnosis.owner.state).toBe('unverifiable');
    expect(diagnosis.evidence.map(({ value }) => value).join('\n')).not.toMatch(/NaN|undefined|Infinity|\[object/);
  });
});
