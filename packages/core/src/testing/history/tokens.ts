import { metBy, type Scope } from './excuse.ts';
import type { Breach } from './finding.ts';
import type { GrantRow } from './history.ts';
import { groupBy, type View } from './view.ts';

/** What the store itself says of the tokens that it has given out, also of those that nobody was told of. */

/** Why tokens may go back: the store had lost its data, and its clock is behind what it had shown. */
export function tokenExcuse(view: View, scope: Scope): string | undefined {
  const lost = metBy(view, ['data-loss'], scope).length > 0;
  const back = metBy(view, ['store-clock-back'], { ...scope, fromMs: -Infinity }).length > 0;
  return lost && back ? 'the data was lost and the clock of the store was behind' : undefined;
}

function lastOf({ fencingToken, spareTokens = 0 }: GrantRow): number {
  return fencingToken + spareTokens;
}

/** In the order in which it gave them out each token is above all before it. */
export function grantsOutOfOrder(view: View): readonly Breach[] {
  return [...groupBy(view.grants, ({ resource }) => resource).values()].flatMap((rows) => {
    let highest: GrantRow | undefined;
    return rows.flatMap((row) => {
      const before = highest;
      if (before === undefined || row.fencingToken > before.fencingToken) {
        highest = row;
        return [];
      }
      const scope = { fromMs: before.atMs, untilMs: row.atMs, resource: row.resource };
      const why = `${row.leaseId} was given ${row.fencingToken}, after ${before.leaseId} had been given ${before.fencingToken}`;
      return [{ why, events: [before, row], excuse: tokenExcuse(view, scope) }];
    });
  });
}

/** An extension that was confirmed although the store had given the resource to somebody else since. */
export function grantedOver(view: View): readonly Breach[] {
  const byResource = groupBy(view.grants, ({ resource }) => resource);
  return view.callsTo('extend').flatMap(({ invoke, end }) => {
    if (end?.phase !== 'ok') return [];
    const rows = (byResource.get(invoke.resource ?? '') ?? []).filter(({ atMs }) => atMs < invoke.atMs);
    const own = rows.findLastIndex(({ leaseId }) => leaseId === invoke.leaseId);
    const successor = own < 0 ? undefined : rows[own + 1];
    const granted = rows[own];
    if (successor === undefined || granted === undefined) return [];
    const why = `${invoke.leaseId} was extended although ${successor.leaseId} had been given the lease`;
    return [{ why, events: [granted, successor, invoke, end] }];
  });
}

/** An answer that names another token than the store has given out with it. */
export function answeredOtherwise(view: View): readonly Breach[] {
  if (view.grants.length === 0) return [];
  const given = groupBy(view.grants, ({ leaseId }) => leaseId);
  return view.leases.flatMap(({ leaseId, granted, fencingToken }) => {
    const rows = given.get(leaseId) ?? [];
    // Asked again, it is the last of those that were given.
    if (rows.some((row) => fencingToken >= row.fencingToken && fencingToken <= lastOf(row))) return [];
    return [
      { why: `${leaseId} was answered with ${fencingToken}, which was not given`, events: [...rows, granted.end] },
    ];
  });
}

/** A grant of what somebody else still trusted: nobody need have been told of it. */
export function grantedWhileTrusted(view: View): readonly (Breach & { readonly scope: Scope })[] {
  const from = new Map(
    [...view.callsTo('adopt'), ...view.callsTo('acquire')].map(({ invoke }) => [invoke.leaseId, invoke.from]),
  );
  const { epsilonMs } = view.settings;
  const byResource = groupBy(view.leases, ({ resource }) => resource);
  return view.grants.flatMap((row) => {
    const trusted = byResource
      .get(row.resource)
      ?.find(
        (tenancy) =>
          tenancy.leaseId !== row.leaseId &&
          from.get(row.leaseId) !== tenancy.leaseId &&
          tenancy.granted.end.atMs < row.atMs &&
          view.beliefEndsMs(tenancy) > row.atMs + epsilonMs,
      );
    if (trusted === undefined) return [];
    const { leaseId, granted, confirmations } = trusted;
    const why = `${row.leaseId} was given what ${leaseId} was trusted for until ${view.beliefEndsMs(trusted).toFixed(3)} ms`;
    const last = confirmations.findLast(({ end }) => end.atMs <= row.atMs) ?? granted;
    const scope = { fromMs: granted.invoke.atMs, untilMs: row.atMs, resource: row.resource };
    return [{ why, events: [last.invoke, last.end, row], scope }];
  });
}
