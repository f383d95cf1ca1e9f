import { LeaseholdError } from '../errors.ts';
import type { Fence } from '../fence/fence.ts';
import type { Ground } from '../lease/ground.ts';
import { describeRecord, type LeaseInfo } from '../lease/info.ts';
import type { LeaseManager } from '../lease/manager.ts';
import { qualify } from '../names.ts';
import type { OwnerIdentity } from '../owner.ts';
import type { ServerEvidence, StoreEvidence } from '../store/evidence.ts';
import { valueOf } from '../store/reading.ts';
import type { LeaseRecord } from '../store/store.ts';
import { messageOf } from '../thrown.ts';
import { byHandOf, type ByHand } from './by-hand.ts';
import { evidenceOf, type EvidenceItem } from './evidence.ts';
import { observeForeign } from './observe-foreign.ts';
import { isChanged, marginOf, observe } from './observe.ts';
import { masterFacts, mastersOf, type MasterFact } from './masters.ts';
import { parseDiagnoseOptions } from './options.ts';
import type { OwnerFinding, OwnerProbe } from './probe.ts';
import { docker, kubernetes, probeOwner, sameHost, systemd } from './probes/index.ts';
import { judge, type Facts, type FenceFact, type Observation, type Verdict } from './verdict.ts';

export interface DiagnoseOptions {
  /** Who looks for the owner's process. Default: this host, and Kubernetes, Docker and systemd where the owner names itself there. */
  readonly probes?: readonly OwnerProbe[] | undefined;
  /** The fences of the resource, asked for their highest token. Default: none. */
  readonly fences?: readonly Fence[] | undefined;
  /** Watches the record for its ttl and a margin, by this process's own clock. Default: false. */
  readonly observe?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((observation: Observation) => void) | undefined;
}

/** What is known of a resource, what it means, and what may be done. Plain data. */
export interface Diagnosis {
  readonly schema: 'leasehold/diagnosis/v1';
  readonly resource: string;
  readonly namespace: string;
  /** ISO 8601, by this host's clock. */
  readonly at: string;
  readonly verdict: Verdict;
  readonly lease: LeaseInfo | null;
  readonly owner: OwnerFinding;
  readonly fences: readonly FenceFact[];
  readonly observation: Observation;
  readonly evidence: readonly EvidenceItem[];
  readonly servers: readonly ServerEvidence[];
  /** Of these those that say that they are the master of this resource's data, where they tell who they are: two are a split brain. */
  readonly masters: readonly MasterFact[];
  readonly byHand: readonly ByHand[];
}

const FENCE_TIMEOUT_MS = 5000;
/** As many as a log has at most. */
const LOG_EVENTS = 64;
/** A server that is younger than this may have lost what a longer-lived one would know. */
const YOUNG_MS = 60_000;

/**
 * Collects evidence and gives the first verdict that matches. Never writes. A store that cannot be asked is the verdict
 * `unknown`, not an error. Rejects with
 * `ConfigError` for a name that none can have, with `ManagerClosedError`, and with the signal's reason.
 */
export async function diagnose(
  manager: LeaseManager,
  resource: string,
  options: DiagnoseOptions = {},
): Promise<Diagnosis> {
  const { ground } = manager;
  ground.store.checkName('resource', resource);
  return look(ground, resource, parseDiagnoseOptions(options));
}

/** As `diagnose`. */
export async function look(
  ground: Ground,
  resource: string,
  options: DiagnoseOptions = {},
  /** What was watched before, for a second look at a record that is the same still. */
  watched?: Observation,
): Promise<Diagnosis> {
  const { store, clock, call } = ground;
  const { fences = [], probes = defaultProbes(), signal } = options;
  const first = await readOf(ground, resource);
  signal?.throwIfAborted();

  // Before anything else is asked: what is found of an owner is to be of the one who has it at the end.
  const seen =
    watched === undefined ? await watch(ground, resource, first, options) : { ...first, observation: watched };
  const { observation, record: latest, trouble, isForeign } = seen;

  const identity = identityOf(latest);
  const [evidence, owner, asked] = await Promise.all([
    store.evidence?.(resource, identity, call).catch(() => undefined),
    latest === null || latest.owner === '' ? NOBODY : probeOwner(identity, probes),
    askFences(fences, qualify(store.namespace, resource)),
  ]);
  const loggedSeals = await sealsOf(ground, resource, latest, asked);
  signal?.throwIfAborted();

  const facts = factsOf(resource, {
    ground,
    trouble,
    isForeign,
    record: latest,
    evidence,
    owner,
    fences: asked,
    loggedSeals,
    observation,
  });
  const info = latest === null ? null : describeRecord(resource, latest);
  const nowMs = clock.wallMs();
  return {
    schema: 'leasehold/diagnosis/v1',
    resource,
    namespace: store.namespace,
    at: new Date(nowMs).toISOString(),
    verdict: judge(facts),
    lease: info,
    owner,
    fences: asked,
    observation,
    evidence: evidenceOf({ info, trouble, store: evidence, owner, fences: asked, observation, nowMs }),
    servers: evidence?.servers ?? [],
    masters: masterFacts(evidence?.servers ?? []),
    byHand: byHandOf(evidence?.key ?? '', info, owner),
  };
}

const NOBODY: OwnerFinding = {
  state: 'unverifiable',
  probe: 'none',
  detail: 'nobody owns it',
  caveat: '',
  byHand: [],
};

function defaultProbes(): readonly OwnerProbe[] {
  return [sameHost(), kubernetes(), docker(), systemd()];
}

/** The log is asked only if there is a seal to explain. One that cannot be read explains none. */
async function sealsOf(
  { store, call }: Ground,
  resource: string,
  record: LeaseRecord | null,
  fences: readonly FenceFact[],
): Promise<readonly number[]> {
  const isSealed = fences.some(({ sealed, highest }) => sealed && (highest ?? 0) > (record?.fencingToken ?? 0));
  if (record === null || !isSealed) return [];
  const events = await store.history(resource, LOG_EVENTS, call).catch(() => []);
  return events.filter(({ event }) => event === 'sealed').map(({ fencingToken }) => fencingToken);
}

async function askFences(fences: readonly Fence[], qualified: string): Promise<readonly FenceFact[]> {
  return Promise.all(
    fences.map(async (fence): Promise<FenceFact> => {
      const { name } = fence;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<undefined>((resolve) => {
        timer = setTimeout(() => resolve(undefined), FENCE_TIMEOUT_MS);
      });
      try {
        const highest = await Promise.race([fence.highest(qualified), late]);
        const sealed = highest !== undefined && highest !== null && highest.leaseId === null;
        return {
          name,
          // Some know it only once they have been asked something.
          enforcing: fence.enforcing,
          highest: highest === undefined ? undefined : (highest?.fencingToken ?? null),
          sealed,
          ...(typeof highest?.leaseId === 'string' && { leaseId: highest.leaseId }),
        };
      } catch {
        // That it does not answer is the evidence.
        return { name, enforcing: fence.enforcing, highest: undefined, sealed: false };
      } finally {
        clearTimeout(timer);
      }
    }),
  );
}

/** What was read. */
interface Read {
  readonly record: LeaseRecord | null;
  /** Why it could not be; empty if it was. */
  readonly trouble: string;
  readonly isForeign: boolean;
}

interface Seen extends Read {
  readonly observation: Observation;
}

async function readOf({ store, call }: Ground, resource: string): Promise<Read> {
  try {
    return { record: await store.read(resource, call), trouble: '', isForeign: false };
  } catch (error) {
    const isForeign = LeaseholdError.is(error, 'FOREIGN_KEY');
    return { record: null, trouble: isForeign ? '' : messageOf(error), isForeign };
  }
}

/** The observation, and what was read at its end. */
async function watch(ground: Ground, resource: string, first: Read, options: DiagnoseOptions): Promise<Seen> {
  const { store, clock, call } = ground;
  const { observe: isWanted = false, signal, onProgress } = options;
  const { record } = first;
  const watching = { clock, call, signal, onProgress };
  if (isWanted && first.isForeign) {
    const observation = await observeForeign(store, resource, watching);
    const latest = await readOf(ground, resource);
    return { ...latest, observation: latest.isForeign ? observation : unwatched(latest.record) };
  }
  const none = unwatched(record);
  if (!isWanted || record === null || record.owner === '') return { ...first, observation: none };
  try {
    const observation = await observe(store, resource, record, watching);
    const latest = await store.read(resource, call);
    const isOther = latest === null || isChanged(record, latest);
    return { ...first, observation: isOther ? { ...observation, state: 'changed' } : observation, record: latest };
  } catch (error) {
    if (signal?.aborted === true) throw error;
    // The store went away while it was watched: nothing was seen, and what was read before it is old.
    return { ...first, observation: none, trouble: messageOf(error) };
  }
}

function unwatched(record: LeaseRecord | null): Observation {
  return { state: 'none', forMs: 0, neededMs: record === null ? 0 : record.ttlMs + marginOf(record.ttlMs) };
}

interface Found {
  readonly ground: Ground;
  readonly trouble: string;
  readonly isForeign: boolean;
  readonly record: LeaseRecord | null;
  readonly evidence: StoreEvidence | undefined;
  readonly owner: OwnerFinding;
  readonly fences: readonly FenceFact[];
  readonly loggedSeals: readonly number[];
  readonly observation: Observation;
}

function factsOf(resource: string, found: Found): Facts {
  const { trouble, isForeign, record, evidence, owner, fences, loggedSeals, observation } = found;
  const server = evidence?.servers[0];
  const uptimeMs = server && valueOf(server.uptimeMs);
  const isYoung = uptimeMs !== undefined && uptimeMs < Math.max(YOUNG_MS, record?.ttlMs ?? found.ground.timing.ttlMs);
  const connections = evidence && valueOf(evidence.connections);
  return {
    resource,
    storeTrouble: trouble === '' ? storeTrouble(server) : trouble,
    masters: mastersOf(evidence?.servers ?? []),
    shape: isForeign ? 'foreign' : record === null ? 'absent' : 'record',
    record,
    evictionPolicy: (server && valueOf(server.evictionPolicy)) ?? '',
    evictedKeys: (server && valueOf(server.evictedKeys)) ?? 0,
    restarted: isYoung || isPromoted(server, identityOf(record)),
    fences,
    loggedSeals,
    observation,
    owner,
    connections: connections?.length,
    marginMs: record === null ? 0 : marginOf(record.ttlMs),
    ...lostOf(found.ground, uptimeMs),
  };
}

function lostOf(
  { store, timing, quarantine }: Ground,
  uptimeMs: number | undefined,
): Pick<Facts, 'trustedMs' | 'ageMs' | 'quarantined'> {
  const { ttlMs } = timing;
  const ageMs = Math.min(store.server?.ageMs ?? Infinity, uptimeMs ?? Infinity);
  // As acquisitions reckon it.
  const quarantined = (quarantine || store.server?.restarted === true) && (store.server?.ageMs ?? Infinity) < ttlMs;
  return { trustedMs: ttlMs, ageMs, quarantined };
}

function identityOf(record: LeaseRecord | null): OwnerIdentity | null {
  return record === null ? null : describeRecord('', record).identity;
}

function storeTrouble(server: ServerEvidence | undefined): string {
  if (server === undefined) return '';
  if (valueOf(server.loading) === true) return `${server.endpoint} is loading its data`;
  if (valueOf(server.role) === 'replica') return `${server.endpoint} is a replica, which may be behind`;
  return '';
}

function isPromoted(server: ServerEvidence | undefined, owner: OwnerIdentity | null): boolean {
  const before: unknown = owner?.vitals?.serverRunId;
  const now = server && valueOf(server.runId);
  return typeof before === 'string' && before !== '' && now !== undefined && before !== now;
}
