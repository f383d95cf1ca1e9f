import type { LeaseTimingOptions } from '@leasehold/core';

import type { ResourceTemplate } from './template.ts';

/** A config after all checks: numbers, with defaults filled in. */
export interface Settings {
  readonly store: StoreSettings;
  /** By their names. */
  readonly fences: ReadonlyMap<string, FenceSettings>;
  /** Undefined: no server is asked for. */
  readonly server: { readonly listen: ListenSettings } | undefined;
  readonly timing: TimingSettings;
  readonly shutdown: { readonly graceMs: number; readonly exitOnAbandon: boolean };
  /** In the order of the file. */
  readonly jobs: readonly JobSettings[];
}

/** Which Redis: a URL, or what does not fit in one. Plain data, so that another thread or process can be told. */
export type RedisSettings = string | RedisServerSettings | RedisSentinelSettings | RedisClusterSettings;

export interface NodeSettings {
  readonly host: string;
  readonly port: number;
}

/** Each a path from the root, or a text in PEM. */
export interface TlsSettings {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  readonly servername: string | undefined;
}

interface AccessSettings {
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** Undefined: none is spoken. */
  readonly tls: TlsSettings | undefined;
}

export interface RedisServerSettings extends NodeSettings, AccessSettings {
  readonly kind: 'server';
  readonly db: number;
}

export interface RedisSentinelSettings extends AccessSettings {
  readonly kind: 'sentinel';
  /** The sentinels. */
  readonly nodes: readonly NodeSettings[];
  readonly name: string;
  readonly db: number;
  readonly sentinelUsername: string | undefined;
  readonly sentinelPassword: string | undefined;
  readonly sentinelTls: boolean;
}

export interface RedisClusterSettings extends AccessSettings {
  readonly kind: 'cluster';
  readonly nodes: readonly NodeSettings[];
}

export interface StoreSettings {
  readonly redis: RedisSettings;
  readonly prefix: string;
  /** Further servers that diagnosis asks. */
  readonly endpoints: readonly NodeSettings[];
  readonly connectTimeoutMs: number;
  readonly history: 'exceptions' | 'all';
  readonly quarantine: boolean;
}

/** Of the manager of all jobs. What is left out is as core has it. */
export type TimingSettings = Omit<LeaseTimingOptions, 'ttl'>;

/** Numbers that are undefined are the defaults of the fence. */
export type FenceSettings =
  | {
      readonly kind: 'postgres';
      readonly url: string;
      readonly schema: string;
      readonly timeoutMs: number | undefined;
      readonly idleTimeoutMs: number | undefined;
      readonly lockTimeoutMs: number | undefined;
      readonly isolation: 'read committed' | 'repeatable read' | 'serializable';
    }
  | { readonly kind: 'redis'; readonly redis: RedisSettings; readonly timeoutMs: number | undefined };

export interface ListenSettings {
  /** Undefined: all addresses. */
  readonly host: string | undefined;
  readonly port: number;
}

export interface HandlerSettings {
  /** A path, relative to the folder of the config. */
  readonly module: string;
  readonly exported: string;
}

export interface LeaseSettings {
  readonly ttlMs: number;
  /** `Infinity`: none. */
  readonly maxHoldMs: number;
  /** Names of `Settings.fences`. */
  readonly fences: readonly string[];
  readonly activate: 'before' | 'on-write';
}

interface CommonSettings {
  /** Unique in the config. */
  readonly name: string;
  readonly handler: HandlerSettings;
  readonly isolate: 'none' | 'thread' | 'process';
}

export interface CronJobSettings extends CommonSettings {
  readonly kind: 'cron';
  readonly expression: string;
  readonly timezone: string;
  readonly startingDeadlineMs: number;
  readonly overlap: 'skip' | 'allow';
  readonly catchUp: 'none' | 'latest';
  readonly retry: number;
  readonly maxRandomDelayMs: number;
  /** Undefined: no limit. */
  readonly maxExecutions: number | undefined;
  /** Undefined: node-cron's default. */
  readonly missedExecutionToleranceMs: number | undefined;
  readonly suppressMissedWarning: boolean;
  readonly manual: 'lease' | 'reject' | 'bypass';
  readonly lease: LeaseSettings & {
    /** Undefined with `overlap: allow`, where each tick has one of its own. */
    readonly resource: string | undefined;
  };
}

export interface IntervalJobSettings extends CommonSettings {
  readonly kind: 'interval';
  readonly everyMs: number;
  /** For how long no other run begins, in any process: a little less than `everyMs`, because timers differ. */
  readonly minHoldMs: number;
  readonly manual: 'lease' | 'reject' | 'bypass';
  readonly lease: LeaseSettings & { readonly resource: string };
}

/** Which jobs that have ended a queue keeps. Undefined: no limit. */
export interface KeepSettings {
  readonly count: number | undefined;
  readonly ageMs: number | undefined;
}

export interface QueueJobSettings extends CommonSettings {
  readonly kind: 'queue';
  readonly queue: string;
  /** BullMQ's prefix of keys. */
  readonly prefix: string;
  /** The Redis of the queue. */
  readonly connection: RedisSettings;
  readonly concurrency: number;
  readonly limiter: { readonly max: number; readonly durationMs: number } | undefined;
  /** Undefined: BullMQ's default. */
  readonly lockDurationMs: number | undefined;
  /** Undefined: BullMQ's default. */
  readonly stalledIntervalMs: number | undefined;
  /** Undefined: BullMQ's default. */
  readonly maxStalledCount: number | undefined;
  /** Undefined: all. */
  readonly removeOnComplete: KeepSettings | undefined;
  /** Undefined: all. */
  readonly removeOnFail: KeepSettings | undefined;
  readonly lease: LeaseSettings & {
    /** Without fields for the scope `worker`. */
    readonly resource: ResourceTemplate;
    readonly scope: 'job' | 'worker';
    readonly whenBusy: 'delay' | 'hold' | 'skip' | 'fail';
    readonly whenLost: 'requeue' | 'retry' | 'fail';
    readonly abandonAfterMs: number;
  };
}

export type JobSettings = CronJobSettings | IntervalJobSettings | QueueJobSettings;
