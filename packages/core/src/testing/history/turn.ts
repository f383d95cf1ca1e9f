import { clockExcuse, excuseFor } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import { groupBy, type Call, type Tenancy, type View } from './view.ts';

/** Who gets a lease first that several wait for. */

/** A waiter keeps its place for so many of the times after which it asks again. */
const KEEPS_PLACE = 3;
const SHORTEST_TURN_MS = 50;
const LONGEST_TURN_MS = 500;

export const turnsAreKept: Invariant = {
  id: 'S22',
  rule: 'whoever waits has the first turn: nobody who came later gets the lease before that turn is over',
  breaches(view) {
    const asked = groupBy(view.callsTo('acquire'), ({ invoke }) => invoke.resource ?? '');
    return [...groupBy(view.tenancies, ({ resource }) => resource)].flatMap(([resource, tenancies]) => {
      const byLease = groupBy(asked.get(resource) ?? [], ({ invoke }) => invoke.leaseId ?? '');
      const queues = [...byLease.values()].filter((calls) => calls.some(isQueued));
      const inOrder = tenancies.toSorted((a, b) => a.granted.end.atMs - b.granted.end.atMs);
      return inOrder.flatMap((tenancy, index) => {
        const opensMs = opensFromMs(view, inOrder[index - 1]);
        return queues.length === 0 || opensMs === undefined
          ? []
          : bargedIn(view, tenancy, { queues, before: inOrder[index - 1] as Tenancy, opensMs });
      });
    });
  },
};

function isQueued({ invoke, end }: Call): boolean {
  return invoke.mode === 'wait' && end?.phase === 'fail' && QUEUED.has(end.outcome ?? '');
}

const QUEUED: ReadonlySet<string> = new Set(['held', 'turn']);

/** The first instant at which the next turn can have been opened: the lease was ended, or had run out. */
function opensFromMs(view: View, before: Tenancy | undefined): number | undefined {
  if (before === undefined) return undefined;
  const { granted, leaseId, confirmations } = before;
  const ended = view
    .linesOf(leaseId)
    .find(({ act, phase, atMs }) => ENDS.has(act) && phase === 'invoke' && atMs >= granted.invoke.atMs);
  // Whoever was to have it in its place may have had it, without an answer, and ended it.
  const replaced = [...view.callsTo('adopt'), ...view.callsTo('acquire')].find(({ invoke }) => invoke.from === leaseId);
  const runsOutMs = confirmations.map(({ invoke, end }) => {
    const ttlMs = invoke.ttlMs ?? 0;
    return (end.sentMs ?? invoke.atMs) + Math.min(ttlMs, end.remainingMs ?? ttlMs) * (1 - 2 * view.settings.clockDrift);
  });
  return Math.min(ended?.atMs ?? Infinity, replaced?.invoke.atMs ?? Infinity, Math.max(...runsOutMs));
}

const ENDS: ReadonlySet<string> = new Set(['release', 'cancel', 'force']);

interface Line {
  readonly queues: readonly (readonly Call[])[];
  readonly before: Tenancy;
  readonly opensMs: number;
}

function bargedIn(view: View, tenancy: Tenancy, { queues, before, opensMs }: Line): readonly Breach[] {
  const { granted, leaseId, resource } = tenancy;
  const { invoke, end } = granted;
  const ttlMs = before.granted.invoke.ttlMs ?? 0;
  const turnMs = Math.min(Math.max(ttlMs / 10, SHORTEST_TURN_MS), LONGEST_TURN_MS) * (1 - 2 * view.settings.clockDrift);
  // Adopted, in the place of one that it had, or when somebody may have missed a turn.
  if (invoke.act !== 'acquire' || invoke.from !== undefined || end.atMs >= opensMs + turnMs) return [];
  const asked = view.linesOf(leaseId).find(({ act }) => act === 'acquire') ?? invoke;
  return queues.flatMap((calls) => {
    const [first] = calls;
    if (first === undefined || first.invoke.leaseId === leaseId || first.invoke.atMs >= asked.atMs) return [];
    const since = placeSince(view, calls, before.granted.end.atMs, end.atMs);
    if (since?.end === undefined || since.end.atMs >= asked.atMs) return [];
    // What was lost of the lease before opened the turn earlier, and it may have been missed.
    const span = { fromMs: Math.min(since.invoke.atMs, before.granted.invoke.atMs), untilMs: end.atMs, resource };
    const why = `${first.invoke.leaseId} waited, and ${leaseId}, which came later, had the lease within its turn`;
    return [
      {
        why,
        events: [since.invoke, since.end, asked, end],
        excuse: excuseFor(view, ['data-loss', 'duplication'], span) ?? clockExcuse(view, span),
      },
    ];
  });
}

/**
 * The first of the answers since which this leaseId had its place in the line, up to then; undefined if it may have had none.
 * Before the lease was granted it may have missed its turn, and with that its place.
 */
function placeSince(view: View, calls: readonly Call[], grantedMs: number, untilMs: number): Call | undefined {
  const leaseId = calls[0]?.invoke.leaseId ?? '';
  const isGone = view
    .linesOf(leaseId)
    .some(({ act, phase, atMs }) => (act === 'cancel' || act === 'release') && phase === 'invoke' && atMs <= untilMs);
  const asked = calls.filter(({ invoke }) => invoke.atMs <= untilMs);
  // What had another answer, or none, may have been the end of its wait.
  if (isGone || asked.some((call) => call.end !== undefined && call.end.atMs <= untilMs && !isQueued(call)))
    return undefined;
  const queued = asked.filter(({ invoke, end }) => invoke.atMs >= grantedMs && (end?.atMs ?? Infinity) <= untilMs);
  if (asked.some((call) => call.end?.phase === 'info' || call.end === undefined)) return undefined;
  let since: Call | undefined;
  let livesUntilMs = -Infinity;
  for (const call of queued) {
    if ((call.end?.atMs ?? Infinity) >= livesUntilMs) since = call;
    const keepsMs = KEEPS_PLACE * (call.invoke.waitRefreshMs ?? 0) * (1 - 2 * view.settings.clockDrift);
    livesUntilMs = call.invoke.atMs + keepsMs;
  }
  return livesUntilMs > untilMs ? since : undefined;
}

export const turnInvariants: readonly Invariant[] = [turnsAreKept];
