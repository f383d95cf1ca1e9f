import { excuseFor, stoppedMs } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { FenceRow, HistoryLine, KnownNemesis } from './history.ts';
import { groupBy, type Call, type Nemesis, type Tenancy, type View } from './view.ts';

/** What must get done, and in what time. */

/** The longest ttl that was asked for, and the time in which a lease that nobody keeps comes to the next one. */
export function takeoverMs(view: View): number {
  const ttlMs = view.callsTo('acquire').reduce((longest, { invoke }) => Math.max(longest, invoke.ttlMs ?? 0), 0);
  const { marginMs, pollMs = ttlMs } = view.settings;
  return ttlMs + marginMs(ttlMs) + pollMs;
}

export const workGoesOn: Invariant = {
  id: 'L1',
  rule: 'once the last fault is over somebody works again within a ttl, the margin and two polls',
  breaches(view) {
    const boundMs = takeoverMs(view) + (view.settings.pollMs ?? 0);
    return [...groupBy(view.callsTo('want'), ({ invoke }) => invoke.resource ?? '')].flatMap(([resource, wants]) => {
      const { healedMs } = view;
      const [want] = wants
        .map((each) => ({ each, fromMs: Math.max(each.invoke.atMs, healedMs) }))
        .filter(({ each, fromMs }) => isServedOrWaits(view, each, fromMs + boundMs))
        .sort((a, b) => a.fromMs - b.fromMs);
      if (want === undefined) return [];
      const untilMs = want.fromMs + boundMs;
      const inTime = ({ atMs }: { readonly atMs: number }): boolean => atMs >= healedMs && atMs <= untilMs;
      // An operator's seal is no work.
      const rows = [...view.rows.values()].flat().filter((row) => row.resource === resource && row.act !== 'seal');
      const isServed = rows.some((row) => row.accepted && inTime(row));
      // Without a fence to ask, a lease is all that can be seen.
      const isGranted = view.tenancies.some((each) => each.resource === resource && inTime(each.begins));
      if (isServed || (rows.length === 0 && isGranted)) return [];
      const { invoke, end } = want.each;
      const why = `${resource} was wanted, all was well from ${healedMs.toFixed(3)} ms on, and nothing came by ${untilMs.toFixed(3)} ms`;
      return [{ why, events: end === undefined ? [invoke] : [invoke, end] }];
    });
  },
};

/** Not one that was content with a refusal, that had what it wanted when the fault was over, or whose process ended. */
function isServedOrWaits(view: View, { invoke, end }: Call, untilMs: number): boolean {
  if (untilMs > view.endMs || (view.died(invoke.process)?.atMs ?? Infinity) < untilMs) return false;
  if (end === undefined || end.atMs > untilMs) return true;
  // The fence may have let it in before the fault was over, and the word of it come after.
  const letIn = [...view.rows.values()].flat().find((row) => row.leaseId === end.leaseId && row.accepted);
  return end.phase === 'ok' && end.atMs > view.healedMs && (letIn?.atMs ?? Infinity) >= view.healedMs;
}

export const floorIsLearned: Invariant = {
  id: 'L2',
  rule: 'after the last fault a fence refuses no more activations in a row than there were grants about, and one',
  breaches(view) {
    const breaches: Breach[] = [];
    for (const rows of view.rows.values()) {
      let inRow: FenceRow[] = [];
      for (const row of rows) {
        if (row.atMs < view.healedMs || row.act !== 'activate') continue;
        if (row.accepted) {
          inRow = [];
          continue;
        }
        // A packet that comes when its sender has given up teaches nobody.
        if ((view.tenancy(row.leaseId ?? '', row.fencingToken)?.terminal?.atMs ?? Infinity) <= row.atMs) continue;
        inRow.push(row);
        // Of the others each was asked for when the store could know of the first refusal.
        const firstMs = inRow[0]?.atMs ?? row.atMs;
        const about = view.tenancies.filter(
          (tenancy) =>
            tenancy.resource === row.resource &&
            tenancy.granted.invoke.atMs <= firstMs &&
            (tenancy.terminal?.atMs ?? Infinity) >= firstMs,
        );
        if (inRow.length === about.length + 2) {
          breaches.push({ why: `${inRow.length} activations in a row were refused`, events: inRow });
        }
      }
    }
    return breaches;
  },
};

/** What happens to a process alone, and to nothing that it has sent. */
const OF_ITS_OWN: ReadonlySet<string> = new Set(['kill', 'pause', 'frozen-clocks'] satisfies KnownNemesis[]);

export const takeoverInTime: Invariant = {
  id: 'L3',
  rule: 'who waits gets the lease of a process that was killed within a ttl, the margin and a poll',
  breaches(view) {
    const boundMs = takeoverMs(view);
    return view.lines
      .filter(({ act, outcome }) => act === 'died' && outcome === 'killed')
      .flatMap((died) => {
        const untilMs = died.atMs + boundMs;
        // A fault on its way to the store too: an extension that comes late, and before the end, is one.
        const isDisturbed = view.nemeses.some(
          ({ begin, fromMs, untilMs: endsMs }) =>
            !(begin.target === died.process && OF_ITS_OWN.has(begin.nemesis ?? '')) &&
            fromMs <= untilMs &&
            endsMs >= died.atMs - boundMs,
        );
        if (isDisturbed || untilMs > view.endMs) return [];
        return view.tenancies
          .filter(({ process, terminal, granted }) => process === died.process && !terminal && granted !== undefined)
          .filter((tenancy) => view.beliefEndsMs(tenancy) >= died.atMs)
          .flatMap(({ resource, granted }) => {
            const waiting = view
              .callsTo('want')
              .find(
                (want) =>
                  want.invoke.resource === resource &&
                  want.invoke.process !== died.process &&
                  want.invoke.atMs <= died.atMs &&
                  (want.end?.atMs ?? Infinity) > died.atMs &&
                  isServedOrWaits(view, want, untilMs),
              );
            const next = view.tenancies.some(
              (other) =>
                other.resource === resource &&
                other.begins.atMs > died.atMs &&
                other.begins.atMs <= untilMs &&
                hasWaited(view, other, died.atMs),
            );
            if (waiting === undefined || next) return [];
            const why = `${waiting.invoke.process} waited, and had no lease by ${untilMs.toFixed(3)} ms`;
            return [{ why, events: [waiting.invoke, granted.end, died] }];
          });
      });
  },
};

/** It was wanted before, and not by somebody who came later. Whoever adopts was given it. */
function hasWaited(view: View, { process, resource, begins, granted }: Tenancy, sinceMs: number): boolean {
  if (granted.invoke.act === 'adopt') return true;
  return view
    .callsTo('want')
    .some(
      ({ invoke, end }) =>
        invoke.process === process &&
        invoke.resource === resource &&
        invoke.atMs <= sinceMs &&
        (end?.atMs ?? Infinity) >= begins.atMs,
    );
}

export const fenceSettles: Invariant = {
  id: 'L4',
  rule: 'no operation of a fence is held up for longer than it lets an owner stand in the way',
  breaches: (view) =>
    [...view.callsTo('activate'), ...view.callsTo('write'), ...view.callsTo('seal')].flatMap((call) =>
      lateCalls(view, call, view.settings.fenceTimeoutMs + 1000),
    ),
};

export const callsSettle: Invariant = {
  id: 'L7',
  rule: 'every call settles by its timeout',
  breaches: (view) =>
    view.calls.flatMap((call) =>
      call.invoke.timeoutMs === undefined ? [] : lateCalls(view, call, call.invoke.timeoutMs + view.settings.slackMs),
    ),
};

/** Not what a process could not do while it was stopped, or had ended. */
function lateCalls(view: View, { invoke, end }: Call, boundMs: number): readonly Breach[] {
  const endsMs = end?.atMs ?? Math.min(view.endMs, view.died(invoke.process)?.atMs ?? Infinity);
  const tookMs = endsMs - invoke.atMs - stoppedMs(view, invoke.process, invoke.atMs, endsMs);
  if (tookMs <= boundMs) return [];
  const how = end === undefined ? 'had not settled after' : 'took';
  const why = `${invoke.act} ${how} ${tookMs.toFixed(3)} ms, ${boundMs} ms at most`;
  return [{ why, events: end === undefined ? [invoke] : [invoke, end] }];
}

export const noNeedlessLoss: Invariant = {
  id: 'L5',
  rule: 'without a fault no lease is lost',
  waived: (view) => (view.nemeses.length > 0 || view.settings.healedMs !== undefined ? 'there were faults' : null),
  breaches: (view) =>
    view.lines
      .filter(({ act, leaseId }) => act === 'lost' && !wasAskedFor(view, leaseId ?? ''))
      .map((lost) => ({
        why: `${lost.leaseId} was lost (${lost.outcome ?? 'no reason'}) and nothing had happened`,
        events: view.linesOf(lost.leaseId ?? '').slice(-SHOWN_BEFORE_LOSS),
      })),
};

const SHOWN_BEFORE_LOSS = 8;

/** The owner was told to end it: by whom is said once, and after a second cause it may not be extended any more. */
function wasAskedFor(view: View, leaseId: string): boolean {
  return (
    view.linesOf(leaseId).some(({ act }) => act === 'cancelled') ||
    [...view.callsTo('revoke'), ...view.callsTo('force')].some(({ invoke }) => invoke.leaseId === leaseId)
  );
}

/** It was stopped between the answer to an extension, which it took in time, and the word of that to those who listen. */
function hasUnsaidExtension(own: readonly HistoryLine[], { fromMs }: Nemesis): boolean {
  const last = own.findLast(
    ({ act, phase, atMs }) => atMs <= fromMs && phase === 'ok' && (act === 'extend' || act === 'extended'),
  );
  return last?.act === 'extend';
}

export const sleeperHearsOfLoss: Invariant = {
  id: 'L6',
  rule: 'who was stopped for longer than its lease hears of the loss before it acts',
  breaches: (view) =>
    view.struck('pause').flatMap((pause) =>
      view.tenancies
        .filter(({ process, begins }) => process === pause.begin.target && begins.atMs <= pause.fromMs)
        .flatMap((tenancy) => {
          // Who heard something meanwhile was woken up by somebody else, and stopped again.
          const before = tenancy.confirmations.filter(({ end }) => end.atMs < pause.untilMs);
          const deadlineMs = Math.max(...before.map((each) => view.deadlineOf(each)));
          const { terminal } = tenancy;
          if (deadlineMs > pause.untilMs || (terminal !== undefined && terminal.atMs <= pause.fromMs)) return [];
          const after = tenancy.lines.filter(({ atMs }) => atMs >= pause.untilMs);
          const isBeingSaid = hasUnsaidExtension(tenancy.lines, pause);
          const first = after.find(
            ({ act, phase, checkedMs, atMs, delegated }, index) =>
              (act === 'extended' && !(isBeingSaid && index === 0)) ||
              act === 'lost' ||
              (act === 'write' && phase === 'invoke' && (checkedMs ?? atMs) >= pause.untilMs && delegated !== true),
          );
          if (first === undefined || first.act === 'lost') return [];
          const why = `${tenancy.leaseId} could be trusted until ${deadlineMs.toFixed(3)} ms; its owner woke up later and began with ${first.act}`;
          const last = before.at(-1);
          const { process, granted } = tenancy;
          const span = { fromMs: granted.invoke.atMs, untilMs: first.atMs, processes: [process] };
          const excuse = excuseFor(view, ['frozen-clocks'], span);
          return [{ why, events: [...(last === undefined ? [] : [last.end]), pause.begin, first], excuse }];
        }),
    ),
};

export const livenessInvariants: readonly Invariant[] = [
  workGoesOn,
  floorIsLearned,
  takeoverInTime,
  fenceSettles,
  noNeedlessLoss,
  sleeperHearsOfLoss,
  callsSettle,
];
