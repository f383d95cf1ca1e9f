import { ConfigError, type LeaseManager } from '@leasehold/core';
import type { Job, Worker, WorkerOptions } from 'bullmq';
import { shareManager } from './default-manager.ts';
import { WorkerEvents } from './events.ts';
import { parseLeaseOptions, type LeasedProcessor, type LeasedWorkerOptions, type LeaseSettings } from './options.ts';
import { Runs } from './run.ts';
import type { JobRunner } from './runner.ts';

/** Any class that behaves as BullMQ's Worker: BullMQ 5 or 6, of another backend, or somebody's subclass. */
export type WorkerClass = new (...args: any[]) => { close(force?: boolean): Promise<void> };

/** The class with one more option, `lease`. */
export type LeasedWorkerClass<Instance> = new <D = any, R = any, N extends string = string>(
  name: string,
  processor: LeasedProcessor<D, R, N>,
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
 * The constructor throws `ConfigError` for options that cannot work.
 */
export function withLease<Base extends WorkerClass>(
  base: Base,
  defaults: WithLeaseOptions = {},
): LeasedWorkerClass<InstanceType<Base>> {
  const AnyWorker = base as unknown as new (...args: any[]) => Worker;

  return class extends AnyWorker {
    readonly #runner: JobRunner;
    readonly #leaveManager: (force: boolean) => Promise<void>;
    #closed: Promise<void> | undefined;

    constructor(...args: any[]) {
      const [name, processor, given, ...rest] = args as [
        string,
        LeasedProcessor,
        Partial<LeasedWorkerOptions>?,
        ...unknown[],
      ];
      const { lease, ...options } = given ?? {};
      // Everything that can be refused is refused before BullMQ opens connections and starts.
      const settings = parseLeaseOptions(lease, 'lease');
      checkProcessor(processor);
      checkOptions(options, settings);
      const own = settings.manager ?? defaults.manager;
      const shared = own === undefined ? shareManager(options.connection) : undefined;
      const manager = own ?? (shared as NonNullable<typeof shared>).manager;
      manager.checkOptions(settings.acquire);

      super(name, withThreeParameters(processor), options, ...rest);

      const closing = new AbortController();
      this.on('closing', () => closing.abort());
      this.#leaveManager = shared?.join() ?? (() => Promise.resolve());
      this.#runner = runnerOf(settings, manager, this, closing.signal);
      this.on('lockRenewalFailed', (jobIds) => this.#runner.lockRenewalFailed(jobIds));
    }

    protected override callProcessJob(job: Job, token: string, signal?: AbortSignal): Promise<unknown> {
      return this.#runner.run(job, token, signal, (ours) => super.callProcessJob(job, token, ours));
    }

    /**
     * BullMQ's close, which waits for running jobs (unless forced); then, if the manager is the worker's own, its close. A
     * manager that was given stays open.
     */
    override close(force = false): Promise<void> {
      return (this.#closed ??= this.#close(super.close(force), force));
    }

    async #close(closed: Promise<void>, force: boolean): Promise<void> {
      try {
        await closed;
      } finally {
        await this.#leaveManager(force);
      }
    }
  } as unknown as LeasedWorkerClass<InstanceType<Base>>;
}

/** `closing` aborts when the worker begins to close. */
function runnerOf(settings: LeaseSettings, manager: LeaseManager, worker: Worker, closing: AbortSignal): JobRunner {
  const observer = new WorkerEvents(worker);
  switch (settings.scope) {
    case 'job':
      return new Runs(manager, settings, observer, closing);
    case 'worker':
      // Refused before.
      throw new ConfigError('lease.scope', "is 'worker'");
  }
}

function checkProcessor(processor: unknown): asserts processor is LeasedProcessor {
  if (typeof processor === 'function') return;
  if (typeof processor === 'string' || processor instanceof URL) {
    throw new ConfigError(
      'processor',
      'is a file; its process would run without job.lease, out of reach of its signal: give a function',
    );
  }
  throw new ConfigError('processor', 'is missing; jobs that are fetched by hand do not run under a lease');
}

function checkOptions({ maxStartedAttempts }: Partial<WorkerOptions>, { scope, whenBusy }: LeaseSettings): void {
  if (scope === 'worker') throw new ConfigError('lease.scope', "is 'worker': not yet here; use 'job'");
  if (maxStartedAttempts === undefined || whenBusy !== 'delay') return;
  throw new ConfigError(
    'maxStartedAttempts',
    "counts each time a busy job is put back, so it would fail jobs that never ran; use attempts, which counts runs, or another whenBusy than 'delay'",
  );
}

/** BullMQ makes a signal, and lets a job be cancelled, only for a function that names its third parameter. */
function withThreeParameters(processor: LeasedProcessor): LeasedProcessor {
  return (job, token, signal) => processor(job, token, signal);
}
