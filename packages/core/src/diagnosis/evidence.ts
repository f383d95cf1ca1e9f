/** The evidence behind a verdict, for people: each with where it is from, what it means, and what could mislead. */

import type { LeaseInfo } from '../lease/info.ts';
import type { OwnerVitals } from '../owner.ts';
import type { ServerEvidence, StoreEvidence } from '../store/evidence.ts';
import type { Reading } from '../store/reading.ts';
import { recogniseForeign } from './foreign.ts';
import type { OwnerFinding } from './probe.ts';
import { factsOf } from './probes/facts.ts';
import { isOfCluster, masterFacts, untold } from './masters.ts';
import { plain } from './probes/words.ts';
import type { FenceFact, Observation } from './verdict.ts';

export interface EvidenceItem {
  /** `E1` to `E13`: their number in docs/diagnosis.md. */
  readonly id: string;
  readonly name: string;
  /** For a person; one line. */
  readonly value: string;
  readonly source: string;
  readonly meaning: string;
  /** What could make it misleading; empty if nothing known. */
  readonly caveat: string;
}

export interface Gathered {
  readonly info: LeaseInfo | null;
  /** Why the record could not be read; empty if it was. */
  readonly trouble: string;
  readonly store: StoreEvidence | undefined;
  readonly owner: OwnerFinding;
  readonly fences: readonly FenceFact[];
  readonly observation: Observation;
  readonly nowMs: number;
}

type Told = Omit<EvidenceItem, 'id' | 'name'>;

export function evidenceOf(gathered: Gathered): readonly EvidenceItem[] {
  const { store } = gathered;
  const server = store?.servers[0];
  const rows: readonly (readonly [id: string, name: string, told: Told | undefined])[] = [
    ['E1', 'record', record(gathered)],
    ['E2', 'time left', timeLeft(gathered)],
    ['E3', 'watched', watched(gathered)],
    ['E4', 'owner', identity(gathered)],
    ['E5', 'process', process(gathered)],
    ['E6', 'connections', connections(gathered)],
    ['E7', 'server', server && serverState(server)],
    ['E8', 'masters', masters(store)],
    ['E9', 'eviction', server && eviction(server)],
    ['E10', 'durability', server && durability(server)],
    ['E11', 'fences', fences(gathered)],
    ['E12', 'clocks', clocks(gathered, server)],
    ['E13', 'vitals of the owner', vitals(gathered)],
  ];
  return rows.flatMap(([id, name, told]) => (told === undefined ? [] : [{ id, name, ...told }]));
}

function record({ info, store, trouble }: Gathered): Told {
  const source = 'the record, read in one step';
  const shape = store?.shape.known === true ? store.shape.value : undefined;
  if (shape?.kind === 'foreign') {
    const lock = recogniseForeign(store?.key ?? '', shape);
    return {
      value: `${shape.type}: ${lock.library} (${lock.confidence})`,
      source,
      meaning: lock.sentence,
      caveat: lock.ownerString,
    };
  }
  if (info === null && trouble !== '') {
    return {
      value: 'not known',
      source,
      meaning: `it could not be read: ${plain(trouble)}`,
      caveat: 'that is not "free"',
    };
  }
  if (info === null) {
    return {
      value: 'none',
      source,
      meaning: 'never held, forgotten, or lost',
      caveat: 'an evicted or lost key looks like one that never was',
    };
  }
  const state = info.revoked ? `${info.state}, asked to let go` : info.state;
  return {
    value: `${state} · token ${info.fencingToken} · lease ${plain(info.leaseId)}`,
    source,
    meaning:
      info.state === 'expired'
        ? 'ran out; kept as evidence, whoever asks gets it'
        : `acquired ${info.acquiredAt.toISOString()}`,
    caveat: 'true when it was read',
  };
}

function timeLeft({ info }: Gathered): Told | undefined {
  if (info === null || info.state === 'free') return undefined;
  const source = "the store's clock alone";
  const ago = seconds(info.readAt.getTime() - info.extendedAt.getTime());
  const expected = `extended ${info.extensions} times, last ${ago} ago; each ${seconds(info.ttlMs / 3)} is usual`;
  return {
    value:
      info.state === 'held'
        ? `${seconds(info.remainingMs)} of ${seconds(info.ttlMs)}`
        : `ran out ${seconds(info.readAt.getTime() - info.expiresAt.getTime())} ago`,
    source,
    meaning: expected,
    caveat: 'a step of that clock moves it',
  };
}

function watched({ info, store, observation }: Gathered): Told | undefined {
  const shape = store?.shape.known === true ? store.shape.value : undefined;
  if (shape?.kind === 'foreign') return watchedForeign(shape.ttlMs, observation);
  if (info === null || info.state === 'free') return undefined;
  const source = "this process's monotonic clock";
  const caveat = 'what happened while this process stood still was not seen';
  if (observation.state === 'none') {
    return {
      value: 'not watched',
      source,
      meaning: `--observe watches it for ${seconds(observation.neededMs)}`,
      caveat: '',
    };
  }
  return observation.state === 'changed'
    ? {
        value: `changed after ${seconds(observation.forMs)}`,
        source,
        meaning: 'somebody extends it, or has taken it',
        caveat,
      }
    : {
        value: `unchanged for ${seconds(observation.forMs)} of ${seconds(observation.neededMs)}`,
        source,
        meaning: 'nobody extends it',
        caveat,
      };
}

function watchedForeign(ttlMs: number | null, { state, forMs, neededMs }: Observation): Told {
  const source = 'its time to live, two looks by this host';
  const caveat = 'an owner that is at work may extend it seldom, or never';
  if (state === 'changed') {
    return { value: `extended within ${seconds(forMs)}`, source, meaning: 'its owner is at work', caveat: '' };
  }
  if (state === 'unchanged') {
    const value = `not extended for ${seconds(forMs)} of ${seconds(neededMs)}`;
    return { value, source, meaning: 'that does not show that its owner has ended', caveat };
  }
  const meaning =
    ttlMs === null
      ? 'it never expires: only who wrote it knows whether it is in use'
      : '--observe tells whether it is extended; so do two looks at E1';
  return { value: 'not watched', source, meaning, caveat };
}

function identity({ info }: Gathered): Told | undefined {
  if (info === null || info.state === 'free') return undefined;
  const { host, pod, container, unit } = info.identity === null ? {} : factsOf(info.identity);
  const where = [
    host && `host ${host}`,
    pod && `pod ${pod}`,
    container && `container ${container}`,
    unit && `unit ${unit}`,
  ];
  return {
    value: [plain(info.owner), ...where.filter((part) => part !== undefined && part !== '')].join(' · '),
    source: 'written by the owner when it acquired',
    meaning: 'who it says it is',
    caveat: 'names and pids come again; only host, boot, namespace and start time together mean a process',
  };
}

function process({ info, owner }: Gathered): Told | undefined {
  if (info === null || info.state === 'free') return undefined;
  return { value: owner.state, source: owner.probe, meaning: owner.detail, caveat: owner.caveat };
}

function connections({ info, trouble, store }: Gathered): Told | undefined {
  if (store === undefined) return undefined;
  const source = 'CLIENT LIST';
  if (trouble === '' && (info === null || info.state === 'free')) {
    return { value: 'not asked', source, meaning: 'there is no owner in the record', caveat: '' };
  }
  if (!store.connections.known) return missing(store.connections, source);
  const all = store.connections.value;
  return {
    value:
      all.length === 0 ? 'none' : all.map(({ address, idleMs }) => `${address} (idle ${seconds(idleMs)})`).join(', '),
    source,
    meaning:
      all.length === 0 ? 'the owner has no connection to this server' : 'the owner is connected, as far as TCP knows',
    caveat: 'an owner that is cut off looks connected until TCP gives up',
  };
}

function serverState(server: ServerEvidence): Told {
  const { role, uptimeMs, loading, linkUp, replicas, version } = server;
  const lags = replicas.known
    ? replicas.value.map(({ endpoint, lagMs }) => `${endpoint} ${seconds(lagMs)} behind`)
    : [];
  const parts = [
    shown(role),
    version.known && version.value,
    uptimeMs.known && `up ${seconds(uptimeMs.value)}`,
    loading.known && loading.value && 'loading its data',
    linkUp.known && linkUp.value === false && 'link to its master down',
    ...lags,
  ];
  return {
    value: parts.filter((part) => typeof part === 'string').join(' · '),
    source: `INFO of ${server.endpoint}`,
    meaning: 'whether this server is the authority',
    caveat: 'a proxy may answer for another server than the owner talks to',
  };
}

function masters(store: StoreEvidence | undefined): Told | undefined {
  if (store === undefined || store.servers.length < 2) return undefined;
  const roles = store.servers.map(({ endpoint, role }) => `${endpoint} ${shown(role)}`);
  const isCluster = store.servers.some(isOfCluster);
  const promoted = masterFacts(store.servers)
    .filter(({ promotedFrom }) => promotedFrom !== null)
    .map(({ endpoint, promotedFrom }) => `; ${endpoint} was a replica of ${promotedFrom}, and promoted`);
  return {
    value: `${roles.join(', ')}${promoted.join('')}`,
    source: 'every endpoint that is known',
    meaning: isCluster
      ? 'the primaries of a Cluster have different slots; two with one history are a split brain'
      : 'more than one master is a split brain',
    caveat: untold(store.servers)
      ? 'without a run id (INFO) two masters cannot be told from two addresses of one: they count as one'
      : 'endpoints that nobody named are not seen',
  };
}

function eviction({ evictionPolicy, evictedKeys, usedBytes, maxBytes }: ServerEvidence): Told {
  const source = 'INFO memory, stats';
  if (!evictionPolicy.known) return missing(evictionPolicy, source);
  const evicted = evictedKeys.known ? `, ${evictedKeys.value} keys evicted` : '';
  const used =
    usedBytes.known && maxBytes.known && maxBytes.value > 0
      ? `, ${Math.round((100 * usedBytes.value) / maxBytes.value)} % of its memory`
      : '';
  return {
    value: `${evictionPolicy.value}${evicted}${used}`,
    source,
    meaning:
      evictionPolicy.value === 'noeviction'
        ? 'no lease is thrown away'
        : 'a lease may be thrown away under memory pressure',
    caveat: '',
  };
}

function durability({ persistence, minReplicas }: ServerEvidence): Told {
  const source = 'INFO persistence, CONFIG';
  if (!persistence.known) return missing(persistence, source);
  const { appendOnly, fsync, snapshots, error } = persistence.value;
  const aof = appendOnly ? `append-only file${fsync === '' ? '' : `, fsync ${fsync}`}` : '';
  const parts = [
    aof,
    snapshots !== '' && 'snapshots',
    error !== '' && `last write failed: ${error}`,
    minReplicas.known && minReplicas.value > 0 && `${minReplicas.value} replicas at least`,
  ];
  const value = parts.filter((part) => typeof part === 'string' && part !== '').join(' · ');
  return {
    value: value === '' ? 'none: memory only' : value,
    source,
    meaning: appendOnly ? 'a restart loses a second at most' : 'a restart may lose every lease',
    caveat: '',
  };
}

function fences({ fences, info }: Gathered): Told | undefined {
  if (fences.length === 0) {
    return {
      value: 'none was named',
      source: 'the caller',
      meaning: 'nothing is known that would refuse a late write',
      caveat: 'a fence that was not named (--config has them) may be there all the same',
    };
  }
  const token = info?.fencingToken ?? 0;
  const each = fences.map(({ name, enforcing, highest, sealed, leaseId }) => {
    const kind = enforcing ? 'enforcing' : 'not enforcing';
    if (highest === undefined) return `${name}: ${kind}, no answer`;
    if (highest === null) return `${name}: ${kind}, has never admitted anybody here`;
    // A lease that may linger has many tokens, and the record has the last of them.
    const isThis = highest === token || (leaseId !== undefined && leaseId === info?.leaseId);
    const relation = isThis ? '= this lease' : highest > token ? 'beyond this lease' : 'below this lease';
    return `${name}: ${kind}, ${sealed ? 'sealed ' : ''}at ${highest} ${relation}`;
  });
  return {
    value: each.join(' · '),
    source: 'the resource itself',
    meaning: 'an enforcing fence refuses every token below the highest',
    caveat: fences.every(({ highest }) => highest !== null)
      ? 'a writer that does not go through the fence is not seen'
      : 'one that knows nobody of this resource may be the fence of something else: it does not count for a release',
  };
}

function clocks({ info, nowMs }: Gathered, server: ServerEvidence | undefined): Told | undefined {
  const source = 'TIME of the server, this host';
  const own = server?.clockOffset;
  if (own?.known !== true) return own === undefined ? undefined : missing(own, source);
  const owners = info?.identity?.vitals?.clockOffsetMs;
  const ownerPart =
    Number.isFinite(owners) && typeof owners === 'number'
      ? `; the owner's host was ${signed(owners)} off the store`
      : '';
  return {
    value: `store ${signed(own.value.offsetMs)} against this host (within ${Math.round(own.value.errorMs)} ms)${ownerPart}`,
    source,
    meaning: 'leases do not depend on it; schedules and logs of different hosts do',
    caveat: `read at ${new Date(nowMs).toISOString()}`,
  };
}

/** Whoever can write to the store, or another version of Leasehold, may have put anything here. */
function vitals({ info }: Gathered): Told | undefined {
  const its: unknown = info?.state === 'free' ? undefined : info?.identity?.vitals;
  if (typeof its !== 'object' || its === null) return undefined;
  const measured = its as Partial<Record<keyof OwnerVitals, unknown>>;
  const shown = (part: keyof OwnerVitals, tell: (value: number) => string): string | undefined => {
    const value = measured[part];
    return typeof value === 'number' && Number.isFinite(value) ? tell(value) : undefined;
  };
  const parts = [
    shown('worstPauseMs', (ms) => `worst pause ${Math.round(ms)} ms`),
    shown('worstSuspendMs', (ms) => (ms > 0 ? `suspended ${Math.round(ms)} ms` : '')),
    shown('worstClockStepMs', (ms) => `clock step ${Math.round(ms)} ms`),
    shown('worstRoundTripMs', (ms) => `round trip ${Math.round(ms)} ms`),
    shown('worstExtensionRatio', (ratio) => `extension after ${ratio.toFixed(2)} of the ttl`),
    shown('failedExtensions', (count) => `${count} extensions without an answer`),
  ].filter((part) => part !== undefined && part !== '');
  const { measuredAt } = measured;
  return {
    value: parts.length === 0 ? 'not readable' : parts.join(' · '),
    source: 'measured by the owner, written with its extensions',
    meaning: 'the worst since it started: a pause near the ttl is why a lease is lost',
    caveat: typeof measuredAt === 'string' ? `as of ${plain(measuredAt)}` : 'nobody knows as of when',
  };
}

function missing(reading: Extract<Reading<unknown>, { known: false }>, source: string): Told {
  return { value: reading.why.replace('-', ' '), source, meaning: reading.detail, caveat: '' };
}

function shown(reading: Reading<string>): string {
  return reading.known ? reading.value : reading.why.replace('-', ' ');
}

function signed(ms: number): string {
  return `${ms < 0 ? '−' : '+'}${(Math.abs(ms) / 1000).toFixed(3)} s`;
}

function seconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
}
