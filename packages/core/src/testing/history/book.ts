import type { Breach, Invariant } from './finding.ts';
import type { FenceRow, HistoryLine } from './history.ts';
import { groupBy, type Call, type View } from './view.ts';

/** What processes were told by a fence, and what the fence's own book says. */

export const bookAgrees: Invariant = {
  id: 'S24',
  rule: 'what a fence confirms stands in its book, under the grant that it was sent with, and so does its refusal',
  breaches: (view) =>
    view.rows.size === 0 ? [] : [...strangers(view), ...unwritten(view), ...unsealed(view), ...misread(view)],
};

function allRows(view: View): readonly FenceRow[] {
  return [...view.rows.values()].flat();
}

/** Rows of the resource, and of the fence, if the line names one. */
function isAbout(line: HistoryLine, row: FenceRow): boolean {
  return row.resource === line.resource && (line.fence === undefined || line.fence === row.fence);
}

/** A write that stands there under another grant, resource or fence than it was sent to, or that nobody has sent. */
function strangers(view: View): readonly Breach[] {
  const sent = groupBy(
    view.callsTo('write').filter(({ invoke }) => invoke.writeId !== undefined),
    ({ invoke }) => invoke.writeId ?? '',
  );
  return allRows(view).flatMap((row) => {
    const { writeId, leaseId, fencingToken } = row;
    if (row.act !== 'write' || writeId === undefined || sent.size === 0) return [];
    const calls = sent.get(writeId) ?? [];
    const isOne = ({ invoke }: Call): boolean =>
      isAbout(invoke, row) && invoke.leaseId === leaseId && invoke.fencingToken === fencingToken;
    if (calls.some(isOne)) return [];
    const [call] = calls;
    if (call === undefined) return [{ why: `nobody has sent ${writeId}`, events: [row] }];
    const { invoke } = call;
    const why = `${writeId} was sent as ${invoke.leaseId} with ${invoke.fencingToken}, and stands there as ${leaseId} with ${fencingToken}`;
    return [{ why, events: [invoke, row] }];
  });
}

/** Of writes the same is asked by S4. */
function unwritten(view: View): readonly Breach[] {
  const fences = new Set(allRows(view).map(({ fence }) => fence));
  const grants = new Set(
    allRows(view)
      .filter(({ act, accepted }) => act === 'activate' && accepted)
      .flatMap((row) => [nameOf(row), nameOf(row, row.fence)]),
  );
  return view.callsTo('activate').flatMap(({ invoke, end }) => {
    if (end?.phase !== 'ok' || (invoke.fence !== undefined && !fences.has(invoke.fence))) return [];
    if (grants.has(nameOf(invoke, invoke.fence))) return [];
    const why = `the activation of ${invoke.leaseId} was confirmed and is not in the book`;
    return [{ why, events: [invoke, end] }];
  });
}

function nameOf({ resource, leaseId, fencingToken }: FenceRow | HistoryLine, fence = ''): string {
  return `${fence} ${resource} ${leaseId} ${fencingToken}`;
}

function unsealed(view: View): readonly Breach[] {
  const fences = new Set(allRows(view).map(({ fence }) => fence));
  return view.callsTo('seal').flatMap(({ invoke, end }) => {
    if (end?.phase !== 'ok' || (invoke.fence !== undefined && !fences.has(invoke.fence))) return [];
    const { resource, fencingToken = 0 } = invoke;
    if (isShut(view, resource, fencingToken, end.atMs, invoke.fence)) return [];
    return [{ why: `${resource} was sealed at ${fencingToken}, and its book does not say so`, events: [invoke, end] }];
  });
}

/** Whether every grant with that token was shut out by then, as the book says. A seal below the highest changes nothing. */
export function isShut(
  view: View,
  resource: string | undefined,
  fencingToken: number,
  byMs: number,
  fence?: string,
): boolean {
  return allRows(view).some(
    (row) =>
      row.accepted &&
      row.resource === resource &&
      (fence === undefined || fence === row.fence) &&
      row.atMs <= byMs + view.settings.epsilonMs &&
      (row.fencingToken > fencingToken || (row.act === 'seal' && row.fencingToken === fencingToken)),
  );
}

/** A read that finds less than what was confirmed before it began, or more than was ever written by its end. */
function misread(view: View): readonly Breach[] {
  const written = groupBy(
    allRows(view).filter(({ act, accepted, after }) => act === 'write' && accepted && after !== undefined),
    ({ resource }) => resource,
  );
  const ends = new Map(view.callsTo('write').map(({ invoke, end }) => [invoke.writeId, end]));
  return view.callsTo('read').flatMap(({ invoke, end }) => {
    const rows = written.get(invoke.resource ?? '');
    const version = end?.version;
    if (end?.phase !== 'ok' || version === undefined || rows === undefined) return [];
    const before = rows.findLast(({ writeId }) => {
      const confirmed = writeId === undefined ? undefined : ends.get(writeId);
      return confirmed?.phase === 'ok' && confirmed.atMs < invoke.atMs;
    });
    if (before?.after !== undefined && version < before.after) {
      return [{ why: `a read found ${version} when ${before.after} was confirmed`, events: [before, invoke, end] }];
    }
    const first = rows[0]?.before ?? version;
    const last = rows.findLast(({ atMs }) => atMs <= end.atMs + view.settings.epsilonMs);
    if (version <= (last?.after ?? first) && version >= first) return [];
    return [{ why: `a read found ${version}, which the book does not know`, events: [invoke, end] }];
  });
}

export const bookInvariants: readonly Invariant[] = [bookAgrees];
