import type { AcquireOptions, Lease, LeaseManager } from '@leasehold/core';
import { asError, codeOf } from './thrown.ts';

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
const PROBE_MS = 5000;

export interface Elected {
  /** Its office has ended and its lease was given back, or is lost. Never rejects. */
  readonly ended: Promise<void>;
}

/**
 * Stands for one resource, again and again. To wait is to stand in line: the store tells the first in line when the lease is
 * given back, nobody asks for it every so often. What keeps it from being elected is told once for each outage.
 */
export class Election {
  readonly #manager: LeaseManager;
  readonly #resource: string;
  readonly #acquire: AcquireOptions;
  readonly #trouble: (error: Error) => void;
  readonly #probeMs: number;
  /** The code of the trouble that was told last, until it is over. */
  #told: string | undefined;

  constructor(
    manager: LeaseManager,
    resource: string,
    acquire: AcquireOptions,
    trouble: (error: Error) => void,
    probeMs: number = PROBE_MS,
  ) {
    this.#manager = manager;
    this.#resource = resource;
    this.#acquire = acquire;
    this.#trouble = trouble;
    this.#probeMs = probeMs;
  }

  /**
   * Resolves when elected. `serve` is called inside the run of the lease, so that whatever it starts has that as
   * `currentLease()`; the lease is given back when it has settled. It must not reject.
   * Undefined if `signal` ended it, or the manager is closed; a signal that aborts later cancels the lease.
   */
  async next(signal: AbortSignal, serve: (lease: Lease) => Promise<void>): Promise<Elected | undefined> {
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const outcome = await this.#stand(signal, serve);
      if ('ended' in outcome) {
        this.#told = undefined;
        return outcome;
      }
      if (signal.aborted) break;
      const { error } = outcome;
      const code = codeOf(error);
      // The manager was closed meanwhile, and says so when it is asked again.
      if (code === 'RUN_CANCELLED') continue;
      this.#tell(error);
      if (code === 'MANAGER_CLOSED') return undefined;
      await pause(pauseMs * (0.5 + Math.random() / 2), signal);
    }
    return undefined;
  }

  /** Resolves when the store has confirmed that it stands no more, or is silent. Never rejects. */
  over(): Promise<void> {
    return this.#manager.jobs.released();
  }

  async #stand(
    signal: AbortSignal,
    serve: (lease: Lease) => Promise<void>,
  ): Promise<Elected | { readonly error: unknown }> {
    const options: AcquireOptions = { ...this.#acquire, wait: Infinity, signal, detached: true };
    const probing = setInterval(() => void this.#probe(signal), this.#probeMs);
    try {
      return await new Promise((resolve) => {
        let isElected = false;
        const run = this.#manager.run(this.#resource, options, (lease) => {
          isElected = true;
          clearInterval(probing);
          const served = serve(lease);
          resolve({ ended });
          return served;
        });
        const ended = run.catch((error: unknown) => {
          if (!isElected) resolve({ error });
          // That it was lost, the signal of the lease has said.
          else if (codeOf(error) !== 'LEASE_LOST') this.#trouble(asError(error));
        });
      });
    } finally {
      clearInterval(probing);
    }
  }

  /** One who waits in line asks again and again by himself, and says nothing of a store that does not answer. */
  async #probe(signal: AbortSignal): Promise<void> {
    try {
      await this.#manager.inspect(this.#resource);
      if (this.#told === 'STORE_UNAVAILABLE') this.#told = undefined;
    } catch (error) {
      if (!signal.aborted) this.#tell(error);
    }
  }

  #tell(error: unknown): void {
    const code = codeOf(error) ?? 'unknown';
    if (code === this.#told) return;
    this.#told = code;
    this.#trouble(asError(error));
  }
}

async function pause(forMs: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, forMs);
    signal.addEventListener('abort', done);
  });
}
