import { metBy } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import type { Nemesis, Tenancy, View } from './view.ts';

/** What is granted after the store has lost its data. */

export const quarantineIsKept: Invariant = {
  id: 'S23',
  rule: 'where the data was lost nothing is granted to whoever asks for a quarantine, until it is over',
  breaches: (view) => {
    const losses = view
      .struck('data-loss')
      .filter(({ begin }) => begin.outcome === 'all' || begin.resource !== undefined);
    const last = (resource: string | undefined, atMs: number): Nemesis | undefined =>
      losses.findLast(({ begin, untilMs }) => (begin.resource ?? resource) === resource && untilMs < atMs);
    return [
      ...view.leases.flatMap((tenancy) => {
        const { invoke } = tenancy.granted;
        const loss = invoke.act === 'acquire' ? last(tenancy.resource, invoke.atMs) : undefined;
        return loss === undefined ? [] : unkept(view, tenancy, loss);
      }),
      ...view.callsTo('acquire').flatMap(({ invoke }) => {
        const loss = last(invoke.resource, invoke.atMs);
        return loss === undefined ? [] : unasked(view, invoke, loss);
      }),
    ];
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

/** It began anew, and one whose option it is did not ask for what is left of a ttl since then. */
function unasked(view: View, invoke: HistoryLine, loss: Nemesis): readonly Breach[] {
  const { process, resource, atMs, ttlMs = 0, quarantineMs = 0 } = invoke;
  const { clockDrift, epsilonMs } = view.settings;
  const leftMs = ttlMs - (atMs - loss.fromMs) * (1 + 2 * clockDrift) - epsilonMs;
  if (quarantineMs >= leftMs) return [];
  const isCareful = view
    .callsTo('want')
    .some(
      ({ invoke: want, end }) =>
        want.careful === true &&
        want.process === process &&
        want.resource === resource &&
        want.atMs <= atMs &&
        (end?.atMs ?? Infinity) >= atMs,
    );
  const hasRestarted = view.struck('restart').some(({ fromMs }) => fromMs === loss.fromMs);
  const span = { fromMs: loss.fromMs, untilMs: atMs, processes: [process] };
  // What was put together before, and sent when the process went on.
  const wasStopped = metBy(view, ['pause', 'frozen-clocks'], span).length > 0;
  if (!isCareful || !hasRestarted || wasStopped) return [];
  const why = `${process} is to wait after a restart, and asked for ${quarantineMs} ms of the ${leftMs.toFixed(3)} ms that were left`;
  return [{ why, events: [loss.begin, invoke] }];
}

export const quarantineInvariants: readonly Invariant[] = [quarantineIsKept];
