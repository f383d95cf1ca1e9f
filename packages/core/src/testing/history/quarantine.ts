import { metBy } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { Nemesis, Tenancy, View } from './view.ts';

/** What is granted after the store has lost its data. */

export const quarantineIsKept: Invariant = {
  id: 'S23',
  rule: 'where the data was lost nothing is granted to whoever asks for a quarantine, until it is over',
  breaches: (view) => {
    const losses = view
      .struck('data-loss')
      .filter(({ begin }) => begin.outcome === 'all' || begin.resource !== undefined);
    return view.tenancies.flatMap((tenancy) => {
      if (tenancy.granted.invoke.act !== 'acquire') return [];
      const { atMs } = tenancy.granted.invoke;
      const isOf = ({ begin }: Nemesis): boolean => (begin.resource ?? tenancy.resource) === tenancy.resource;
      const loss = losses.findLast((each) => isOf(each) && each.untilMs < atMs);
      return loss === undefined ? [] : [...unkept(view, tenancy, loss), ...unasked(view, tenancy, loss)];
    });
  },
};

/** The store knew nothing of the resource, was asked to wait then, and did not. */
function unkept(view: View, { granted, leaseId, resource }: Tenancy, loss: Nemesis): readonly Breach[] {
  const { invoke, end } = granted;
  if ((invoke.quarantineMs ?? 0) <= 0) return [];
  const isKnown = (row: { readonly resource: string; readonly atMs: number; readonly leaseId: string }): boolean =>
    row.resource === resource && row.atMs >= loss.fromMs && (row.leaseId !== leaseId || row.atMs < invoke.atMs);
  // One that was sent before may have been carried out since.
  const isOld = view
    .linesOf(leaseId)
    .some(({ act, phase, atMs }) => act === 'acquire' && phase === 'info' && atMs <= end.atMs);
  if (isOld) return [];
  const others = [...view.callsTo('acquire'), ...view.callsTo('adopt')].filter(
    (call) => call.invoke.resource === resource && call !== granted && call.invoke.atMs <= end.atMs,
  );
  // Of whom it is not known whether they had it since. Where grants are watched, it is.
  const isUnclear = (call: (typeof others)[number]): boolean => {
    const isOpen = call.end === undefined || call.end.phase === 'info';
    return (isOpen && view.grants.length === 0) || (call.end?.phase === 'ok' && call.end.atMs >= loss.fromMs);
  };
  if (view.grants.some((row) => isKnown(row) && row.atMs <= end.atMs) || others.some(isUnclear)) return [];
  const why = `nothing was known of ${resource}, and ${leaseId} was granted although it asked for ${invoke.quarantineMs} ms`;
  return [{ why, events: [loss.begin, invoke, end] }];
}

/** It began anew, and one who is to wait then got what another one still trusted. */
function unasked(view: View, tenancy: Tenancy, loss: Nemesis): readonly Breach[] {
  const { granted, process, resource, leaseId } = tenancy;
  const isCareful = view
    .callsTo('want')
    .some(
      ({ invoke, end }) =>
        invoke.careful === true &&
        invoke.process === process &&
        invoke.resource === resource &&
        invoke.atMs <= granted.invoke.atMs &&
        (end?.atMs ?? Infinity) >= granted.end.atMs,
    );
  const hasRestarted = metBy(view, ['restart'], { fromMs: loss.fromMs, untilMs: loss.fromMs }).length > 0;
  const span = { fromMs: loss.fromMs, untilMs: granted.invoke.atMs, processes: [process] };
  // What was put together before, and sent when the process went on.
  const wasStopped = metBy(view, ['pause', 'frozen-clocks'], span).length > 0;
  if (!isCareful || !hasRestarted || wasStopped) return [];
  const other = view.tenancies.find(
    (each) =>
      each.resource === resource &&
      each.granted.end.atMs <= loss.fromMs &&
      view.beliefEndsMs(each) > granted.end.atMs + view.settings.epsilonMs,
  );
  if (other === undefined) return [];
  const why = `${other.leaseId} was trusted still when ${leaseId} was granted to a process that waits after a restart`;
  return [{ why, events: [other.granted.end, loss.begin, granted.invoke, granted.end] }];
}

export const quarantineInvariants: readonly Invariant[] = [quarantineIsKept];
