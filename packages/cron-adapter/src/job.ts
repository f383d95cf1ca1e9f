import { randomUUID } from 'node:crypto';

import {
  ConfigError,
  ResourceBusyError,
  RunCancelledError,
  type AcquireOptions,
  type Clock,
  type Lease,
  type LeaseLostError,
  type LeaseManager,
  type RunBody,
  type TryRunResult,
} from '@leasehold/core';

import { cronRun, unleasedRun, type CronTask, type RunKind } from './cron-run.ts';
import type { Announce, CronRunEvent } from './events.ts';
import type { JobSettings } from './options.ts';
import { runningOf } from './running.ts';

/** What the manager is asked for. */
export interface Acquisition {
  readonly resource: string;
  readonly options: AcquireOptions;
}

/** For triggers that name no instant. */
export interface MinHold {
  readonly minHoldMs: number;
}

/** How far in the store's future a tick may lie that is claimed, at most. */
export const MAX_AHEAD_MS = 2000;
/** How often a run that has lost its lease and goes on is told of. */
const STILL_RUNNING_MS = 60_000;
/** How soon the clocks are asked again about the lease of a run that was cancelled. */
const MIN_LOOK_MS = 50;
/** How long the store remembers a resource of one tick, at least. */
const MIN_RETENTION_MS = 3_600_000;

/**
 * A job of this process: what is asked of the manager for a run of it, the runs that go on here, and how they end. Whoever
 * triggers runs (node-cron, another scheduler, a person) comes here.
 */
export class Job {
  readonly manager: LeaseManager;
  readonly settings: JobSettings;
  readonly clock: Clock;
  readonly announce: Announce;
  readonly #task: CronTask;
  /** The leases of the runs that go on here, lost or not. */
  readonly #running: Set<Lease>;
  /** Of everything that has been asked for and is not over. */
  readonly #cancels = new Set<AbortController>();
  readonly #underWay = new Set<Promise<unknown>>();
  #cancelled = false;
  #isOver = false;

  constructor(
    {
      manager,
      clock,
      announce,
    }: { readonly manager: LeaseManager; readonly clock: Clock; readonly announce: Announce },
    task: CronTask,
    settings: JobSettings,
  ) {
    this.manager = manager;
    this.clock = clock;
    this.announce = announce;
    this.settings = settings;
    this.#task = task;
    this.#running = runningOf(manager, settings.name);
  }

  /** Whether another run here would be beside one that goes on, even if that one has lost its lease. */
  get isRunningHere(): boolean {
    return this.settings.overlap === 'skip' && this.#running.size > 0;
  }

  /** What a run for this tick asks for (epoch ms), one that keeps its distance to the one before, or one without either. */
  acquisition(
    tick: number | MinHold | null,
    cancel: AbortController,
    wait = 0,
    maxAhead: number = MAX_AHEAD_MS,
  ): Acquisition {
    const { name: job, resource, lease, overlap, startingDeadlineMs, retry } = this.settings;
    // A tick comes from a timer that may have been set inside a run: it is no part of that run, and may wait for it.
    const asked = { ...lease, signal: cancel.signal, wait, detached: tick !== null };
    if (typeof tick === 'object' && tick !== null) {
      return { resource, options: { ...asked, tick: { job, minHold: tick.minHoldMs } } };
    }
    const options =
      tick === null
        ? asked
        : { ...asked, tick: { job, at: tick, startingDeadline: startingDeadlineMs, maxAhead, retry } };
    if (overlap === 'skip') return { resource, options };
    // One use of a resource: what is remembered of it need only outlast the tick.
    const retention = Math.max(MIN_RETENTION_MS, 2 * startingDeadlineMs);
    const which = tick === null ? randomUUID() : new Date(tick).toISOString();
    return { resource: `${resource}@${which}`, options: { ...options, retention } };
  }

  /** What ends an acquisition and cancels the run that comes of it. To be given back with `forget` when both are over. */
  newCancel(): AbortController {
    const cancel = new AbortController();
    if (this.#cancelled) this.#shutDown(cancel);
    else this.#cancels.add(cancel);
    return cancel;
  }

  forget(cancel: AbortController): void {
    this.#cancels.delete(cancel);
  }

  /**
   * Runs the task without an election, for triggers that ask nobody: with its tick (epoch ms), or without one. Settles as
   * `LeaseManager.tryRun` does.
   */
  tryRun(
    kind: RunKind,
    acquisition: (cancel: AbortController) => Acquisition,
    begins: () => void,
  ): Promise<TryRunResult<unknown>> {
    return this.#cancellable(async (cancel) => {
      const { resource, options } = acquisition(cancel);
      this.#refuseSecondCopy(resource);
      const body = this.body(kind);
      return this.manager.tryRun(resource, options, (lease) => {
        begins();
        return body(lease);
      });
    });
  }

  /** Runs the task without an election. Settles as `LeaseManager.run` does. */
  run(kind: RunKind, tick: number | null): Promise<unknown> {
    return this.#cancellable(async (cancel) => {
      const { resource, options } = this.acquisition(tick, cancel);
      this.#refuseSecondCopy(resource);
      return this.manager.run(resource, options, this.body(kind));
    });
  }

  /** What `execute()` comes to. */
  async runManually(kind: RunKind): Promise<unknown> {
    const { name, manual } = this.settings;
    switch (manual) {
      case 'lease':
        return this.run(kind, null);
      case 'bypass':
        return this.#cancellable((cancel) => this.#runUnleased(kind, cancel.signal));
      case 'reject':
        throw new ConfigError(
          'manual',
          `is 'reject': ${name} runs by its schedule only; use 'lease' to allow execute()`,
        );
    }
  }

  /** The task under its lease. */
  body(kind: RunKind): RunBody<unknown> {
    return async (lease) => {
      const { fencingToken } = lease;
      const event = { ...this.#eventOf(kind), attempt: lease.tick?.attempt ?? 1, fencingToken };
      this.#running.add(lease);
      const forget = this.#watchLoss(lease, event);
      try {
        return await this.#tell(event, lease, () => this.#task(cronRun(kind, lease)));
      } finally {
        forget();
        this.#running.delete(lease);
      }
    };
  }

  /** Counts for `settled`. */
  track<T>(work: Promise<T>): Promise<T> {
    this.#underWay.add(work);
    const over = (): void => void this.#underWay.delete(work);
    work.then(over, over);
    return work;
  }

  /** No run begins any more without an election: `RunCancelledError`, reason `shutdown`. For good. */
  end(): void {
    this.#isOver = true;
  }

  /** Cancels what is waited for and what runs: `RunCancelledError`, reason `shutdown`. For good. */
  cancel(): void {
    this.#cancelled = true;
    for (const cancel of this.#cancels) this.#shutDown(cancel);
  }

  /** Resolves when everything that has begun is over: elections, runs, claims given back. Never rejects. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }

  #cancellable<T>(work: (cancel: AbortController) => Promise<T>): Promise<T> {
    if (this.#isOver) return Promise.reject(new RunCancelledError(this.settings.resource, 'shutdown'));
    const cancel = this.newCancel();
    return this.track(work(cancel).finally(() => this.forget(cancel)));
  }

  #shutDown(cancel: AbortController): void {
    cancel.abort(new RunCancelledError(this.settings.resource, 'shutdown'));
  }

  /** A run that has lost its lease and has not ended must not get another one beside it, though the resource is free. */
  #refuseSecondCopy(resource: string): void {
    if (this.settings.overlap === 'allow') return;
    for (const before of this.#running) {
      if (before.isHeld()) continue;
      throw new ResourceBusyError(resource, {
        reason: 'held',
        holder: {
          owner: 'this process, by a run that has lost its lease and has not ended',
          fencingToken: before.fencingToken,
          job: this.settings.name,
        },
        remainingMs: 0,
      });
    }
  }

  async #runUnleased(kind: RunKind, signal: AbortSignal): Promise<unknown> {
    const event = { ...this.#eventOf(kind), attempt: 1, fencingToken: null };
    return this.#tell(event, null, () => this.#task(unleasedRun(kind, this.settings.name, signal)));
  }

  #eventOf({ tick, trigger }: RunKind): Pick<CronRunEvent, 'job' | 'tick' | 'trigger'> {
    return { job: this.settings.name, tick, trigger };
  }

  async #tell(event: CronRunEvent, lease: Lease | null, work: () => unknown): Promise<unknown> {
    const began = this.clock.monotonicMs();
    this.announce('started', event);
    const ended = (outcome: 'done' | 'failed', error: unknown): void => {
      const loss = lease === null ? undefined : lossOf(lease);
      this.announce('finished', {
        ...event,
        outcome: loss === undefined ? outcome : 'lost',
        durationMs: Math.round(this.clock.monotonicMs() - began),
        error: error ?? loss,
      });
    };
    let value: unknown;
    try {
      value = await work();
    } catch (error) {
      ended('failed', error);
      throw error;
    }
    ended('done', undefined);
    return value;
  }

  /**
   * Says that the lease is lost, and says so again while the run goes on. A signal aborts once: of a run that was cancelled
   * before, the clocks are asked. Returns what ends that.
   */
  #watchLoss(lease: Lease, event: CronRunEvent): () => void {
    let timer: ReturnType<Clock['setTimer']> | undefined;
    const after = (ms: number, then: () => void): void => {
      timer = this.clock.setTimer(ms, then, { ref: false });
    };
    const look = (): void => {
      const error = lossOf(lease);
      if (error === undefined) return after(Math.max(lease.remainingMs(), MIN_LOOK_MS), look);
      this.announce('lost', { ...event, error });
      const lostAt = this.clock.monotonicMs();
      const again = (): void => {
        this.announce('stillRunning', { ...event, sinceLostMs: Math.round(this.clock.monotonicMs() - lostAt) });
        after(STILL_RUNNING_MS, again);
      };
      after(STILL_RUNNING_MS, again);
    };
    lease.signal.addEventListener('abort', look);
    return () => {
      lease.signal.removeEventListener('abort', look);
      timer?.clear();
    };
  }
}

/** Undefined while it is held. */
function lossOf(lease: Lease): LeaseLostError | undefined {
  try {
    lease.assertHeld();
    return undefined;
  } catch (error) {
    return error as LeaseLostError;
  }
}
