import { overlaps } from './owner.ts';
import type { View } from './view.ts';

/** How much a run exercised. */
export interface Counts {
  acquisitions: number;
  /** Of these, of a resource that another process had before and had not given back. */
  takeovers: number;
  losses: number;
  acceptedWrites: number;
  /** Refused by a fence as stale. */
  refusedWrites: number;
  refusedActivations: number;
  /** Calls to the store that would make an owner, without an answer. */
  unknownAcquires: number;
  unknownWrites: number;
  /** Other calls without an answer. */
  unknownOthers: number;
  /** Pairs of leases that were trusted at the same time, which some faults allow. */
  overlaps: number;
  handOvers: number;
  revocations: number;
  forcedReleases: number;
  faults: number;
}

export function noCounts(): Counts {
  return {
    ...{ acquisitions: 0, takeovers: 0, losses: 0, acceptedWrites: 0, refusedWrites: 0, refusedActivations: 0 },
    ...{ unknownAcquires: 0, unknownWrites: 0, unknownOthers: 0, overlaps: 0, handOvers: 0, revocations: 0 },
    ...{ forcedReleases: 0, faults: 0 },
  };
}

export function addCounts(sum: Counts, counts: Counts): void {
  for (const name of Object.keys(counts) as (keyof Counts)[]) sum[name] += counts[name];
}

export function countsOf(view: View): Counts {
  const counts = noCounts();
  const rows = [...view.rows.values()].flat();
  counts.acquisitions = view.leases.length;
  counts.losses = view.lines.filter(({ act }) => act === 'lost').length;
  counts.acceptedWrites = rows.filter(({ act, accepted }) => act === 'write' && accepted).length;
  counts.refusedWrites = rows.filter(({ act, accepted }) => act === 'write' && !accepted).length;
  counts.refusedActivations = rows.filter(({ act, accepted }) => act === 'activate' && !accepted).length;
  for (const { invoke, end } of view.calls) {
    if (end !== undefined && end.phase !== 'info') continue;
    if (invoke.act === 'acquire' || invoke.act === 'adopt') counts.unknownAcquires++;
    else if (invoke.act === 'write') counts.unknownWrites++;
    else if (invoke.act !== 'want' && invoke.act !== 'nemesis') counts.unknownOthers++;
  }
  counts.overlaps = overlaps(view).length;
  counts.handOvers = view.callsTo('adopt').filter(({ end }) => end?.phase === 'ok').length;
  counts.revocations = view.callsTo('revoke').filter(({ end }) => end?.phase === 'ok').length;
  counts.forcedReleases = view.callsTo('force').filter(({ end }) => end?.phase === 'ok').length;
  counts.faults = view.nemeses.length;
  counts.takeovers = takeoversOf(view);
  return counts;
}

function takeoversOf(view: View): number {
  let takeovers = 0;
  for (const tenancy of view.leases) {
    const before = view.tenancies
      .filter((other) => other.resource === tenancy.resource && other.begins.atMs < tenancy.begins.atMs)
      .sort((a, b) => a.begins.atMs - b.begins.atMs)
      .at(-1);
    if (before === undefined || before.process === tenancy.process) continue;
    const left = before.terminal;
    if (left === undefined || left.act === 'lost' || left.atMs > tenancy.begins.atMs) takeovers++;
  }
  return takeovers;
}
