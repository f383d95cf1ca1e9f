import {
  checkJobName,
  ConfigError,
  LeaseholdError,
  parseDuration,
  parseOptions,
  systemClock,
  type Duration,
  type Lease,
  type LeaseManager,
} from '@leasehold/core';
import type { RunCoordinator } from 'node-cron';
import { z } from 'zod';

import { Claim } from './claim.ts';
import { Claimant } from './claimant.ts';
import { tickOf } from './elector.ts';
import { warn, type Announce } from './events.ts';
import { Job } from './job.ts';
import { managerOf } from './manager.ts';
import { pause } from './pause.ts';

export interface LeaseCoordinatorOptions {
  /**
   * For how long a run that goes on keeps its lease; then the lease is left to run out, within the task's
   * `distributedLease`. At least that, not Infinity: node-cron does not say which runs never began.
   * @default the task's `distributedLease`, and not longer
   */
  readonly maxHold?: Duration;
  /** What must have one owner, for a task of this name. @default the task's name */
  readonly resource?: (name: string) => string;
  /** A tick may begin so much later than the schedule says, and no later; 1 s to 180 days. @default '5m' */
  readonly startingDeadline?: Duration;
}

/** For `runCoordinator` of a task, and for `setRunCoordinator()`. */
export interface LeaseCoordinator extends RunCoordinator {
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  onComplete(key: string): Promise<void>;
}

/** A background process of node-cron waits 5 s for an answer. What it is granted later it never begins. */
const PATIENCE_MS = 4000;
const DEFAULT_STARTING_DEADLINE_MS = 300_000;
/** `:` and an ISO instant end a key. */
const SUFFIX_LENGTH = 25;
const MIN_TTL_MS = 100;
const MAX_TTL_MS = 86_400_000;

const finite = (option: string): z.ZodType<number> =>
  z
    .unknown()
    .transform((value) => parseDuration(option, value))
    .refine((ms) => ms >= 1000 && ms < 1e15, 'must be at least 1 s, and not Infinity');

const optionsSchema = z.strictObject({
  maxHold: finite('maxHold').optional(),
  resource: z.custom<(name: string) => string>((value) => typeof value === 'function', 'must be a function').optional(),
  startingDeadline: finite('startingDeadline').optional(),
});

/**
 * For tasks of node-cron that are written with `distributed: true`: give it as their `runCoordinator`, or to
 * `setRunCoordinator()` before they are made. Of all processes that use it, and those that have the job in a
 * `leasedCron()`, one runs each tick.
 *
 * The name of the task is the job's, and by default the resource; its `distributedLease` is the ttl (raised where the
 * manager needs more). A tick is not begun while a run before it has the lease. Nothing else can be had this way: node-cron passes
 * a run no signal and no token, and tells nobody whether it began, or how it ended. Says so once, as a warning of the
 * process. Throws `ConfigError` for options that cannot work.
 *
 * `shouldRun` resolves within the store's time-outs and 4 s. It rejects when the store cannot be asked, and with `ConfigError`
 * for a task whose name is no job name; node-cron then skips the tick (`coordinator-error`).
 */
export function leaseCoordinator(manager: LeaseManager, options: LeaseCoordinatorOptions = {}): LeaseCoordinator {
  const { manager: checked } = managerOf({ manager });
  const coordinator = new Coordinator(checked, parseOptions(optionsSchema, options));
  warn(
    'leaseCoordinator() elects and nothing more: a run of these tasks has no signal and no fencing token, so one that outlives its lease goes on beside the next, and how it ended is not recorded; schedule with leasedCron() what must not',
  );
  return {
    shouldRun: (key, ttlMs) => coordinator.shouldRun(key, ttlMs),
    onComplete: (key) => coordinator.onComplete(key),
  };
}

type Settings = z.output<typeof optionsSchema>;

/** A task of this name, with this `distributedLease`. */
interface Candidate {
  readonly job: Job;
  readonly claimant: Claimant;
  readonly givenMs: number;
}

/** A tick that was granted here. */
interface Run {
  readonly completed: () => void;
  /** Resolves when the lease is over. */
  readonly over: Promise<void>;
}

class Coordinator implements LeaseCoordinator {
  readonly #manager: LeaseManager;
  readonly #settings: Settings;
  /** By name. */
  readonly #candidates = new Map<string, Candidate>();
  /** By key, while their leases last. */
  readonly #runs = new Map<string, Run>();
  /** By name: the key of the last run whose lease ended before node-cron had said that it was complete. */
  readonly #outlived = new Map<string, string>();
  /** What was warned of, each once for a task. */
  readonly #warned = new Set<string>();

  constructor(manager: LeaseManager, settings: Settings) {
    this.#manager = manager;
    this.#settings = settings;
  }

  async shouldRun(key: string, ttlMs: number): Promise<boolean> {
    const name = key.slice(0, -SUFFIX_LENGTH);
    checkJobName('name', name);
    const tick = tickOf(key);
    const { claimant, job } = this.#candidate(name, ttlMs);
    const patience = new AbortController();
    const timer = systemClock.setTimer(PATIENCE_MS, () => patience.abort(), { ref: false });
    try {
      const answer = await claimant.claim(tick, { stopping: patience.signal, newer: patience.signal });
      if (!(answer instanceof Claim)) return false;
      this.#keep(key, job, answer);
      return true;
    } finally {
      timer.clear();
    }
  }

  /** Releases. Node-cron may call it again, or for what was never granted. Never rejects: nobody would handle that. */
  async onComplete(key: string): Promise<void> {
    const run = this.#runs.get(key);
    run?.completed();
    await run?.over;
    const name = key.slice(0, -SUFFIX_LENGTH);
    if (this.#outlived.get(name) !== key) return;
    this.#outlived.delete(name);
    this.#warnOnce(
      `outlived ${name}`,
      `a run of ${name} has outlived its lease, and another may have run beside it; raise maxHold of leaseCoordinator(), or schedule it with leasedCron()`,
    );
  }

  #keep(key: string, job: Job, claim: Claim): void {
    let completed = (): void => {};
    const completion = new Promise<void>((resolve) => (completed = resolve));
    let isComplete = false;
    const over = claim
      .begin(async (lease) => {
        isComplete = await this.#hold(lease, completion, job);
      })
      // Lost, or run out: whoever takes the resource next knows by the record, and here nobody could be told.
      .catch(() => {})
      .then(() => {
        this.#runs.delete(key);
        if (!isComplete) this.#outlived.set(job.settings.name, key);
      });
    this.#runs.set(key, { completed, over });
  }

  /**
   * Until the run is complete, or its lease has run out: it is not released before, because the run may go on. Whether
   * it is complete.
   */
  async #hold(lease: Lease, completion: Promise<void>, { settings, clock }: Job): Promise<boolean> {
    const { ttl, maxHold } = settings.lease;
    if (maxHold === ttl) lease.abandon();
    const ended = new AbortController();
    const { signal } = lease;
    const end = (): void => ended.abort();
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    const done = completion.then(() => true);
    const aborted = new Promise<false>((resolve) => ended.signal.addEventListener('abort', () => resolve(false)));
    if (await Promise.race([done, aborted])) return true;
    lease.abandon();
    const over = new AbortController();
    const runsOut = pause(clock, lease.remainingMs() + 1, { signal: over.signal, ref: false });
    const isComplete = await Promise.race([done, runsOut.then(() => false)]);
    over.abort();
    return isComplete && lease.isHeld();
  }

  #candidate(name: string, givenMs: number): Candidate {
    const known = this.#candidates.get(name);
    if (known?.givenMs === givenMs) return known;
    const { resource = (name: string) => name, startingDeadline = DEFAULT_STARTING_DEADLINE_MS } = this.#settings;
    const ttl = this.#ttl(givenMs);
    const job = new Job({ manager: this.#manager, clock: systemClock, announce: this.#announce }, () => {}, {
      name,
      resource: resource(name),
      lease: { ttl, maxHold: Math.max(this.#settings.maxHold ?? 0, ttl) },
      timezone: undefined,
      startingDeadlineMs: startingDeadline,
      overlap: 'skip',
      retry: 0,
      manual: 'reject',
    });
    const candidate = { job, claimant: new Claimant(job, 0), givenMs };
    this.#candidates.set(name, candidate);
    return candidate;
  }

  /** What node-cron has, or the least that the manager can keep. */
  #ttl(givenMs: number): number {
    if (typeof givenMs !== 'number' || Number.isNaN(givenMs)) {
      throw new ConfigError('distributedLease', 'must be a number of milliseconds');
    }
    let ttl = Math.ceil(Math.min(Math.max(givenMs, MIN_TTL_MS), MAX_TTL_MS));
    for (;;) {
      try {
        this.#manager.checkOptions({ ttl });
        return ttl;
      } catch (error) {
        if (ttl === MAX_TTL_MS || !LeaseholdError.is(error, 'CONFIG')) throw error;
        ttl = Math.min(Math.ceil(ttl * 1.25), MAX_TTL_MS);
      }
    }
  }

  readonly #announce: Announce = (event, payload) => {
    if (event !== 'waiting') return;
    const { job, reason, aheadMs } = payload as {
      readonly job: string;
      readonly reason: string;
      aheadMs: number | null;
    };
    if (reason !== 'clock-ahead' || aheadMs === null || aheadMs < PATIENCE_MS) return;
    this.#warnOnce(
      `clock ${job}`,
      `job ${job} does not run here: the clock of this machine is ${Math.round(aheadMs)} ms ahead of the store's`,
    );
  };

  #warnOnce(what: string, message: string): void {
    if (this.#warned.has(what)) return;
    this.#warned.add(what);
    warn(message);
  }
}
