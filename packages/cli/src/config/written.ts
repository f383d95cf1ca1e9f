// Made from the schema by test/config/generated.test.ts. Edit that one's descriptions.
import type { Duration } from '@leasehold/core';

/** A config as it is written, in a module or a file. */
export interface LeaseholdConfig {
  /** Of this format: 1. */
  readonly version: 1;
  /** Where leases are. */
  readonly store: {
    /**
     * The Redis that leases are in, 7.0 or later, or a Valkey 7.2 or later: a URL (`rediss://` for TLS), or a map with
     * certificates, sentinels or the nodes of a Cluster.
     */
    readonly redis: string | WrittenRedisByUrl | WrittenRedisByHost | WrittenRedisBySentinel | WrittenRedisByCluster;
    /** The first part of every key. Applications that share a Redis have one each. @default 'leasehold' */
    readonly prefix?: string;
    /**
     * Servers that diagnosis asks as well, as `host:port` or `{ host, port }`, with user, password and TLS of `redis`:
     * those that no server names, such as a primary that was cut off. Default: none.
     */
    readonly endpoints?: readonly (string | { readonly host: string; readonly port?: number })[];
    /** How long calls wait for the first connection. 1 ms to 1 h. @default '5s' */
    readonly connectTimeout?: Duration;
    /**
     * For each call to the store. At least 5 ms; twice that must fit between an extension and its deadline. Default: a
     * third of that time, at most 2 s.
     */
    readonly callTimeout?: Duration;
    /**
     * What the log of a resource keeps: the last 16 exceptional events, or the last 64 of all kinds. @default
     * 'exceptions'
     */
    readonly history?: 'exceptions' | 'all';
    /**
     * Waits out a server that is younger than the ttl, because what it lost in a restart may still be trusted.
     * @default false
     */
    readonly quarantine?: boolean;
  };
  /**
   * What refuses the writes of those that lost their lease. Each has a name, which handlers find it by:
   * `fences.ledger`.
   */
  readonly fences?: Readonly<Record<string, WrittenFenceInPostgreSQL | WrittenFenceInRedis>>;
  /** The HTTP server for probes and metrics. Left out: none. */
  readonly server?: {
    /** The port, or address and port, for `/livez`, `/readyz` and `/metrics`. */
    readonly listen: number | string;
  };
  /** How the process ends. */
  readonly shutdown?: {
    /**
     * How long runs may go on after SIGTERM before they are aborted. Give the container more time than this. @default
     * '10s'
     */
    readonly grace?: Duration;
    /**
     * Whether the process shuts down and ends with 1, so that it is started anew, when a handler goes on for 5 s (or
     * `lease.abandonAfter`) after its signal has aborted. @default false
     */
    readonly exitOnAbandon?: boolean;
  };
  /** What jobs that do not say otherwise have. */
  readonly defaults?: {
    /** The time zone of schedules. @default 'UTC' */
    readonly timezone?: string;
    /** A tick may begin so much later than the schedule says, and no later. At least 1 s. @default '5m' */
    readonly startingDeadline?: Duration;
    /**
     * `skip`: a tick that finds a run of this job going on, in any process, begins none. `allow`: runs of one job go
     * on side by side, each under a lease of its own. @default 'skip'
     */
    readonly overlap?: 'skip' | 'allow';
    /**
     * `latest`: of the ticks that no process ran, the newest is run late, within `startingDeadline`. `none`: they are
     * lost. @default 'none'
     */
    readonly catchUp?: 'none' | 'latest';
    /**
     * How often a tick may be run again whose run died, lost its lease, was cancelled or failed, within
     * `startingDeadline`: at least once instead of at most once. 0 to 100. @default 0
     */
    readonly retry?: number;
    /** Of the leases of all jobs. */
    readonly lease?: {
      /**
       * How long a lease lasts without being extended: for so long a killed process keeps the resource from others.
       * Longer than the longest pause to be survived, not than the run. 100 ms to 24 h. @default '30s'
       */
      readonly ttl?: Duration;
      /** A run that is longer is cancelled, and its lease no longer extended. Default: none. */
      readonly maxHold?: Duration;
      /**
       * `before`: every fence is activated before the handler begins. `on-write`: not at all; only for handlers whose
       * reads all happen inside the write. @default 'before'
       */
      readonly activate?: 'before' | 'on-write';
      /** A lease is extended after `ttl` / `refreshRatio`. 2 to 100, advised 3 to 5. @default 3 */
      readonly refreshRatio?: number;
      /**
       * How much earlier than the store an owner stops believing in its lease. At least 10 ms. Default: `ttl` / 20, 20
       * ms to 500 ms.
       */
      readonly safetyMargin?: Duration;
      /** By how much the clocks of two machines may differ in speed. 0 to 0.2. @default 0.01 */
      readonly driftRate?: number;
      /** For each activation of a fence. At least 5 ms. Default: `ttl`, at most 10 s. */
      readonly activateTimeout?: Duration;
    };
  };
  /** By name. A name is the same in every process and stays: the store remembers the ticks of a job by it. */
  readonly jobs: Readonly<Record<string, WrittenCronJob | WrittenQueueJob | WrittenIntervalJob>>;
}

/** A server by its URL, with what does not fit in one. */
export interface WrittenRedisByUrl {
  /** As the text alone would be, with nothing after a `?`. */
  readonly url: string;
  /** The user of the ACL. Default: `default`. */
  readonly username?: string;
  /** Only from the environment. An empty one is none. Default: none. */
  readonly password?: string;
  /** The database. @default 0 */
  readonly db?: number;
  /** Speaks TLS, and always checks the certificate. `{}`: with the authorities of Node.js. Default: none. */
  readonly tls?: {
    /**
     * The authority to trust: a file (PEM), relative to that of the config, or `${VAR}` with the PEM itself. Default:
     * those of Node.js.
     */
    readonly ca?: string;
    /** Our own certificate, for servers that ask for one. As `ca`. Default: none. */
    readonly cert?: string;
    /** The key of `cert`. As `ca`. Default: none. */
    readonly key?: string;
    /** The name that the certificate of the server must have (SNI). Default: the host. */
    readonly servername?: string;
  };
}

/** A server by its host and port. */
export interface WrittenRedisByHost {
  /** The host. */
  readonly host: string;
  /** The port. @default 6379 */
  readonly port?: number;
  /** The user of the ACL. Default: `default`. */
  readonly username?: string;
  /** Only from the environment. An empty one is none. Default: none. */
  readonly password?: string;
  /** The database. @default 0 */
  readonly db?: number;
  /** Speaks TLS, and always checks the certificate. `{}`: with the authorities of Node.js. Default: none. */
  readonly tls?: {
    /**
     * The authority to trust: a file (PEM), relative to that of the config, or `${VAR}` with the PEM itself. Default:
     * those of Node.js.
     */
    readonly ca?: string;
    /** Our own certificate, for servers that ask for one. As `ca`. Default: none. */
    readonly cert?: string;
    /** The key of `cert`. As `ca`. Default: none. */
    readonly key?: string;
    /** The name that the certificate of the server must have (SNI). Default: the host. */
    readonly servername?: string;
  };
}

/** The primary of a group that Sentinel watches. */
export interface WrittenRedisBySentinel {
  /** The sentinels, as `host:port` or `{ host, port }`. */
  readonly sentinels: readonly (string | { readonly host: string; readonly port?: number })[];
  /** What the sentinels call the group of servers. */
  readonly name: string;
  /** The user of the ACL. Default: `default`. */
  readonly username?: string;
  /** Only from the environment. An empty one is none. Default: none. */
  readonly password?: string;
  /** The database. @default 0 */
  readonly db?: number;
  /** Speaks TLS, and always checks the certificate. `{}`: with the authorities of Node.js. Default: none. */
  readonly tls?: {
    /**
     * The authority to trust: a file (PEM), relative to that of the config, or `${VAR}` with the PEM itself. Default:
     * those of Node.js.
     */
    readonly ca?: string;
    /** Our own certificate, for servers that ask for one. As `ca`. Default: none. */
    readonly cert?: string;
    /** The key of `cert`. As `ca`. Default: none. */
    readonly key?: string;
    /** The name that the certificate of the server must have (SNI). Default: the host. */
    readonly servername?: string;
  };
  /** The user at the sentinels. Default: `default`. */
  readonly sentinelUsername?: string;
  /** Of the sentinels. Only from the environment. Default: none. */
  readonly sentinelPassword?: string;
  /** Whether `tls` is for the sentinels as well. Default: true if there is `tls`. */
  readonly sentinelTls?: boolean;
}

/** A Redis Cluster. */
export interface WrittenRedisByCluster {
  /** Some of its nodes, as `host:port` or `{ host, port }`. The others are found through them. */
  readonly cluster: readonly (string | { readonly host: string; readonly port?: number })[];
  /** The user of the ACL. Default: `default`. */
  readonly username?: string;
  /** Only from the environment. An empty one is none. Default: none. */
  readonly password?: string;
  /** Speaks TLS, and always checks the certificate. `{}`: with the authorities of Node.js. Default: none. */
  readonly tls?: {
    /**
     * The authority to trust: a file (PEM), relative to that of the config, or `${VAR}` with the PEM itself. Default:
     * those of Node.js.
     */
    readonly ca?: string;
    /** Our own certificate, for servers that ask for one. As `ca`. Default: none. */
    readonly cert?: string;
    /** The key of `cert`. As `ca`. Default: none. */
    readonly key?: string;
    /** The name that the certificate of the server must have (SNI). Default: the host. */
    readonly servername?: string;
  };
}

/** Refuses late writes to a database of PostgreSQL 13 or later. */
export interface WrittenFenceInPostgreSQL {
  /** The database. */
  readonly postgres: string;
  /** Where the tables of the fence are. @default 'leasehold' */
  readonly schema?: string;
  /** Within which a commit settles. @default '5s' */
  readonly timeout?: Duration;
  /** How long an owner may stand still inside its transaction before PostgreSQL ends its session. @default '5s' */
  readonly idleTimeout?: Duration;
  /**
   * How long an activation waits for the transaction of an earlier owner. More than `idleTimeout`. Default:
   * `idleTimeout` + 1 s.
   */
  readonly lockTimeout?: Duration;
  /** Of the transactions of the fence. @default 'read committed' */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable';
}

/** Refuses late writes to a Redis. */
export interface WrittenFenceInRedis {
  /** The Redis that the data is in, as in `store`. */
  readonly redis: string | WrittenRedisByUrl | WrittenRedisByHost | WrittenRedisBySentinel | WrittenRedisByCluster;
  /** Within which every call settles. @default '5s' */
  readonly timeout?: Duration;
}

/** Runs once for each tick of a schedule, in one of all processes. */
export interface WrittenCronJob {
  /** The schedule: minute, hour, day of the month, month, day of the week; with six fields, seconds first. */
  readonly cron: string;
  /**
   * The file of the code, relative to that of the config, and after a `#` what it exports (without: its default
   * export). TypeScript needs Node 22.18 or a loader such as tsx.
   */
  readonly handler: string;
  /**
   * Where the handler runs. A `thread` or `process` of its own is ended when it ignores its signal for 2 s; `none` is
   * the thread of the command. @default 'none'
   */
  readonly isolate?: 'none' | 'thread' | 'process';
  /** The time zone of the schedule. Default: `defaults.timezone`. */
  readonly timezone?: string;
  /** Another spelling of `timezone`. */
  readonly timeZone?: string;
  /**
   * A tick may begin so much later than the schedule says, and no later. At least 1 s. Default:
   * `defaults.startingDeadline`.
   */
  readonly startingDeadline?: Duration;
  /**
   * `skip`: a tick that finds a run of this job going on, in any process, begins none. `allow`: runs of one job go on
   * side by side, each under a lease of its own. Default: `defaults.overlap`.
   */
  readonly overlap?: 'skip' | 'allow';
  /**
   * `latest`: of the ticks that no process ran, the newest is run late, within `startingDeadline`. `none`: they are
   * lost. Default: `defaults.catchUp`.
   */
  readonly catchUp?: 'none' | 'latest';
  /**
   * How often a tick may be run again whose run died, lost its lease, was cancelled or failed, within
   * `startingDeadline`: at least once instead of at most once. 0 to 100. Default: `defaults.retry`.
   */
  readonly retry?: number;
  /**
   * Runs begin up to so much later than their tick, at random, with the lease held. At most `startingDeadline`.
   * @default '0s'
   */
  readonly maxRandomDelay?: Duration;
  /**
   * After so many ticks of this process it schedules the job no more, also if they ran elsewhere. Other processes, and
   * this one once it is started again, count for themselves. Default: none.
   */
  readonly maxExecutions?: number;
  /** A timer that fires so much late is told of as a missed tick. What is still run is up to `catchUp`. @default '1s' */
  readonly missedExecutionTolerance?: Duration;
  /** Missed ticks are not logged. @default false */
  readonly suppressMissedWarning?: boolean;
  /**
   * What a run that somebody asks for does. `lease`: it takes the lease, and is refused while another run has it.
   * `reject`: it is always refused. `bypass`: it runs without a lease, beside whatever runs. @default 'lease'
   */
  readonly manual?: 'lease' | 'reject' | 'bypass';
  /** The lease that runs are under. */
  readonly lease?: {
    /**
     * What must have one owner. Jobs that name the same resource take turns. Ticks are remembered for a resource and a
     * job: another resource is a new beginning. Default: the name of the job.
     */
    readonly resource?: string;
    /**
     * How long a lease lasts without being extended: for so long a killed process keeps the resource from others.
     * Longer than the longest pause to be survived, not than the run. 100 ms to 24 h. Default: `defaults.lease.ttl`.
     */
    readonly ttl?: Duration;
    /** A run that is longer is cancelled, and its lease no longer extended. Default: `defaults.lease.maxHold`. */
    readonly maxHold?: Duration;
    /** The fences that the handler writes through, by their names in `fences`. Activated before it begins. */
    readonly fences?: readonly string[];
    /**
     * `before`: every fence is activated before the handler begins. `on-write`: not at all; only for handlers whose
     * reads all happen inside the write. Default: `defaults.lease.activate`.
     */
    readonly activate?: 'before' | 'on-write';
  };
}

/** Takes the jobs of a queue of BullMQ, each under a lease. */
export interface WrittenQueueJob {
  /** The queue of BullMQ whose jobs the handler takes. */
  readonly queue: string;
  /**
   * The file of the code, relative to that of the config, and after a `#` what it exports (without: its default
   * export). TypeScript needs Node 22.18 or a loader such as tsx.
   */
  readonly handler: string;
  /**
   * Where the handler runs. A `thread` or `process` of its own is ended when it ignores its signal for 2 s; `none` is
   * the thread of the command. @default 'none'
   */
  readonly isolate?: 'none' | 'thread' | 'process';
  /** How many jobs run at a time in one process. 1 to 10000. @default 1 */
  readonly concurrency?: number;
  /** The Redis of the queue, as in `store`. Default: `store.redis`. */
  readonly connection?:
    | string
    | WrittenRedisByUrl
    | WrittenRedisByHost
    | WrittenRedisBySentinel
    | WrittenRedisByCluster;
  /** BullMQ's prefix of the queue. @default 'bull' */
  readonly prefix?: string;
  /** How many jobs may begin within a time, over all processes. */
  readonly limiter?: {
    /** How many jobs. */
    readonly max: number;
    /** Within which time. */
    readonly duration: Duration;
  };
  /**
   * How long BullMQ's own lock of a job lasts without being renewed. A job of a killed process comes back after up to
   * this and `stalledInterval`. @default '30s'
   */
  readonly lockDuration?: Duration;
  /** How often BullMQ looks for jobs whose process is gone. @default '30s' */
  readonly stalledInterval?: Duration;
  /** How often a job is begun again because its process was gone, before it fails. @default 1 */
  readonly maxStalledCount?: number;
  /** Which completed jobs BullMQ keeps. Default: all. */
  readonly removeOnComplete?: {
    /** At most so many. Default: no limit. */
    readonly count?: number;
    /** At most so long, in whole seconds. Default: no limit. */
    readonly age?: Duration;
  };
  /** Which failed jobs BullMQ keeps. Default: all. */
  readonly removeOnFail?: {
    /** At most so many. Default: no limit. */
    readonly count?: number;
    /** At most so long, in whole seconds. Default: no limit. */
    readonly age?: Duration;
  };
  /** The lease that jobs are under. */
  readonly lease: {
    /**
     * What one job at a time is to act on. `{data.customerId}` stands for a field of the job, `{name}` and `{id}` for
     * its own; a job without the field fails. A name without braces is one job at a time in the whole queue.
     */
    readonly resource: string;
    /**
     * `job`: a lease for each job. `worker`: one lease for all jobs of a process; of all processes one takes jobs.
     * @default 'job'
     */
    readonly scope?: 'job' | 'worker';
    /**
     * A job whose resource is busy: `delay`: goes back and comes again when the resource is free. `hold`: keeps its
     * slot and waits. `skip`: is completed as skipped. `fail`: fails, which uses an attempt. @default 'delay'
     */
    readonly whenBusy?: 'delay' | 'hold' | 'skip' | 'fail';
    /**
     * A job whose lease was lost: `requeue`: runs again without using an attempt, three times. `retry`: fails, which
     * uses an attempt. `fail`: fails for good. @default 'requeue'
     */
    readonly whenLost?: 'requeue' | 'retry' | 'fail';
    /**
     * How long a handler may ignore its signal before its slot is given to another job. Its lease is left to run out.
     * Default: never.
     */
    readonly abandonAfter?: Duration;
    /**
     * How long a lease lasts without being extended: for so long a killed process keeps the resource from other jobs.
     * The job that it had begun comes back when BullMQ finds it, after up to `lockDuration` + `stalledInterval`.
     * Longer than the longest pause to be survived, not than the run. 100 ms to 24 h. Default: `defaults.lease.ttl`.
     */
    readonly ttl?: Duration;
    /** A run that is longer is cancelled, and its lease no longer extended. Default: `defaults.lease.maxHold`. */
    readonly maxHold?: Duration;
    /** The fences that the handler writes through, by their names in `fences`. Activated before it begins. */
    readonly fences?: readonly string[];
    /**
     * `before`: every fence is activated before the handler begins. `on-write`: not at all; only for handlers whose
     * reads all happen inside the write. Default: `defaults.lease.activate`.
     */
    readonly activate?: 'before' | 'on-write';
  };
}

/** Runs again and again, in one of all processes at a time. */
export interface WrittenIntervalJob {
  /** From the beginning of one run to that of the next, over all processes. 1 s to 365 d. */
  readonly every: Duration;
  /**
   * The file of the code, relative to that of the config, and after a `#` what it exports (without: its default
   * export). TypeScript needs Node 22.18 or a loader such as tsx.
   */
  readonly handler: string;
  /**
   * Where the handler runs. A `thread` or `process` of its own is ended when it ignores its signal for 2 s; `none` is
   * the thread of the command. @default 'none'
   */
  readonly isolate?: 'none' | 'thread' | 'process';
  /**
   * What a run that somebody asks for does. `lease`: it takes the lease, and is refused while another run has it.
   * `reject`: it is always refused. `bypass`: it runs without a lease, beside whatever runs. @default 'lease'
   */
  readonly manual?: 'lease' | 'reject' | 'bypass';
  /** The lease that runs are under. */
  readonly lease?: {
    /**
     * What must have one owner. Jobs that name the same resource take turns. Ticks are remembered for a resource and a
     * job: another resource is a new beginning. Default: the name of the job.
     */
    readonly resource?: string;
    /**
     * How long a lease lasts without being extended: for so long a killed process keeps the resource from others.
     * Longer than the longest pause to be survived, not than the run. 100 ms to 24 h. Default: `defaults.lease.ttl`.
     */
    readonly ttl?: Duration;
    /** A run that is longer is cancelled, and its lease no longer extended. Default: `defaults.lease.maxHold`. */
    readonly maxHold?: Duration;
    /** The fences that the handler writes through, by their names in `fences`. Activated before it begins. */
    readonly fences?: readonly string[];
    /**
     * `before`: every fence is activated before the handler begins. `on-write`: not at all; only for handlers whose
     * reads all happen inside the write. Default: `defaults.lease.activate`.
     */
    readonly activate?: 'before' | 'on-write';
  };
}
