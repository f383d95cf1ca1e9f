import { excuseFor } from './excuse.ts';
import type { Invariant } from './finding.ts';
import { groupBy } from './view.ts';

/** What becomes of a lease that was handed over. */

export const oneAdopter: Invariant = {
  id: 'S20',
  rule: 'a lease that is handed over is adopted once',
  breaches(view) {
    const adopted = view.callsTo('adopt').filter(({ invoke, end }) => end?.phase === 'ok' && invoke.from !== undefined);
    return [...groupBy(adopted, ({ invoke }) => invoke.from ?? '')].flatMap(([from, calls]) => {
      const [first] = calls;
      const other = calls.find(({ invoke }) => invoke.leaseId !== first?.invoke.leaseId);
      if (first?.end === undefined || other?.end === undefined) return [];
      const { resource } = first.invoke;
      const span = { fromMs: Math.min(first.invoke.atMs, other.invoke.atMs), untilMs: other.end.atMs, resource };
      return [
        {
          why: `${from} was adopted as ${first.invoke.leaseId} and as ${other.invoke.leaseId}`,
          events: [first.invoke, first.end, other.invoke, other.end],
          // What was taken over before is not known any more.
          excuse: excuseFor(view, ['data-loss'], span),
        },
      ];
    });
  },
};

export const adoptionInvariants: readonly Invariant[] = [oneAdopter];
