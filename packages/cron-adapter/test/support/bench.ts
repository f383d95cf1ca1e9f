import {
  LeaseManager,
  MemoryLeaseStore,
  systemClock,
  type Clock,
  type LeaseManagerOptions,
  type LeaseStore,
} from '@leasehold/core';
import type { Logger, ScheduledTask, TaskContext } from 'node-cron';
import { afterEach, beforeEach, vi } from 'vitest';

import { leasedCron, type LeasedNodeCron } from '../../src/index.ts';

export const START_MS: number = Date.UTC(2026, 0, 15, 3, 0, 0);

/** node-cron prints errors of tasks; here they are looked at in its events. */
export const quiet: Logger = { info() {}, warn() {}, error() {}, debug() {} };

export interface Process {
  readonly cron: LeasedNodeCron;
  readonly manager: LeaseManager;
}

/**
 * A fleet of processes in one, on a store in memory and on time that stands still until the test moves it: node-cron's,
 * the engine's and the store's alike.
 */
export class Bench {
  store: MemoryLeaseStore = new MemoryLeaseStore();
  readonly #ends: (() => Promise<unknown>)[] = [];

  constructor() {
    beforeEach(() => {
      // Reads the grain of the system's uptime, for which real time has to pass.
      systemClock.uptimeMs();
      vi.useFakeTimers({ now: START_MS + 500 });
      this.store = new MemoryLeaseStore();
    });
    afterEach(async () => {
      const ended = Promise.all(this.#ends.splice(0).map((end) => end()));
      await this.pass(60_000);
      await ended;
      vi.useRealTimers();
      vi.restoreAllMocks();
    });
  }

  process(options: Partial<LeaseManagerOptions> = {}): Process {
    const store: LeaseStore = options.store ?? this.store.beside();
    const manager = new LeaseManager({ ttl: '10s', ...options, store });
    const cron = leasedCron({ manager });
    this.#ends.push(async () => {
      await cron.shutdown(0);
      await manager.close({ grace: 0, abandonAfter: 0 });
    });
    return { cron, manager };
  }

  /** Time passes, and no timer fires: the event loop is blocked. */
  block(ms: number): void {
    vi.setSystemTime(Date.now() + ms);
  }

  pass(ms: number): Promise<unknown> {
    return vi.advanceTimersByTimeAsync(ms);
  }
}

/** What a task has said, in order: `started`, `skipped not-elected`, `failed <message>`. */
export function eventsOf(task: ScheduledTask): string[] {
  const seen: string[] = [];
  const names = ['started', 'finished', 'failed', 'skipped', 'missed', 'overlap'] as const;
  for (const name of names) {
    task.on(`execution:${name}`, (context: TaskContext) => {
      const detail = context.reason ?? context.execution?.error?.name ?? '';
      seen.push(`${name} ${detail}`.trim());
    });
  }
  return seen;
}

export interface Gate {
  readonly promise: Promise<void>;
  open(): void;
}

/** What a task waits for until the test lets it go. */
export function gate(): Gate {
  let open = (): void => {};
  const promise = new Promise<void>((resolve) => (open = resolve));
  return { promise, open };
}

/** A store whose clock is behind that of this machine. */
export function storeBehind(ms: number): MemoryLeaseStore {
  const clock: Clock = {
    monotonicMs: () => systemClock.monotonicMs(),
    wallMs: () => systemClock.wallMs() - ms,
    wallUs: () => systemClock.wallUs() - ms * 1000,
    uptimeMs: () => undefined,
    setTimer: (delayMs, fire, options) => systemClock.setTimer(delayMs, fire, options),
  };
  return new MemoryLeaseStore({ clock });
}
