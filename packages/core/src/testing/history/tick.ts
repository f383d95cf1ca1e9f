import { clockExcuse, excuseFor } from './excuse.ts';
import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import { groupBy, type View } from './view.ts';

/** Which ticks of a schedule are run. */

export const tickRunsOnce: Invariant = {
  id: 'S16',
  rule: 'the body of a tick begins once, after that only as often as it may be tried again and did not end well, and never after a later tick',
  breaches(view) {
    const runs = view.lines.filter(({ act }) => act === 'run');
    const ticks = groupBy(runs, ({ resource, job, tickAt }) => `${resource} ${job} ${tickAt}`);
    const jobs = groupBy(runs, ({ resource, job }) => `${resource} ${job}`);
    return [
      ...[...ticks.values()].flatMap((same) => [...tooOften(view, same), ...again(view, same)]),
      ...[...jobs.values()].flatMap((all) => backwards(view, all)),
    ];
  },
};

/** What the store knew of the first of them it may have lost by the last. */
function forgotten(view: View, events: readonly HistoryLine[]): string | undefined {
  const [first] = events;
  const { granted } = view.tenancy(first?.leaseId ?? '') ?? {};
  const span = {
    fromMs: granted?.invoke.atMs ?? first?.atMs ?? 0,
    untilMs: events.at(-1)?.atMs ?? 0,
    resource: first?.resource,
  };
  return excuseFor(view, ['data-loss'], span);
}

function tooOften(view: View, same: readonly HistoryLine[]): readonly Breach[] {
  const most = 1 + Math.max(...same.map(({ retries = 0 }) => retries));
  const excuse = forgotten(view, same);
  const of = `tick ${same[0]?.tickAt} of ${same[0]?.job}`;
  if (same.length > most) {
    return [{ why: `${of} was run ${same.length} times, ${most} at most`, events: same, excuse }];
  }
  return [...groupBy(same, ({ leaseId }) => leaseId)].flatMap(([leaseId, runs]) =>
    leaseId === undefined || runs.length < 2
      ? []
      : [{ why: `${of} was run ${runs.length} times by ${leaseId}`, events: runs }],
  );
}

/** Once the store had confirmed that it ended well. */
function again(view: View, same: readonly HistoryLine[]): readonly Breach[] {
  return same.flatMap((run) => {
    const ended = view
      .callsTo('release')
      .find(({ invoke, end }) => invoke.leaseId === run.leaseId && end?.phase === 'ok' && endedWell(invoke));
    if (ended?.end === undefined) return [];
    const { atMs } = ended.end;
    const next = same.find((each) => (view.tenancy(each.leaseId ?? '')?.granted.invoke.atMs ?? -Infinity) > atMs);
    if (next === undefined) return [];
    const why = `tick ${run.tickAt} of ${run.job} had ended well, and was run again`;
    return [{ why, events: [run, ended.invoke, ended.end, next], excuse: forgotten(view, [run, next]) }];
  });
}

function endedWell({ outcome }: HistoryLine): boolean {
  return outcome === undefined || outcome === 'done';
}

/** Of one job, each compared with the latest tick of those that had been granted before it was asked for. */
function backwards(view: View, runs: readonly HistoryLine[]): readonly Breach[] {
  const granted = runs.flatMap((run) => {
    const tenancy = view.tenancy(run.leaseId ?? '');
    return tenancy === undefined
      ? []
      : [{ run, askedMs: tenancy.granted.invoke.atMs, endMs: tenancy.granted.end.atMs }];
  });
  return granted.flatMap(({ run, askedMs }) => {
    const later = granted.find((other) => other.endMs < askedMs && (other.run.tickAt ?? 0) > (run.tickAt ?? 0));
    if (later === undefined) return [];
    const span = { fromMs: later.endMs, untilMs: run.atMs, resource: run.resource };
    const why = `tick ${run.tickAt} of ${run.job} was run after tick ${later.run.tickAt}`;
    const excuse = excuseFor(view, ['data-loss'], span) ?? clockExcuse(view, span);
    return [{ why, events: [later.run, run], excuse }];
  });
}

export const tickInvariants: readonly Invariant[] = [tickRunsOnce];
