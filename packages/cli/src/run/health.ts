import { performance } from 'node:perf_hooks';

import type { LeaseManager } from '@leasehold/core';
import type { Logger } from 'pino';

import type { Metrics } from './metrics.ts';
import { codeOf } from './runs.ts';
import { isWithin } from './within.ts';

/** What `/readyz` answers. */
export interface Readiness {
  readonly status: 'ready' | 'starting' | 'degraded' | 'closing';
  /** Since the store's last answer began to be waited for; null if there never was one. */
  readonly storeAnsweredMsAgo: number | null;
  /** Why the store does not answer. */
  readonly error?: string;
}

/** A name that no job has, asked about to hear from the store. */
const PROBE = 'leasehold:ready';

/**
 * Whether this process can do its work: it is not closing, and the store has answered within one refresh interval, after which a lease
 * would miss its extension. The store is asked when somebody asks here, and not oftener than twice in that interval.
 */
export class Health {
  readonly #manager: LeaseManager;
  readonly #refreshMs: number;
  readonly #log: Logger;
  readonly #metrics: Metrics;
  #phase: 'starting' | 'open' | 'closing' = 'starting';
  #answeredAt: number | undefined;
  #asking: Promise<void> | undefined;
  #failure: unknown;

  constructor(manager: LeaseManager, refreshMs: number, log: Logger, metrics: Metrics) {
    this.#manager = manager;
    this.#refreshMs = refreshMs;
    this.#log = log;
    this.#metrics = metrics;
  }

  /** What the store did not answer by, when it was asked last; undefined if it did. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Jobs are taken from now on. */
  open(): void {
    if (this.#phase === 'starting') this.#phase = 'open';
  }

  /** No more work is taken, for good. */
  close(): void {
    this.#phase = 'closing';
  }

  /**
   * Waits no longer than so many milliseconds for an answer of the store; then its last one counts, as long as it is young enough. Never
   * rejects.
   */
  async readiness(patienceMs = Infinity): Promise<Readiness> {
    if (this.#phase !== 'closing' && !this.#isWithin(this.#refreshMs / 2)) {
      await isWithin((this.#asking ??= this.#ask()), patienceMs);
    }
    const storeAnsweredMsAgo = this.#answeredAt === undefined ? null : Math.round(performance.now() - this.#answeredAt);
    if (this.#phase === 'closing') return { status: 'closing', storeAnsweredMsAgo };
    if (!this.#isWithin(this.#refreshMs)) {
      const error = this.#failure instanceof Error ? this.#failure.message : 'the store has not answered';
      return { status: this.#phase === 'open' ? 'degraded' : 'starting', storeAnsweredMsAgo, error };
    }
    return { status: this.#phase === 'open' ? 'ready' : 'starting', storeAnsweredMsAgo };
  }

  #isWithin(ms: number): boolean {
    return this.#answeredAt !== undefined && performance.now() - this.#answeredAt <= ms;
  }

  async #ask(): Promise<void> {
    // Before it is sent: an answer says nothing of the time after.
    const sentAt = performance.now();
    try {
      await this.#manager.inspect(PROBE);
      this.#answeredAt = sentAt;
      if (this.#failure !== undefined) this.#log.info({}, 'the store answers again');
      this.#failure = undefined;
    } catch (err) {
      if (this.#phase === 'closing') return;
      this.#metrics.storeFailed(codeOf(err));
      if (this.#failure === undefined) this.#log.warn({ err }, 'the store does not answer');
      this.#failure = err;
    } finally {
      this.#asking = undefined;
    }
  }
}
