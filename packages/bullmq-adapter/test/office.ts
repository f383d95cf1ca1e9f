import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { FaultyStore, ManualClock } from '@leasehold/core/testing';
import type { TermObserver } from '../src/candidate.ts';
import type { Engine } from '../src/engine.ts';
import { parseLeaseOptions, type LeaseOptions } from '../src/options.ts';
import type { Body, RunObserver } from '../src/runner.ts';
import { WorkerScope } from '../src/worker-scope.ts';
import { fakeJob, type FakeJob } from './fake-job.ts';

export const TTL_MS = 1000;

/** As much of BullMQ's worker as decides when it fetches. */
export class FakeEngine implements Engine {
  readonly #log: (what: string) => void;
  #isPaused = false;
  #end: (() => void) | undefined;
  /** Set by the worker that runs on it. */
  idle: () => Promise<void> = () => Promise.resolve();
  /** Why the next `run` fails. */
  failure: Error | undefined;
  /** What BullMQ has to do yet before it has come to rest. */
  rest: Promise<void> | undefined;

  constructor(log: (what: string) => void) {
    this.#log = log;
  }

  get fetches(): boolean {
    return this.#end !== undefined && !this.#isPaused;
  }

  run(): Promise<void> {
    this.#log('run');
    if (this.#end !== undefined) return Promise.reject(new Error('Worker is already running.'));
    if (this.failure !== undefined) {
      const { failure } = this;
      this.failure = undefined;
      return Promise.reject(failure);
    }
    return new Promise((resolve) => (this.#end = resolve));
  }

  async pause(): Promise<void> {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#log('pause');
    await this.idle();
    await this.rest;
    this.#end?.();
    this.#end = undefined;
  }

  isPaused(): boolean {
    return this.#isPaused;
  }

  resume(): Promise<void> {
    this.#isPaused = false;
    return this.run();
  }
}

/** Workers of one resource on a store in memory whose faults and time the test decides. */
export class Town {
  readonly clock = new ManualClock();
  readonly #server = new MemoryLeaseStore({ clock: this.clock });
  readonly #workers: OfficeWorker[] = [];

  worker(options: Partial<LeaseOptions> = {}): OfficeWorker {
    const worker = new OfficeWorker(new FaultyStore(this.#server, { clock: this.clock }), this.clock, options);
    this.#workers.push(worker);
    return worker;
  }
}

export class OfficeWorker {
  readonly store: FaultyStore;
  readonly manager: LeaseManager;
  readonly scope: WorkerScope;
  readonly engine: FakeEngine;
  /** What was done and heard, in order. */
  readonly log: string[] = [];
  /** What somebody does who hears that a job has its lease. */
  onAcquired = (): void => {};
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(store: FaultyStore, clock: ManualClock, options: Partial<LeaseOptions>) {
    this.store = store;
    this.manager = new LeaseManager({ store, clock, ttl: TTL_MS, callTimeout: 50 });
    const observer: RunObserver & TermObserver = {
      acquired: () => this.onAcquired(),
      busy: () => {},
      lost: (job, { reason }) => this.#say(`job ${job.id} lost ${reason}`),
      abandoned: (job) => this.#say(`job ${job.id} abandoned`),
      troubled: ({ code }) => this.#say(`troubled ${code}`),
      elected: () => this.#say('elected'),
      steppedDown: (_, { reason }) => this.#say(`stepped down ${reason}`),
      failed: (error) => this.#say(`failed ${error.message.split(' ')[0]}`),
    };
    this.engine = new FakeEngine((what) => this.#say(what));
    const settings = parseLeaseOptions({ resource: 'payments', scope: 'worker', ...options }, 'lease');
    this.scope = new WorkerScope(this.manager, settings, observer, this.engine);
    this.engine.idle = () => this.scope.idle();
  }

  get candidate(): WorkerScope['candidate'] {
    return this.scope.candidate;
  }

  /** Starts to stand; resolves when it is elected. */
  async elected(): Promise<void> {
    const heard = this.heard('elected');
    void this.candidate.start();
    await heard;
  }

  run<R>(job: FakeJob, body: Body<R>, signal?: AbortSignal): Promise<R> {
    return this.scope.run(job, 'lock', signal, body);
  }

  /** Begins a job and resolves when its processor runs. */
  async begin<R>(id: string, body: Body<R>): Promise<{ job: FakeJob; ended: Promise<R | Error> }> {
    const job = fakeJob({ id });
    const done = this.scope.processing(job);
    let started = (): void => {};
    const running = new Promise<void>((resolve) => (started = resolve));
    const ended = this.run(job, (signal) => {
      started();
      return body(signal);
    })
      .catch((error: unknown) => error as Error)
      .finally(done);
    await Promise.race([running, ended]);
    return { job, ended };
  }

  /** The next time that this is done or heard. */
  heard(what: string): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(what, [...(this.#waiting.get(what) ?? []), resolve]);
    });
  }

  #say(what: string): void {
    this.log.push(what);
    const waiting = this.#waiting.get(what) ?? [];
    this.#waiting.delete(what);
    for (const resolve of waiting) resolve();
  }
}

export function aborted(signal: AbortSignal): Promise<Error> {
  return new Promise((resolve) => {
    const done = (): void => resolve(signal.reason as Error);
    if (signal.aborted) done();
    else signal.addEventListener('abort', done);
  });
}
