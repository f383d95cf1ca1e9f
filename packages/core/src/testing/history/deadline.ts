import { stoppedMs } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { Tenancy, View } from './view.ts';

/** When an owner hears that its trust is over. */

export const lossIsHeardInTime: Invariant = {
  id: 'S19',
  rule: 'an owner hears of the loss of its lease when it can no longer be trusted, and not later',
  breaches: (view) => view.tenancies.flatMap((tenancy) => heardLate(view, tenancy)),
};

function heardLate(view: View, { leaseId, process, terminal, confirmations, granted }: Tenancy): readonly Breach[] {
  // Whether one that never heard of it should have is asked by S7. A release may have been begun long before it could be sent,
  // and one that was given up before it was given was never trusted.
  if (terminal?.act !== 'lost' || terminal.atMs <= granted.end.atMs) return [];
  // Killed while it stood still: it would have gone on then.
  const died = view.died(process);
  if (died?.outcome === 'killed' && died.atMs <= terminal.atMs) return [];
  const before = confirmations.filter(({ end }) => end.atMs <= terminal.atMs);
  const deadlineMs = Math.max(...before.map((each) => view.deadlineOf(each)));
  const { lateMs, sleepGrainMs } = view.settings;
  const from = before.at(-1) ?? granted;
  // Whoever was stopped hears of it when it goes on.
  const stopped = stoppedMs(view, process, granted.invoke.atMs, terminal.atMs);
  const lateBy = terminal.atMs - deadlineMs;
  const grainMs = stopped > 0 ? sleepGrainMs : 0;
  if (lateBy <= lateMs + grainMs + stopped) return [];
  const why = `${leaseId} could be trusted until ${deadlineMs.toFixed(3)} ms, and its loss was heard ${lateBy.toFixed(3)} ms later`;
  return [{ why, events: [from.invoke, from.end, terminal] }];
}

export const deadlineInvariants: readonly Invariant[] = [lossIsHeardInTime];
