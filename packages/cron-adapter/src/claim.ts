import { NotStartedError, type Clock, type Lease, type Refusal, type RunBody, type Timer } from '@leasehold/core';
import type { LeaseManager, TryRunResult } from '@leasehold/core';

import type { Acquisition } from './job.ts';

/**
 * A lease that was taken when a tick was elected, and waits for node-cron to begin the run. It is the body of a `tryRun`
 * from the start, so that everything that holds for a run holds here: the lease is extended, the body is awaited, the
 * signal aborts. What node-cron never begins (a task that is stopped during its random delay) is given back.
 */
export class Claim {
  readonly #settled: Promise<TryRunResult<unknown>>;
  readonly #granted: Promise<Lease>;
  #grant: (lease: Lease) => void = () => {};
  #begin: (body: RunBody<unknown>) => void = () => {};
  #abandon: (error: NotStartedError) => void = () => {};
  #state: 'waiting' | 'begun' | 'given back' = 'waiting';
  #lease: Lease | undefined;
  #timer: Timer | undefined;

  private constructor(manager: LeaseManager, { resource, options }: Acquisition) {
    this.#granted = new Promise((resolve) => (this.#grant = resolve));
    const begun = new Promise<RunBody<unknown>>((resolve, reject) => {
      this.#begin = resolve;
      this.#abandon = reject;
    });
    this.#settled = manager.tryRun(resource, options, async (lease) => {
      this.#lease = lease;
      this.#grant(lease);
      // Lost or cancelled before anything was begun: there is nothing to wait for any more.
      const giveUp = (): void => void this.giveBack();
      lease.signal.addEventListener('abort', giveUp, { once: true });
      const body = await begun;
      lease.signal.removeEventListener('abort', giveUp);
      lease.assertHeld();
      return body(lease);
    });
    // Whoever begins the run hears of it; until then nobody listens.
    this.#settled.catch(() => {});
  }

  /**
   * Asks, and waits if the options say so. Rejects as `LeaseManager.run` does before its body. The claim is given back by
   * itself unless it is begun within `patience` of the grant.
   */
  static async ask(
    manager: LeaseManager,
    acquisition: Acquisition,
    patience: { readonly clock: Clock; readonly ms: number },
  ): Promise<Claim | Refusal> {
    const claim = new Claim(manager, acquisition);
    const first = await Promise.race([claim.#granted, claim.#settled]);
    if ('ran' in first) {
      if (!first.ran) return first;
      throw new TypeError('a run was over before it was begun');
    }
    if (claim.#state === 'waiting') {
      claim.#timer = patience.clock.setTimer(patience.ms, () => void claim.giveBack(), { ref: false });
    }
    return claim;
  }

  /** Whether the run can be begun: neither given back nor lost, as the clocks say now. */
  get isOpen(): boolean {
    return this.#state === 'waiting' && this.#lease?.isHeld() === true;
  }

  /** Which run of its tick it is, from 1. */
  get attempt(): number {
    return this.#lease?.tick?.attempt ?? 1;
  }

  /** Resolves when the lease is over, whatever became of it. */
  async over(): Promise<void> {
    await this.#settled.catch(() => {});
  }

  /** Begins the run of an open claim. Settles as `LeaseManager.run` does. */
  async begin(body: RunBody<unknown>): Promise<unknown> {
    this.#state = 'begun';
    this.#timer?.clear();
    this.#begin(body);
    const result = await this.#settled;
    return result.ran ? result.value : undefined;
  }

  /** Releases the lease of a run that was not begun, and its tick with it; resolves when that is done. Never rejects. */
  async giveBack(): Promise<void> {
    if (this.#state === 'begun') return;
    if (this.#state === 'waiting') {
      this.#state = 'given back';
      this.#timer?.clear();
      const { resource } = await this.#granted;
      this.#abandon(new NotStartedError(resource, 'the scheduler did not begin the run'));
    }
    await this.over();
  }
}
