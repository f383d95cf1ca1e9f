import { setMaxListeners } from 'node:events';
import { ConfigError, type LeaseManager } from '@leasehold/core';
import type { Job, Worker, WorkerOptions } from 'bullmq';
import type { Candidate } from './candidate.ts';
import { leaveJobs, windDown } from './closing.ts';
import { shareManager } from './default-manager.ts';
import { forgetDrained, isBetweenConnections, type Engine } from './engine.ts';
import {
  parseDefaults,
  parseLeaseOptions,
  type LeasedProcessor,
  type LeasedWorkerOptions,
  type LeaseSettings,
} from './options.ts';
import { checkProcessor, withoutSignal } from './processor.ts';
import { Runs } from './run.ts';
import type { JobRunner } from './runner.ts';
import { inSandbox } from './sandbox.ts';
import { showingSpan, traced, TracedEvents, type TraceArguments } from './telemetry.ts';
import { WorkerScope } from './worker-scope.ts';

/** Any class that behaves as BullMQ's Worker: BullMQ 5 or 6, of another backend, or somebody's subclass. */
export type WorkerClass = new (...args: any[]) => { close(force?: boolean): Promise<void> };

/** The class with one more option, `lease`. */
export type LeasedWorkerClass<Instance> = new <D = any, R = any, N extends string = string>(
  name: string,
  processor: LeasedProcessor<D, R, N> | string | URL,
  options: LeasedWorkerOptions<D, R, N>,
  ...rest: any[]
) => Instance;

export interface WithLeaseOptions {
  /** For workers that do not name one in `lease.manager`. */
  readonly manager?: LeaseManager;
}

/**
 * A worker class whose jobs run under a lease. For the ready one see `LeasedWorker`; for your own:
 *
 * ```ts
 * const Leased = withLease(MyWorker, { manager });
 * const worker = new Leased('payments', processor, { connection, lease: { resource: (job) => `customer:${job.data.id}` } });
 * ```
 *
 * It and the constructor throw `ConfigError` for options that cannot work.
 */
export function withLease<Base extends WorkerClass>(
  base: Base,
  defaults: WithLeaseOptions = {},
): LeasedWorkerClass<InstanceType<Base>> {
  const defaultManager = parseDefaults(defaults);
  const AnyWorker = base as unknown as new (...args: any[]) => Worker;

  return class extends AnyWorker {
    readonly #runner: JobRunner;
    readonly #isSandboxed: boolean;
    readonly #graceMs: number;
    /** Aborted when it begins to close. */
    readonly #closing = new AbortController();
    /** With scope `worker`: what decides when BullMQ runs. */
    readonly #candidate: Candidate | undefined;
    readonly #leaveManager: (force: boolean) => Promise<void>;
    #closed: Promise<void> | undefined;

    constructor(...args: any[]) {
      const [name, processor, given, ...rest] = args as [string, unknown, Partial<LeasedWorkerOptions>?, ...unknown[]];
      const { lease, ...options } = given ?? {};
      // Everything that can be refused is refused before BullMQ opens connections and starts.
      const settings = parseLeaseOptions(lease, 'lease');
      checkProcessor(processor);
      checkOptions(options, settings);
      const own = settings.manager ?? defaultManager;
      const shared = own === undefined ? shareManager(options.connection) : undefined;
      const manager = own ?? (shared as NonNullable<typeof shared>).manager;
      manager.checkOptions(settings.acquire);

      const isJobScope = settings.scope === 'job';
      super(name, withoutSignal(processor), isJobScope ? options : { ...options, autorun: false }, ...rest);

      this.#isSandboxed = typeof processor !== 'function';
      this.#graceMs = settings.graceMs;
      // One for each job that is being put back.
      setMaxListeners(0, this.#closing.signal);
      this.on('closing', () => this.#closing.abort());
      this.#leaveManager = shared?.join() ?? (() => Promise.resolve());
      const observer = new TracedEvents(this);
      if (isJobScope) {
        this.#runner = new Runs(manager, settings, observer, this.#closing.signal);
      } else {
        const scope = new WorkerScope(manager, settings, observer, this.#engine());
        this.#runner = scope;
        this.#candidate = scope.candidate;
      }
      this.on('lockRenewalFailed', (jobIds) => this.#runner.lockRenewalFailed(jobIds));
      if (!isJobScope && options.autorun !== false) void this.run();
    }

    override processJob(...args: Parameters<Worker['processJob']>): ReturnType<Worker['processJob']> {
      const end = this.#runner.processing?.(args[0]);
      const processed = super.processJob(...args);
      // Before BullMQ goes on: it is the first to be told.
      if (end !== undefined) processed.then(end, end);
      return processed;
    }

    protected override callProcessJob(job: Job, token: string, signal?: AbortSignal): Promise<unknown> {
      const process = (ours: AbortSignal): Promise<unknown> => super.callProcessJob(job, token, ours);
      const body = this.#isSandboxed ? (ours: AbortSignal) => inSandbox(job, ours, process) : process;
      // Without telemetry a span that is found here is that of another worker, whose job has made this one.
      if (this.opts.telemetry === undefined) return this.#runner.run(job, token, signal, body);
      return traced(job, () => this.#runner.run(job, token, signal, body));
    }

    override trace<T>(...[kind, operation, destination, callback, source]: TraceArguments<T>): Promise<T | Promise<T>> {
      const isShown = operation === 'process' && this.opts.telemetry !== undefined;
      return super.trace(kind, operation, destination, isShown ? showingSpan(callback) : callback, source);
    }

    /**
     * As BullMQ's, whatever parameters the processor names. The job's signal is aborted with a `RunCancelledError`, whose cause
     * tells `reason`; that of a job without a lease with this cause itself.
     */
    override cancelJob(jobId: string, reason?: string): boolean {
      const isKnown = super.cancelJob(jobId, reason);
      return this.#runner.cancel(jobId, reason) || isKnown;
    }

    override cancelAllJobs(reason?: string): void {
      super.cancelAllJobs(reason);
      this.#runner.cancelAll(reason);
    }

    /** With scope `worker`: begins to stand for election. Resolves when it stands no more, paused or closed. */
    override run(): Promise<void> {
      // BullMQ's constructor may call it, before anything of this class is there.
      const candidate = #candidate in this ? this.#candidate : undefined;
      return candidate?.start() ?? super.run();
    }

    /**
     * With scope `worker`: it stands no more, and gives its lease back when its jobs have ended, which are not aborted, however
     * long they take; `close`, `revoke` and `maxHold` still end them.
     */
    override async pause(doNotWaitActive?: boolean): Promise<void> {
      if (this.#candidate === undefined) return super.pause(doNotWaitActive);
      const paused = this.#candidate.pause();
      if (doNotWaitActive !== true) await paused;
    }

    override async resume(): Promise<void> {
      if (this.#candidate === undefined) await super.resume();
      else this.#candidate.resume();
    }

    override isPaused(): boolean {
      return this.#candidate?.isPaused ?? super.isPaused();
    }

    /** With scope `worker`: whether it stands for election or is in office. */
    override isRunning(): boolean {
      return this.#candidate?.isStanding ?? super.isRunning();
    }

    /**
     * Takes no more jobs; lets those that run end for `grace`, then aborts them (`RunCancelledError`, reason `shutdown`) and
     * waits until they have settled or were abandoned. What gives up because of it goes back to its queue, for another
     * worker at once, without using an attempt; what returns is completed. Leases are released, those of the manager that linger
     * as well, and places in line are given up. If the manager is the worker's own, it is closed; one that was given stays
     * open. Comes to an end also while BullMQ's store is out of reach, within about 10 s of the last job. Forced it waits for
     * no job: those that do not give up as soon as they are aborted are left behind, as after `abandonAfter`. Called again it
     * gives the first answer.
     */
    override close(force = false): Promise<void> {
      return (this.#closed ??= this.#close(force));
    }

    /** BullMQ's own worker, beneath what is overridden here. */
    #engine(): Engine {
      return {
        run: () => super.run(),
        // Without waiting, where it could not end BullMQ's wait for jobs; that ends by itself when there is a connection.
        pause: () => super.pause(isBetweenConnections(this)),
        isPaused: () => super.isPaused(),
        resume: () => {
          // BullMQ's resume would call our run, and drop what comes of it.
          this.paused = false;
          forgetDrained(this);
          this.emit('resumed');
          return super.run();
        },
      };
    }

    async #close(force: boolean): Promise<void> {
      const close = (): Promise<void> => super.close(force);
      try {
        // With scope `worker` the jobs are ended, and the lease is given back, before BullMQ hears of it.
        if (this.#candidate !== undefined) await this.#candidate.close(force);
        else await this.#leaveJobs(force);
        if (force) await close();
        else await windDown(this, this.#runner, this.#candidate === undefined ? this.#graceMs : 0, close());
      } finally {
        await this.#leaveManager(force);
      }
    }

    #leaveJobs(force: boolean): Promise<void> {
      // Or BullMQ would fetch again what has just been put back. Its pause would tell everybody that the worker is paused.
      this.paused = true;
      this.#closing.abort();
      return leaveJobs(this, this.#runner, force);
    }
  } as unknown as LeasedWorkerClass<InstanceType<Base>>;
}

function checkOptions({ maxStartedAttempts }: Partial<WorkerOptions>, { whenBusy }: LeaseSettings): void {
  if (maxStartedAttempts === undefined || whenBusy !== 'delay') return;
  throw new ConfigError(
    'maxStartedAttempts',
    "counts each time a busy job is put back, so it would fail jobs that never ran; use attempts, which counts runs, or another whenBusy than 'delay'",
  );
}
