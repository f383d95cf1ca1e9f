import type { Breach, Invariant } from './finding.ts';
import type { HistoryLine } from './history.ts';
import { isTrial } from './store.ts';
import type { View } from './view.ts';

/** By what grants processes act. */

export const actsByItsGrant: Invariant = {
  id: 'S25',
  rule: 'whoever acts at a fence goes by a leaseId that was asked for, and by the token that the store gave with it',
  breaches(view) {
    const asked = new Set(
      [...view.callsTo('acquire'), ...view.callsTo('adopt')].map(({ invoke }) => invoke.leaseId ?? ''),
    );
    if (asked.size === 0) return [];
    const acts = [...view.callsTo('activate'), ...view.callsTo('write')].map(({ invoke }) => invoke);
    return acts.filter((line) => !isTrial(view, line)).flatMap((act) => unfounded(view, asked, act));
  },
};

function unfounded(view: View, asked: ReadonlySet<string>, act: HistoryLine): readonly Breach[] {
  const { leaseId, fencingToken = 0 } = act;
  if (leaseId === undefined) return [];
  if (!asked.has(leaseId)) return [{ why: `nobody had asked for ${leaseId}`, events: [act] }];
  const tenancy = view.tenancy(leaseId);
  if (tenancy === undefined) return [];
  const { fencingToken: first } = view.holdersOf(leaseId)[0] ?? tenancy;
  // Of a lease that may linger all that were reserved with it.
  if (fencingToken >= first && fencingToken <= tenancy.lastToken) return [];
  const why = `${leaseId} was given the token ${first}, and acted with ${fencingToken}`;
  return [{ why, events: [tenancy.granted.end, act] }];
}

export const grantInvariants: readonly Invariant[] = [actsByItsGrant];
