import { stoppedMs } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import { takeoverMs } from './liveness.ts';
import { inTime, type Tenancy, type View } from './view.ts';

/** What becomes of a lease that its process keeps for its next run. */

export const lingeringEnds: Invariant = {
  id: 'L8',
  rule: 'a lease that lingers is given back as soon as its owner hears that it is wanted, and by its time',
  breaches: (view) =>
    view.leases
      .filter(({ fencingToken, lastToken }) => lastToken > fencingToken)
      .flatMap((lease) => {
        const holders = view.holdersOf(lease.leaseId);
        return [...goneOn(view, holders), ...neverGivenBack(view, holders)];
      }),
};

/** Also before the answer by which it was granted. */
function heardOf(view: View, { leaseId, process }: Tenancy): HistoryLine | undefined {
  return view.linesOf(leaseId).find((line) => line.act === 'wanted' && line.process === process);
}

/** When the first who had it let go of it. */
function keptSince([first]: readonly Tenancy[]): HistoryLine | undefined {
  return first?.terminal?.act === 'released' ? first.terminal : undefined;
}

/** Nobody has it next once it was wanted, or when its time is over. */
function goneOn(view: View, holders: readonly Tenancy[]): readonly Breach[] {
  const [first, ...others] = holders;
  if (first === undefined) return [];
  const heard = heardOf(view, first);
  const kept = keptSince(holders);
  const { lingerMs = Infinity, clockDrift, epsilonMs } = view.settings;
  return others.flatMap(({ leaseId, process, begins }) => {
    if (heard !== undefined && inTime(heard, begins) < 0) {
      return [{ why: `${leaseId} was wanted, and went to the next in ${process}`, events: [heard, begins] }];
    }
    if (kept === undefined) return [];
    const forMs = begins.atMs - kept.atMs - stoppedMs(view, process, kept.atMs, begins.atMs);
    if (forMs <= lingerMs * (1 + clockDrift) + epsilonMs) return [];
    const why = `${leaseId} went to the next in ${process} ${forMs.toFixed(3)} ms after it was first released, ${lingerMs} ms at most`;
    return [{ why, events: [kept, begins] }];
  });
}

/** Nobody has it, and it is not given back although nothing stands in the way. */
function neverGivenBack(view: View, holders: readonly Tenancy[]): readonly Breach[] {
  const last = holders.at(-1);
  const kept = keptSince(holders);
  const { terminal, process, leaseId, lines } = last ?? {};
  if (last === undefined || terminal?.act !== 'released' || process === undefined) return [];
  const heard = heardOf(view, last);
  const { lingerMs = Infinity, clockDrift, slackMs } = view.settings;
  const overMs = kept === undefined ? Infinity : kept.atMs + lingerMs * (1 + clockDrift);
  const fromMs = Math.max(terminal.atMs, Math.min(heard?.atMs ?? Infinity, overMs));
  const untilMs = fromMs + slackMs;
  if (untilMs > Math.min(view.endMs, view.died(process)?.atMs ?? Infinity)) return [];
  const isDisturbed = view.nemeses.some((each) => each.fromMs <= untilMs && each.untilMs >= fromMs - takeoverMs(view));
  const isGivenBack = lines?.some(({ act, phase, atMs }) => act === 'release' && phase === 'invoke' && atMs <= untilMs);
  if (isDisturbed || isGivenBack === true) return [];
  const why = `${leaseId} had to be given back from ${fromMs.toFixed(3)} ms on, and was not by ${untilMs.toFixed(3)} ms`;
  return [{ why, events: heard === undefined ? [terminal] : [heard, terminal] }];
}

export const lingeringInvariants: readonly Invariant[] = [lingeringEnds];
