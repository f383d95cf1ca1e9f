// The arithmetic of docs/scaling.md: what a fleet needs, from constants that were measured. Pure.

/** Measured; from the kept figures of `scale-leases` and `scale-names`. Times in µs of a core, sizes in bytes. */
export interface Constants {
  /** A second, with nothing held; 0 if it was not measured. */
  readonly redisIdleUs: number;
  /** Of a command that extends, without its leases. */
  readonly redisUsPerCommand: number;
  /** Of a lease in such a command. */
  readonly redisUsPerExtension: number;
  /** Of a process with ten thousand leases. */
  readonly clientUsPerExtension: number;
  /** Of a process with a thousand. */
  readonly clientUsPerExtensionFew: number;
  readonly inBytesPerExtension: number;
  readonly outBytesPerCommand: number;
  /** Of an extension that is a command of its own: on a Cluster. */
  readonly clusterRedisUsPerExtension: number;
  readonly clusterClientUsPerExtension: number;
  readonly clusterInBytesPerExtension: number;
  readonly clusterOutBytesPerExtension: number;
  /** Of acquire and release, as the three below. */
  readonly redisUsPerPair: number;
  readonly clientUsPerPair: number;
  readonly inBytesPerPair: number;
  readonly outBytesPerPair: number;
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
  /** Each with its release; of all processes together. Default 0. */
  readonly acquisitionsPerSecond?: number;
}

export interface Need {
  readonly extensionsPerSecond: number;
  /** They lie between all due at once and all spread evenly. */
  readonly fewestCommands: number;
  readonly mostCommands: number;
  /** With the fewest commands, and with the most. */
  readonly leastRedisPercent: number;
  readonly redisPercent: number;
  /** Of processes with ten thousand leases, and of those with a thousand. */
  readonly leastClientPercentEach: number;
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

/** How much Redis spent on an extension at a level of the benchmark. */
export interface Spent {
  readonly usPerExtension: number;
  readonly perSecond: number;
  readonly leasesPerCommand: number;
}

/** What a command costs and what a lease in it, from two levels with many and with few leases a command. */
export function splitOf(
  many: Spent,
  few: Spent,
  idleUs: number,
): Pick<Constants, 'redisUsPerCommand' | 'redisUsPerExtension'> {
  const busy = ({ usPerExtension, perSecond }: Spent): number => usPerExtension - idleUs / perSecond;
  const redisUsPerCommand = (busy(few) - busy(many)) / (1 / few.leasesPerCommand - 1 / many.leasesPerCommand);
  return { redisUsPerCommand, redisUsPerExtension: busy(many) - redisUsPerCommand / many.leasesPerCommand };
}

/** At the most, of a process with so many leases. */
const commandsPerExtension = (each: number): number => Math.min(1, 1 / LEAST_AHEAD / each + 1 / BATCH);

/** With its part of the command, at the most. */
export const usPerExtension = ({ leases, processes }: Fleet, its: Constants): number =>
  its.redisUsPerExtension + commandsPerExtension(leases / processes) * its.redisUsPerCommand;

export function needOf({ leases, processes, ttlMs, acquisitionsPerSecond = 0 }: Fleet, its: Constants): Need {
  const refreshS = ttlMs / 1000 / REFRESH_RATIO;
  const extensionsPerSecond = leases / refreshS;
  const each = leases / processes;
  const fewest = (processes * Math.ceil(each / BATCH)) / refreshS;
  const most = extensionsPerSecond * commandsPerExtension(each);
  const redisPercent = (commands: number): number =>
    (its.redisIdleUs +
      commands * its.redisUsPerCommand +
      extensionsPerSecond * its.redisUsPerExtension +
      acquisitionsPerSecond * its.redisUsPerPair) /
    1e4;
  const clientPercent = (us: number): number =>
    (extensionsPerSecond * us + acquisitionsPerSecond * its.clientUsPerPair) / 1e4 / processes;
  return {
    extensionsPerSecond,
    fewestCommands: fewest + 2 * acquisitionsPerSecond,
    mostCommands: most + 2 * acquisitionsPerSecond,
    leastRedisPercent: redisPercent(fewest),
    redisPercent: redisPercent(most),
    leastClientPercentEach: clientPercent(its.clientUsPerExtension),
    clientPercentEach: clientPercent(its.clientUsPerExtensionFew),
    inBytesPerSecond: extensionsPerSecond * its.inBytesPerExtension + acquisitionsPerSecond * its.inBytesPerPair,
    outBytesPerSecond: most * its.outBytesPerCommand + acquisitionsPerSecond * its.outBytesPerPair,
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
export const mastersToGain = (fleet: Fleet, its: Constants): number =>
  Math.floor(its.clusterRedisUsPerExtension / usPerExtension(fleet, its)) + 1;
