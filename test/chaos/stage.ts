import type { LeaseManager } from '@leasehold/core';
import type { Recorder, RecordingFence } from '@leasehold/core/testing/history';
import type { Redis } from 'ioredis';

import type { Child } from '../support/child.ts';
import type { FakeTime } from '../support/faketime.ts';
import type { TcpProxy } from '../support/proxy.ts';
import type { RedisServer } from '../support/redis-server.ts';

/** A place at which one process at a time works; after its end the next life takes it. */
export interface Seat {
  /** `owner-1`. */
  readonly name: string;
  /** Its process in the history: `owner-1.3`. */
  readonly life: string;
  /**
   * The present life. It hears `block` (`{ ms }`: its event loop stands still; it says `blocked` with `ms` afterwards), `section`
   * (`{ holdMs }`: at its next guarded write it says `section` from within the open transaction, and stays there so long), and
   * `close` (graceful: it says `closed`, and its process ends).
   */
  readonly child: Child;
  /** Its only way to the lease store. */
  readonly redisProxy: TcpProxy;
  /** Its only way to PostgreSQL. */
  readonly fenceProxy: TcpProxy;
  /** With `owner-clock`; of all its lives. */
  readonly clock?: FakeTime;
  /** With `networks`: the cable between this process and the world. */
  readonly link?: { cut(): void; mend(): void };
  /** Whether its process runs. */
  readonly isAlive: boolean;
  /** SIGKILL; written down as `died`. */
  kill(): Promise<void>;
  /** A new life, after the process has ended. Resolves when it is at work. */
  startAgain(): Promise<void>;
}

/** A replica of the store. */
export interface Replica {
  readonly redis: RedisServer;
  /** Through which it follows the store. */
  readonly link: TcpProxy;
}

/** With `own-postgres`: the fence's server. */
export interface OwnPostgres {
  readonly pid: number;
  readonly isRunning: boolean;
  /** SIGKILL of the server and all its sessions. */
  kill(): Promise<void>;
  /** After `kill`. Resolves when it answers. */
  restart(): Promise<void>;
  /** SIGSTOP of the server and all its sessions. */
  pause(): Promise<void>;
  resume(): void;
}

/** One episode's world. */
export interface Stage {
  /** Seeded: 0 <= x < 1. */
  readonly random: () => number;
  readonly ttlMs: number;
  /** Its own. */
  readonly redis: RedisServer;
  /** The stage's own client of `redis`: CONFIG, FLUSHALL, DEBUG. It connects again by itself, and fails fast. */
  readonly redisAdmin: Redis;
  /** The stage's manager goes this way. After a promotion it is led elsewhere like those of the seats. */
  readonly redisProxy: TcpProxy;
  readonly replica?: Replica;
  /** Directly, for sessions of the nemeses' own. The database is this stage's. */
  readonly postgresUrl: string;
  readonly postgres?: OwnPostgres;
  readonly storeClock?: FakeTime;
  readonly seats: readonly Seat[];
  /** As a manager takes them. */
  readonly resources: readonly string[];
  /** The key in the store of this resource's lease. */
  keyOf(resource: string): string;
  /** Process `stage`. The runner writes the nemesis lines; nemeses write what they do to leases through `manager`. */
  readonly recorder: Recorder;
  /** For revoke, force-release, diagnose; its calls to the store are recorded. `diagnose` lines are the nemesis's. */
  readonly manager: LeaseManager;
  /** The stage's own, for `manager.forceRelease`. */
  readonly fence: RecordingFence<unknown>;
  /** The seat whose present life has this resource by the store's word, or any of the resources; null if none has at the moment. */
  owner(resource?: string): Promise<{ readonly seat: Seat; readonly resource: string } | null>;
  /** Any seat whose process runs. */
  anySeat(): Seat | null;
}
