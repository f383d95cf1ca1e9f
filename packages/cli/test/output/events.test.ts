import type { HistoryEntry } from '@leasehold/core';
import { expect, test } from 'vitest';
import { byTime } from '../../src/output/events.ts';

function entry(event: HistoryEntry['event'], second: number): HistoryEntry {
  return { at: new Date(second * 1000), event, owner: '', fencingToken: 1, detail: '', job: null, tick: null };
}

test('events stand in the order of their times, also one that was written late; of one time as they were written', () => {
  // The lease ran out at 10, was sealed at 12, and was taken over at 14: only then its end was written.
  const written = [entry('acquired', 14), entry('expired', 10), entry('sealed', 12), entry('revoked', 10)];
  expect(byTime(written).map(({ event }) => event)).toEqual(['acquired', 'sealed', 'expired', 'revoked']);
});
