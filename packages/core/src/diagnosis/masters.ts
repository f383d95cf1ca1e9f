import type { ServerEvidence } from '../store/evidence.ts';
import { valueOf } from '../store/reading.ts';

/**
 * How many of the servers say that they are the master of the resource's data; the first is the one that answers for it.
 *
 * One server is known by many addresses, so only run ids tell two apart: where INFO is not permitted a second master cannot
 * be told from a second address, and is not counted. On a Cluster each primary has data of its own: there only one that
 * has the replication history of the first counts, as the former primary of its slots has.
 */
export function mastersOf(servers: readonly ServerEvidence[]): number {
  const masters = servers.filter(({ role }) => valueOf(role) === 'master');
  const [own] = servers;
  const rivals = masters.filter((each) => each === own || own === undefined || !isOfCluster(each) || shares(own, each));
  const known = new Set(rivals.map(({ runId }) => valueOf(runId)).filter((id) => id !== undefined));
  return Math.max(known.size, Math.min(masters.length, 1));
}

/** Masters of which it is not known whether they are one server. */
export function untold(servers: readonly ServerEvidence[]): boolean {
  const masters = servers.filter(({ role }) => valueOf(role) === 'master');
  return masters.length > 1 && masters.some(({ runId }) => !runId.known);
}

export function isOfCluster({ mode }: ServerEvidence): boolean {
  return valueOf(mode) === 'cluster';
}

/** A replica that was promoted keeps the id of the history that it had with its master as its previous one. */
function shares(one: ServerEvidence, other: ServerEvidence): boolean {
  const ids = historyOf(other);
  return historyOf(one).some((id) => ids.includes(id));
}

function historyOf({ replicationId, previousReplicationId }: ServerEvidence): readonly string[] {
  return [valueOf(replicationId), valueOf(previousReplicationId)].filter(
    (id): id is string => id !== undefined && id !== '',
  );
}
