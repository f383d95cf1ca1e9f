import type { Invariant } from './finding.ts';
import { inTime, type View } from './view.ts';

/** What a run does with its lease while its body is at work. */

export const releaseWaitsForBody: Invariant = {
  id: 'S21',
  rule: 'a run releases its lease when its body has settled, and not before, whatever it was told',
  breaches: (view) =>
    view.callsTo('body').flatMap(({ invoke, end }) => {
      const { process, leaseId = '' } = invoke;
      const early = view
        .linesOf(leaseId)
        .find(
          (line) =>
            line.process === process &&
            (line.act === 'release' || line.act === 'cancel') &&
            line.phase === 'invoke' &&
            inTime(invoke, line) < 0 &&
            (end === undefined || inTime(line, end) < 0),
        );
      if (early === undefined) return [];
      const why = `${leaseId} was given back while its body was at work`;
      return [{ why, events: end === undefined ? [invoke, early] : [invoke, early, end] }];
    }),
};

/**
 * Whether the work under a lease went on all the time. Of what is no run only the release tells, and only if nothing stood in
 * its way: it may be begun long before it can be sent.
 */
export function isAtWork(
  view: View,
  at: { readonly process: string; readonly leaseId: string; readonly fromMs: number; readonly untilMs: number },
): boolean {
  const { process, leaseId, fromMs, untilMs } = at;
  const bodies = view
    .callsTo('body')
    .filter(({ invoke }) => invoke.process === process && invoke.leaseId === leaseId && invoke.atMs <= untilMs);
  if (bodies.length > 0) return (bodies.at(-1)?.end?.atMs ?? Infinity) > untilMs;
  return !view.nemeses.some(
    ({ begin, ...each }) =>
      each.fromMs <= untilMs && each.untilMs >= fromMs && (begin.target === undefined || begin.target === process),
  );
}

export const bodyInvariants: readonly Invariant[] = [releaseWaitsForBody];
