import { isAtWork } from './body.ts';
import { stoppedMs } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import type { View } from './view.ts';

/** How long a lease may be held. */

export const heldNoLonger: Invariant = {
  id: 'S18',
  rule: 'a lease is not extended beyond its maxHold, and its run is told to end then',
  breaches: (view) =>
    view.callsTo('want').flatMap(({ end }) => {
      const { leaseId, maxHoldMs, phase } = end ?? {};
      return end === undefined || leaseId === undefined || maxHoldMs === undefined || phase !== 'ok'
        ? []
        : overdue(view, end, leaseId, maxHoldMs);
    }),
};

/** `from`: it has its lease. */
function overdue(view: View, from: HistoryLine, leaseId: string, maxHoldMs: number): readonly Breach[] {
  const { process, atMs, fencingToken } = from;
  const { clockDrift, slackMs } = view.settings;
  const own = view.linesOf(leaseId).filter((line) => line.process === process);
  const overMs = atMs + maxHoldMs * (1 + clockDrift);
  const untilMs = overMs + slackMs + stoppedMs(view, process, atMs, view.endMs);
  // What comes after it has been let go of is for who has it next.
  const ends = own.find(
    (line) => line.atMs >= atMs && (isEnd(line) || (line.fencingToken ?? 0) > (fencingToken ?? Infinity)),
  );
  const endsMs = Math.min(ends?.atMs ?? Infinity, view.died(process)?.atMs ?? Infinity, view.endMs);
  if (endsMs <= untilMs) return [];
  const late = own.find((line) => isExtend(line) && line.atMs > untilMs && line.atMs <= endsMs);
  if (late !== undefined) {
    const why = `${leaseId} was to be held for ${maxHoldMs} ms, and was extended ${(late.atMs - overMs).toFixed(3)} ms later`;
    return [{ why, events: [from, late] }];
  }
  if (own.some((line) => line.act === 'cancelled' && line.atMs <= untilMs)) return [];
  if (!isAtWork(view, { process, leaseId, fromMs: atMs, untilMs })) return [];
  const why = `${leaseId} was to be held for ${maxHoldMs} ms, and its run was not told to end`;
  return [{ why, events: ends === undefined ? [from] : [from, ends] }];
}

function isExtend({ act, phase }: HistoryLine): boolean {
  return act === 'extend' && phase === 'invoke';
}

function isEnd({ act, phase }: HistoryLine): boolean {
  return act === 'lost' || act === 'released' || act === 'handed-over' || (act === 'release' && phase === 'invoke');
}

export const holdInvariants: readonly Invariant[] = [heldNoLonger];
