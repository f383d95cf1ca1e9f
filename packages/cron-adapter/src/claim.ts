import type { AcquireOptions, Lease, LeaseManager, Refusal, RunBody, TryRunResult } from '@leasehold/core';
import { NotStartedError, type Clock, type Timer } from '@leasehold/core';

/**
 * A lease that was taken when a tick was elected, and waits for node-cron to begin the run. It is the body of a `tryRun`
 * from the start, so that everything that holds for a run holds here: the lease is extended, the body is awaited, the
 * signal aborts. What node-cron never begins (a task that is stopped during its random delay) is given back.
 */
export class Claim {
  readonly #settled: Promise<TryRunResult<unknown>>;
  readonly #lease: Promise<Lease>;
  #leaseArrived: (lease: Lease) => void = () => {};
  #begin: (body: RunBody<unknown>) => void = () => {};
  #abandon: (error: NotStartedError) => void = () => {};
  #waiting = true;
  #timer: Timer | undefined;

  private constructor(manager: LeaseManager, resource: string, options: AcquireOptions) {
    this.#lease = new Promise((resolve) => (this.#leaseArrived = resolve));
    const begun = new Promise<RunBody<unknown>>((resolve, reject) => {
      this.#begin = resolve;
      this.#abandon = reject;
    });
    begun.catch(() => {});
    this.#settled = manager.tryRun(resource, options, async (lease) => {
      this.#leaseArrived(lease);
      // Lost or cancelled before anything was begun: there is nothing to wait for any more.
      const giveUp = (): void => void this.giveBack();
      lease.signal.addEventListener('abort', giveUp, { once: true });
      const body = await begun;
      lease.signal.removeEventListener('abort', giveUp);
      lease.assertHeld();
      return body(lease);
    });
    // Whoever began the run, or gave it back, hears of it; until then nobody listens.
    this.#settled.catch(() => {});
  }

  /**
   * Asks once. Rejects as `LeaseManager.run` does before its body. The claim is given back by itself unless it is taken
   * within `patienceMs` of the grant.
   */
  static async ask(
    manager: LeaseManager,
    resource: string,
    options: AcquireOptions,
    patience: { readonly clock: Clock; readonly ms: number },
  ): Promise<Claim | Refusal> {
    const claim = new Claim(manager, resource, options);
    const first = await Promise.race([claim.#lease, claim.#settled]);
    if ('ran' in first) {
      if (!first.ran) return first;
      throw new TypeError('a run ended before it was begun');
    }
    if (claim.#waiting) {
      claim.#timer = patience.clock.setTimer(patience.ms, () => void claim.giveBack(), { ref: false });
    }
    return claim;
  }

  /** Begins the run, unless it has been given back: then undefined. Settles as `LeaseManager.run` does. */
  begin(body: RunBody<unknown>): Promise<unknown> | undefined {
    if (!this.#stopWaiting()) return undefined;
    this.#begin(body);
    return this.#settled.then((result) => (result.ran ? result.value : undefined));
  }

  /** Releases a lease whose run was not begun, and its tick with it; resolves when that is done. Never rejects. */
  async giveBack(): Promise<void> {
    if (!this.#stopWaiting()) return;
    const { resource } = await this.#lease;
    this.#abandon(new NotStartedError(resource, 'node-cron did not begin the run'));
    await this.#settled.catch(() => {});
  }

  #stopWaiting(): boolean {
    if (!this.#waiting) return false;
    this.#waiting = false;
    this.#timer?.clear();
    return true;
  }
}
