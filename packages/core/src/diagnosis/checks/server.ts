/** Whether a server is fit to keep what must not be forgotten: the records of leases, or what a fence knows. */

import type { ServerEvidence } from '../../store/evidence.ts';
import { valueOf } from '../../store/reading.ts';
import { check, seconds, type Finding } from './finding.ts';

/** Refused is what does not fit: from here on it is a matter of time. */
const NEARLY_FULL = 0.9;

export interface ServerChecks {
  /** What the server is called in findings: its endpoint, or a fence and its endpoint. */
  readonly subject: string;
  readonly isCluster: boolean;
  /** Whether acquisitions wait out a server that is younger than a lease. */
  readonly quarantine: boolean;
}

/** `oldest`: the first version that can be used, of Redis and of Valkey. */
const OLDEST = { redis: [7, 0], valkey: [7, 2] } as const;

/** Of one that is asked for leases, or keeps a fence. */
export function checkServer(server: ServerEvidence, about: ServerChecks): readonly Finding[] {
  return [mode, version, role, eviction, persistence, disk, memory, replicas].flatMap(
    (each) => each(server, about) ?? [],
  );
}

/** Of one beside it, which may take its place. */
export function checkReplica(server: ServerEvidence, about: ServerChecks): readonly Finding[] {
  if (valueOf(server.role) === undefined) return [];
  return [version, eviction, persistence, disk, memory].flatMap((each) => each(server, about) ?? []);
}

type Check = (server: ServerEvidence, about: ServerChecks) => Finding | undefined;

const mode: Check = (server, { subject, isCluster }) => {
  const its = check('mode', subject);
  const name = valueOf(server.mode);
  if (name === 'sentinel') {
    return its.error(
      'is a Sentinel, which keeps no data',
      'name it in redis: { sentinels: […], name: … }, or name the server',
    );
  }
  if (name === 'cluster' && !isCluster) {
    return its.error(
      'is a node of a Cluster and is asked as if it were alone: most resources are on other nodes',
      'use redis: { cluster: […] }, --cluster, or a Cluster client',
    );
  }
  return undefined;
};

const version: Check = (server, { subject }) => {
  const its = check('version', subject);
  if (!server.version.known) return its.unknown(server.version, 'the version');
  const text = server.version.value;
  const [, valkey, major, minor] = /^(valkey )?(\d+)\.(\d+)/.exec(text) ?? [];
  if (major === undefined) return its.notice(`calls its version ${text}, which cannot be compared`);
  const [least, leastMinor] = valkey === undefined ? OLDEST.redis : OLDEST.valkey;
  const isOld = Number(major) < least || (Number(major) === least && Number(minor) < leastMinor);
  return isOld
    ? its.error(`is ${text}, too old: scripts cannot say that they only read`, 'upgrade to Redis 7.0 or Valkey 7.2')
    : its.ok(text);
};

const role: Check = (server, { subject }) => {
  const its = check('role', subject);
  if (valueOf(server.loading) === true) {
    return its.error('is loading its data, and answers no question', 'wait until it has');
  }
  if (!server.role.known) return its.unknown(server.role, 'the role');
  if (server.role.value === 'master') return its.ok('is a primary');
  return its.error(
    'is a replica: it refuses writes, and what is read from it may have been over for long',
    'name the primary, the sentinels, or an address that follows it',
  );
};

const KEPT =
  'Then CONFIG REWRITE; where the server has no configuration file, the same by hand wherever it is started from (--maxmemory-policy noeviction), or the next start forgets it';

const eviction: Check = (server, { subject }) => {
  const its = check('eviction', subject);
  const policy = valueOf(server.evictionPolicy);
  if (policy === undefined) return its.unknown(server.evictionPolicy, 'the eviction policy');
  if (policy === 'noeviction') return its.ok('throws nothing away');
  const evicted = valueOf(server.evictedKeys) ?? 0;
  // Said with its price: whoever sets it on a full server stops every lease there.
  const remedy = `CONFIG SET maxmemory-policy noeviction once it has room: when it is full all writes fail from then on (OOM), those of leases too, so move caches to another server first or raise maxmemory. ${KEPT}`;
  const had = evicted > 0 ? `, and has thrown away ${evicted} keys since it started` : '';
  // A lease has no TTL while somebody owns it; what remembers it afterwards has.
  if (policy.startsWith('volatile-')) {
    return its.warning(
      `has the policy ${policy}${had}: ticks and records that nobody owns are forgotten when memory is short, so a tick may run twice`,
      remedy,
    );
  }
  return valueOf(server.maxBytes) === 0 && evicted === 0
    ? its.warning(`has the policy ${policy}: leases are thrown away as soon as a limit of memory is set`, remedy)
    : its.error(`has the policy ${policy}${had}: a lease that is thrown away is granted twice`, remedy);
};

const persistence: Check = (server, { subject, quarantine }) => {
  const its = check('persistence', subject);
  if (!server.persistence.known) return its.unknown(server.persistence, 'the persistence');
  const { appendOnly, fsync, snapshots } = server.persistence.value;
  const lost = quarantine
    ? 'forgets leases in a restart; acquisitions wait out a young server (quarantine)'
    : 'forgets leases in a restart, and grants them again while their owners still trust theirs';
  const remedy = `CONFIG SET appendonly yes, with appendfsync everysec${quarantine ? '' : '; or the option quarantine: true'}`;
  if (appendOnly && fsync === 'no') {
    return its.warning(
      'leaves it to the system when its append-only file is written: a crash loses half a minute',
      'CONFIG SET appendfsync everysec',
    );
  }
  if (appendOnly) {
    return its.ok(
      fsync === 'always' ? 'writes each change' : 'writes within a second, which is what a crash may forget',
    );
  }
  if (snapshots !== '') return its.warning(`has snapshots only: ${lost}, those since the last one`, remedy);
  return server.settings.known
    ? its.warning(`keeps nothing: ${lost}`, remedy)
    : its.warning(`has no append-only file, and does not tell of snapshots: ${lost}`, remedy);
};

const disk: Check = (server, { subject }) => {
  const error = valueOf(server.persistence)?.error ?? '';
  if (error === '') return undefined;
  return check('disk', subject).error(
    `${error}: a server that cannot write may refuse writes, and forgets more than it should`,
    'look into its log, at its disk and at its rights there',
  );
};

const memory: Check = (server, { subject }) => {
  const its = check('memory', subject);
  const [used, most] = [valueOf(server.usedBytes), valueOf(server.maxBytes)];
  if (used === undefined || most === undefined) return undefined;
  if (most === 0) return its.ok('has no limit of its own');
  const percent = `${Math.round((100 * used) / most)} % of its memory`;
  const policy = valueOf(server.evictionPolicy);
  const then = policy === undefined || policy === 'noeviction' ? 'writes are refused' : 'keys are thrown away';
  const remedy = 'raise maxmemory, or find what fills it (redis-cli --bigkeys)';
  if (used >= most) return its.error(`uses ${percent}: ${then} now, extensions of leases among them`, remedy);
  if (used >= most * NEARLY_FULL) return its.warning(`uses ${percent}: at its end ${then}`, remedy);
  return its.ok(`uses ${percent}`);
};

/** So far behind, what a failover forgets is more than a moment. */
const LAG_MS = 10_000;

const replicas: Check = (server, { subject }) => {
  const its = check('replicas', subject);
  if (valueOf(server.role) !== 'master' || !server.replicas.known) return undefined;
  const all = server.replicas.value;
  const least = valueOf(server.minReplicas) ?? 0;
  const near = all.filter(({ lagMs }) => lagMs <= LAG_MS);
  if (near.length < least) {
    return its.error(
      `wants ${least} replicas in reach and has ${near.length}: it refuses writes, or is about to`,
      'repair the replicas, or lower min-replicas-to-write',
    );
  }
  if (all.length === 0) return undefined;
  const late = all.filter(({ lagMs }) => lagMs > LAG_MS).map(({ endpoint, lagMs }) => `${endpoint} ${behind(lagMs)}`);
  if (late.length > 0) {
    return its.warning(
      `has replicas that are behind (${late.join(', ')}): one that is promoted grants leases again that are held`,
      'look at the replicas and the network between',
    );
  }
  if (least > 0) return its.ok(`${all.length} in reach; writes need ${least}`);
  return its.notice(
    `${all.length} in reach, and writes need none: a primary that is cut off goes on granting leases until somebody tells it`,
    'CONFIG SET min-replicas-to-write 1, with min-replicas-max-lag 10; a fence refuses what was written then',
  );
};

function behind(lagMs: number): string {
  return lagMs === Infinity ? 'not in step yet' : `${seconds(lagMs)} behind`;
}
