import type { Invariant } from './finding.ts';
import { inTime } from './view.ts';

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

export const bodyInvariants: readonly Invariant[] = [releaseWaitsForBody];
