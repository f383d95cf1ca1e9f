// The arithmetic of docs/scaling.md: what a fleet needs, from constants that were measured. Pure.

/** Measured; from the kept figures of `scale-leases` and `scale-names`. Times in µs of a core, sizes in bytes. */
export interface Constants {
  /** Of an extension, in commands of hundreds. */
  readonly redisUsPerExtension: number;
  readonly clientUsPerExtension: number;
  readonly inBytesPerExtension: number;
  readonly outBytesPerCommand: number;
  /** Of an extension that is a command of its own: on a Cluster. */
  readonly clusterRedisUsPerExtension: number;
  readonly clusterClientUsPerExtension: number;
  readonly clusterInBytesPerExtension: number;
  readonly clusterOutBytesPerExtension: number;
  /** Of acquire and release. */
  readonly redisUsPerPair: number;
  readonly memoryPerLease: number;
  readonly memoryPerLeaseCompact: number;
  /** Of a name that nobody holds and that is remembered. */
  readonly memoryPerName: number;
  readonly heapPerLease: number;
  readonly connectionsPerProcess: number;
}

export interface Fleet {
  readonly leases: number;
  readonly processes: number;
  readonly ttlMs: number;
}

export interface Need {
  readonly extensionsPerSecond: number;
  /** They lie between all due at once and all spread evenly. */
  readonly fewestCommands: number;
  readonly mostCommands: number;
  readonly redisPercent: number;
  readonly clientPercentEach: number;
  readonly inBytesPerSecond: number;
  /** At most. */
  readonly outBytesPerSecond: number;
  readonly memory: number;
  readonly memoryCompact: number;
  readonly heapEach: number;
  readonly connections: number;
}

/** Of one command, as the keeper makes them. */
const BATCH = 500;
/** What is due within this part of a refresh interval goes along at the least. */
const LEAST_AHEAD = 0.05;
const REFRESH_RATIO = 3;
/** How much of its core a Redis should use by plan: the rest is for bursts, and for the other things it does. */
export const PLANNED = 0.5;

export function needOf({ leases, processes, ttlMs }: Fleet, its: Constants): Need {
  const refreshS = ttlMs / 1000 / REFRESH_RATIO;
  const extensionsPerSecond = leases / refreshS;
  const each = leases / processes;
  const mostCommands = (processes * Math.min(each, 1 / LEAST_AHEAD + each / BATCH)) / refreshS;
  return {
    extensionsPerSecond,
    fewestCommands: (processes * Math.ceil(each / BATCH)) / refreshS,
    mostCommands,
    redisPercent: (extensionsPerSecond * its.redisUsPerExtension) / 1e4,
    clientPercentEach: (extensionsPerSecond * its.clientUsPerExtension) / 1e4 / processes,
    inBytesPerSecond: extensionsPerSecond * its.inBytesPerExtension,
    outBytesPerSecond: mostCommands * its.outBytesPerCommand,
    memory: leases * its.memoryPerLease,
    memoryCompact: leases * its.memoryPerLeaseCompact,
    heapEach: each * its.heapPerLease,
    connections: processes * its.connectionsPerProcess,
  };
}

/** Of leases of this ttl, by the planned part of a core. */
export const mostLeases = (ttlMs: number, usPerExtension: number): number =>
  ((PLANNED * 1e6) / usPerExtension) * (ttlMs / 1000 / REFRESH_RATIO);

/** Of a Cluster, so that none uses more of its core than is planned; each lease is a command of its own there. */
export const mastersFor = ({ leases, ttlMs }: Fleet, its: Constants): number =>
  Math.ceil(leases / mostLeases(ttlMs, its.clusterRedisUsPerExtension));

/** Below so many masters a Cluster keeps fewer leases than one Redis. */
export const mastersToGain = (its: Constants): number =>
  Math.floor(its.clusterRedisUsPerExtension / its.redisUsPerExtension) + 1;
