import type { Breach, Invariant } from './finding.ts';
import type { FenceRow } from './history.ts';
import { groupBy, type View } from './view.ts';

/** What the protected resource let happen: true in every run, whatever the fault. */

/** A seal below the highest changes nothing, so it is none. */
function effective(rows: readonly FenceRow[]): readonly FenceRow[] {
  let highest = 0;
  return rows.filter((row) => {
    if (!row.accepted || (row.act === 'seal' && row.fencingToken < highest)) return false;
    highest = Math.max(highest, row.fencingToken);
    return true;
  });
}

function perResource(view: View, look: (rows: readonly FenceRow[]) => readonly Breach[]): readonly Breach[] {
  return [...view.rows.values()].flatMap(look);
}

export const fenceNeverGoesDown: Invariant = {
  id: 'S1',
  rule: 'at a fence the token of what is accepted never goes down',
  breaches: (view) =>
    perResource(view, (rows) => {
      const breaches: Breach[] = [];
      let highest: FenceRow | undefined;
      for (const row of effective(rows)) {
        const isSealed = highest?.leaseId === null && row.act !== 'seal';
        if (highest !== undefined && row.fencingToken < highest.fencingToken + (isSealed ? 1 : 0)) {
          const shut = isSealed ? 'it was sealed at' : 'it had accepted';
          breaches.push({
            why: `${row.act} with ${row.fencingToken} was accepted after ${shut} ${highest.fencingToken}`,
            events: [highest, row],
          });
        } else highest = row;
      }
      return breaches;
    }),
};

export const oneLeaseIdPerToken: Invariant = {
  id: 'S2',
  rule: 'at a fence each token is accepted of one leaseId only',
  breaches: (view) =>
    perResource(view, (rows) => {
      const own = effective(rows).filter(({ leaseId }) => leaseId !== null);
      return [...groupBy(own, ({ fencingToken }) => fencingToken).values()].flatMap((same) => {
        const first = same[0];
        const other = same.find(({ leaseId }) => leaseId !== first?.leaseId);
        if (first === undefined || other === undefined) return [];
        return [{ why: `two leaseIds were accepted with the token ${first.fencingToken}`, events: [first, other] }];
      });
    }),
};

export const grantIsContiguous: Invariant = {
  id: 'S3',
  rule: 'what a fence accepts of a grant is one unbroken run that begins with its activation',
  breaches: (view) =>
    perResource(view, (rows) => {
      const breaches: Breach[] = [];
      const over = new Map<string, FenceRow>();
      let before: FenceRow | undefined;
      for (const row of effective(rows)) {
        if (row.leaseId !== null && !isSameGrant(row, before)) {
          // Of one leaseId each token has a run of its own, and all of them come before the next leaseId.
          const left = row.leaseId === before?.leaseId ? over.get(grantOf(row)) : over.get(row.leaseId);
          if (left !== undefined && before !== undefined) {
            const why = `${row.act} of ${row.leaseId} was accepted again after another grant had been admitted`;
            breaches.push({ why, events: [left, before, row] });
          } else if (row.act !== 'activate') {
            breaches.push({ why: `${row.leaseId} began with a ${row.act}, not with its activation`, events: [row] });
          }
        }
        if (before !== undefined && before.leaseId !== null && !isSameGrant(before, row)) {
          over.set(before.leaseId === row.leaseId ? grantOf(before) : before.leaseId, before);
        }
        before = row;
      }
      return breaches;
    }),
};

function isSameGrant(row: FenceRow, other: FenceRow | undefined): boolean {
  return row.leaseId === other?.leaseId && row.fencingToken === other.fencingToken;
}

function grantOf({ leaseId, fencingToken }: FenceRow): string {
  return `${leaseId} ${fencingToken}`;
}

export const noLostUpdate: Invariant = {
  id: 'S4',
  rule: 'no update is lost: each accepted write builds on the one before it, and happens once',
  breaches: (view) => [...chainBreaches(view), ...repetitions(view)],
};

function chainBreaches(view: View): readonly Breach[] {
  const invokes = new Map(view.callsTo('write').map((call) => [call.invoke.writeId, call.invoke]));
  return perResource(view, (rows) => {
    const breaches: Breach[] = [];
    let last: FenceRow | undefined;
    for (const row of rows) {
      if (!row.accepted || row.act !== 'write') continue;
      const { writeId, before } = row;
      if (last?.after !== undefined && before !== last.after) {
        breaches.push({
          why: `the data was at ${last.after}, and the next write found ${before}`,
          events: [last, row],
        });
      }
      if (row.after !== undefined && before !== undefined && row.after <= before) {
        breaches.push({
          why: `${writeId} left the data at ${row.after}, and had found it at ${before}`,
          events: [row],
        });
      }
      const { firstVersion } = view.settings;
      if (last === undefined && firstVersion !== undefined && before !== undefined && before !== firstVersion) {
        breaches.push({ why: `the data began at ${firstVersion}, and the first write found ${before}`, events: [row] });
      }
      const invoke = writeId === undefined ? undefined : invokes.get(writeId);
      if (invoke?.version !== undefined && invoke.version !== before) {
        const why = `${writeId} was decided by version ${invoke.version} and overwrote version ${before}`;
        breaches.push({ why, events: [invoke, ...(last === undefined ? [] : [last]), row] });
      }
      last = row;
    }
    return breaches;
  });
}

function repetitions(view: View): readonly Breach[] {
  const all = [...view.rows.values()].flat().filter(({ act, accepted }) => act === 'write' && accepted);
  const byId = groupBy(all, ({ writeId }) => writeId);
  const breaches: Breach[] = [];
  for (const [writeId, rows] of byId) {
    if (writeId !== undefined && rows.length > 1) {
      breaches.push({ why: `${writeId} was carried out ${rows.length} times`, events: rows });
    }
  }
  for (const { invoke, end } of view.callsTo('write')) {
    const rows = byId.get(invoke.writeId) ?? [];
    if (end === undefined || invoke.writeId === undefined) continue;
    if (end.phase === 'ok' && rows.length === 0) {
      breaches.push({ why: `${invoke.writeId} was confirmed and is not in the data`, events: [invoke, end] });
    }
    if (end.phase === 'fail' && rows.length > 0) {
      breaches.push({
        why: `${invoke.writeId} was said to have failed and is in the data`,
        events: [invoke, ...rows, end],
      });
    }
  }
  return breaches;
}

export const noFalseFence: Invariant = {
  id: 'S5',
  rule: 'a fence refuses only what is stale: below the highest, or equal and of another leaseId',
  breaches: (view) =>
    perResource(view, (rows) => {
      const admitted = new Set<string>();
      return rows.flatMap((row) => {
        if (row.accepted) {
          admitted.add(markOf(row));
          return [];
        }
        return falseRefusal(rows, row, admitted);
      });
    }),
};

function markOf({ fencingToken, leaseId }: NonNullable<FenceRow['highest']>): string {
  return `${fencingToken} ${leaseId}`;
}

/** What is above a grant: a larger token, or an equal one of somebody else. */
function isAbove(mark: NonNullable<FenceRow['highest']>, { fencingToken, leaseId }: FenceRow): boolean {
  return mark.fencingToken > fencingToken || (mark.fencingToken === fencingToken && mark.leaseId !== leaseId);
}

/** `admitted`: by then. */
function falseRefusal(rows: readonly FenceRow[], row: FenceRow, admitted: ReadonlySet<string>): readonly Breach[] {
  const { fencingToken, leaseId, highest: said } = row;
  if (said === undefined) {
    // Where it does not say by what, and so not when: there must be something.
    if (rows.some((each) => each.accepted && isAbove(each, row))) return [];
    return [
      { why: `${leaseId} with ${fencingToken} was refused, and nothing above it was ever admitted`, events: [row] },
    ];
  }
  if (!isAbove(said, row)) return [{ why: `${fencingToken} was refused at ${said.fencingToken}`, events: [row] }];
  if (admitted.has(markOf(said))) return [];
  const whose = `${said.fencingToken} of ${said.leaseId ?? 'a seal'}`;
  return [{ why: `the refusal names ${whose}, which was never admitted`, events: [row] }];
}

export const guardInvariants: readonly Invariant[] = [
  fenceNeverGoesDown,
  oneLeaseIdPerToken,
  grantIsContiguous,
  noLostUpdate,
  noFalseFence,
];
