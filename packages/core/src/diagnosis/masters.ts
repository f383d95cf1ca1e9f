import type { ServerEvidence } from '../store/evidence.ts';
import { valueOf } from '../store/reading.ts';

/** A server that says that it is the master of the resource's data. */
export interface MasterFact {
  readonly endpoint: string;
  /** Of those here the one whose replica it was before it was promoted; null for none, or where nobody tells. */
  readonly promotedFrom: string | null;
}

/**
 * How many of the servers say that they are the master of the resource's data; the first is the one that answers for it.
 *
 * One server is known by many addresses, so only run ids tell two apart: where INFO is not permitted a second master cannot
 * be told from a second address, and is not counted. On a Cluster each primary has data of its own: there only one that
 * has the replication history of the first counts, as the former primary of its slots has.
 */
export function mastersOf(servers: readonly ServerEvidence[]): number {
  const masters = servers.filter(isMaster);
  const known = new Set(
    rivalsOf(servers)
      .map(({ runId }) => valueOf(runId))
      .filter((id) => id !== undefined),
  );
  return Math.max(known.size, Math.min(masters.length, 1));
}

/** Those that `mastersOf` counts, one address of each. */
export function masterFacts(servers: readonly ServerEvidence[]): readonly MasterFact[] {
  const byRun = new Map<string, ServerEvidence>();
  for (const each of rivalsOf(servers)) {
    const id = valueOf(each.runId);
    if (id !== undefined && !byRun.has(id)) byRun.set(id, each);
  }
  const masters = [...byRun.values()];
  return masters.map((each) => {
    const before = valueOf(each.previousReplicationId) ?? '';
    const former = masters.find((other) => other !== each && before !== '' && valueOf(other.replicationId) === before);
    return { endpoint: each.endpoint, promotedFrom: former?.endpoint ?? null };
  });
}

function rivalsOf(servers: readonly ServerEvidence[]): readonly ServerEvidence[] {
  const [own] = servers;
  return servers
    .filter(isMaster)
    .filter((each) => each === own || own === undefined || !isOfCluster(each) || shares(own, each));
}

function isMaster({ role }: ServerEvidence): boolean {
  return valueOf(role) === 'master';
}

/** Masters of which it is not known whether they are one server. */
export function untold(servers: readonly ServerEvidence[]): boolean {
  const masters = servers.filter(isMaster);
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
