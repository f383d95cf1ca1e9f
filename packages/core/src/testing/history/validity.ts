import { countsOf, type Counts } from './counts.ts';
import { findingOf, type Breach, type Finding, type Invariant } from './finding.ts';

/** A run that proves nothing fails. */

export const faultsHadEffect: Invariant = {
  id: 'V1',
  rule: 'every fault shows that it had its effect',
  breaches: (view) =>
    view.nemeses
      .filter(({ end }) => (end?.effect ?? 0) <= 0)
      .map(({ begin, end }) => ({
        why: `${begin.nemesis} ${end === undefined ? 'never ended' : 'had no effect'}`,
        events: end === undefined ? [begin] : [begin, end],
      })),
};

/** What a suite must have met at least once. */
const NEEDED: Partial<Record<keyof Counts, string>> = {
  acceptedWrites: 'no fence accepted a write',
  refusedWrites: 'no late write was refused',
  takeovers: 'no lease was taken over',
  unknownAcquires: 'no acquisition was left without an answer',
  unknownWrites: 'no write was left without an answer',
};

const EXERCISED = { id: 'V2', rule: 'the runs exercised what they are to prove' } as const;

function gapsIn(counts: Counts): readonly Breach[] {
  return (Object.keys(NEEDED) as (keyof Counts)[])
    .filter((name) => counts[name] === 0)
    .map((name) => ({ why: NEEDED[name] ?? name, events: [] }));
}

/** For a run that stands alone. Of many that stand together the sum is judged: `checkCounts`. */
export const runsWereExercised: Invariant = { ...EXERCISED, breaches: (view) => gapsIn(countsOf(view)) };

/** V2 for runs that belong together: the sum of their counts. */
export function checkCounts(counts: Counts): readonly Finding[] {
  return gapsIn(counts).map((breach) => findingOf(EXERCISED, breach));
}

export const validityInvariants: readonly Invariant[] = [faultsHadEffect, runsWereExercised];
