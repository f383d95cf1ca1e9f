import type { LeaseManager } from '@leasehold/core';
import { collectLeaseMetrics } from '@leasehold/core/prometheus';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

import type { RunOutcome } from './runs.ts';

/** Seconds: jobs are as short as a write and as long as a night. */
const DURATION_BUCKETS = [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200];

/**
 * What `/metrics` shows, in a registry of its own: the jobs of the config, and the leases under them. Labels are names of the
 * config, classes and reasons, so their number is bounded.
 */
export class Metrics {
  readonly registry: Registry = new Registry();
  readonly #runs = this.#counter('runs_total', 'Runs that have ended.', 'job', 'outcome');
  readonly #skipped = this.#counter('ticks_skipped_total', 'Ticks that began no run here.', 'job', 'reason');
  readonly #busy = this.#counter('jobs_busy_total', 'Jobs of a queue that found their resource busy.', 'job');
  readonly #storeErrors = this.#counter(
    'store_errors_total',
    'Questions that the store or a fence did not answer.',
    'code',
  );
  readonly #active = new Gauge({
    name: 'leasehold_runs_active',
    help: 'Runs that go on.',
    labelNames: ['job'] as const,
    registers: [this.registry],
  });
  readonly #durations = new Histogram({
    name: 'leasehold_run_duration_seconds',
    help: 'How long runs took.',
    labelNames: ['job'] as const,
    buckets: DURATION_BUCKETS,
    registers: [this.registry],
  });

  /** Memory, processor time, event loop lag: of the process, so collected only for one that shows them. */
  collectProcess(): void {
    collectDefaultMetrics({ register: this.registry });
  }

  watch(manager: LeaseManager): void {
    collectLeaseMetrics(manager, { register: this.registry });
    manager.on('extendFailed', ({ error }) => this.storeFailed(error?.code ?? 'STORE_UNAVAILABLE'));
  }

  /** So that a job that has not run yet is there with a zero, and a rate can be taken from the first run on. */
  expect(job: string): void {
    for (const outcome of ['done', 'failed', 'cancelled', 'lost'] as const) this.#runs.inc({ job, outcome }, 0);
    this.#active.set({ job }, 0);
  }

  began(job: string): void {
    this.#active.inc({ job });
  }

  ended(job: string, outcome: RunOutcome, durationMs: number): void {
    this.#active.dec({ job });
    this.#runs.inc({ job, outcome });
    this.#durations.observe({ job }, durationMs / 1000);
  }

  skipped(job: string, reason: string): void {
    this.#skipped.inc({ job, reason });
  }

  busy(job: string): void {
    this.#busy.inc({ job });
  }

  storeFailed(code: string): void {
    this.#storeErrors.inc({ code });
  }

  #counter<L extends string>(name: string, help: string, ...labelNames: L[]): Counter<L> {
    return new Counter({ name: `leasehold_${name}`, help, labelNames, registers: [this.registry] });
  }
}
