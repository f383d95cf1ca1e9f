import type { Context } from './context.ts';
import { currentScope } from './current.ts';
import type { Tenure } from './tenure.ts';
import { TIMED_OUT, within } from './within.ts';

/** A run that had not settled when `close` gave up waiting for it. Its lease is left to run out. */
export interface Unsettled {
  readonly resource: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly heldMs: number;
}

const LOOK_EVERY_MS = 1000;

/** Knows what is under way in a manager, and waits for its end. */
export class Closer {
  readonly #context: Context;
  readonly #leave: () => Promise<void>;
  #obtaining = 0;
  #idle: (() => void) | undefined;
  #ignored: ReadonlySet<Tenure> | undefined;
  #ignoresFinal = false;

  /** `leave` ends the use of the store. */
  constructor(context: Context, leave: () => Promise<void>) {
    this.#context = context;
    this.#leave = leave;
  }

  /** `close` waits until the acquisition that begins now has ended. */
  acquiring(): void {
    this.#obtaining++;
  }

  acquired(): void {
    this.#obtaining--;
    this.checkIdle();
  }

  /** Ends all that is held, as far as it ends. Resolves with what has not settled. */
  async close(graceMs: number, abandonAfterMs: number): Promise<readonly Unsettled[]> {
    const enclosing = this.#enclosing();
    const { settings, engine, tenures } = this.#context;
    const { logger } = settings;
    logger.debug({ held: tenures.size, graceMs }, 'closing: no new leases');
    if (!(await this.#waitIdle(graceMs))) {
      for (const tenure of tenures) tenure.cancel('shutdown');
      this.#sayWhatIsWaitedFor();
      await this.#waitIdle(abandonAfterMs, enclosing, true);
    }
    const unsettled = this.#unsettled();
    // No more extends: what is left runs out, and its loss is still announced. A body that closes its own manager will
    // settle and release.
    for (const tenure of tenures) if (!enclosing.has(tenure)) tenure.final = true;
    if (unsettled.length > 0)
      logger.warn({ unsettled }, 'closed with runs that have not settled; their leases run out');
    await engine.settler.flush(settings.timing.callTimeoutMs);
    const left = enclosing.size > 0 ? this.#waitIdle(Infinity).then(this.#leave) : this.#leave();
    if (enclosing.size === 0) await left;
    else left.catch((err: unknown) => logger.error({ err }, 'closing the store failed'));
    return unsettled;
  }

  /** Bodies were told to end. A lease from `acquire` that nobody releases would be waited for in silence. */
  #sayWhatIsWaitedFor(): void {
    const { settings, tenures, clock } = this.#context;
    settings.logger.info({ unsettled: this.#unsettled() }, 'closing: these were told to end and are waited for');
    const forgotten = [...tenures].filter(
      ({ inBody, releasing, final }) => !inBody && !final && releasing === undefined,
    );
    if (forgotten.length === 0) return;
    const { resource, startedMs } = forgotten[0] as Tenure;
    const others = forgotten.length > 1 ? ` and ${forgotten.length - 1} more` : '';
    const heldMs = Math.round(clock.monotonicMs() - startedMs);
    settings.warn(
      { resource, heldMs },
      `close() waits for leases that have not been released: ${resource}, held for ${heldMs} ms${others}; release them, or give abandonAfter`,
    );
  }

  #unsettled(): Unsettled[] {
    const now = this.#context.clock.monotonicMs();
    return [...this.#context.tenures].map(({ resource, grant, startedMs }) => ({
      resource,
      leaseId: grant.leaseId,
      fencingToken: grant.fencingToken,
      heldMs: now - startedMs,
    }));
  }

  /** Those of the bodies that this code runs in. Waiting for them would be waiting for itself. */
  #enclosing(): Set<Tenure> {
    const enclosing = new Set<Tenure>();
    for (let scope = currentScope(); scope !== undefined; scope = scope.enclosing) {
      if (scope.settled) continue;
      for (const tenure of this.#context.tenures) if (tenure.grant === scope.lease.grant) enclosing.add(tenure);
    }
    return enclosing;
  }

  /**
   * Whether nothing was held (but for `ignored`) or being acquired any more within `forMs`. With `ignoresFinal` what is not
   * extended any more is not waited for: it was told to end before, or left behind (`Lease.abandon`), and runs out by itself.
   */
  async #waitIdle(forMs: number, ignored?: ReadonlySet<Tenure>, ignoresFinal = false): Promise<boolean> {
    this.#ignored = ignored;
    this.#ignoresFinal = ignoresFinal;
    if (this.#isIdle()) return true;
    const { clock } = this.#context;
    const idle = new Promise<void>((resolve) => (this.#idle = resolve));
    const untilMs = clock.monotonicMs() + forMs;
    for (;;) {
      const leftMs = Math.max(0, untilMs - clock.monotonicMs());
      // Nothing tells that a lease was left behind meanwhile.
      const sliceMs = ignoresFinal ? Math.min(leftMs, LOOK_EVERY_MS) : leftMs;
      if ((await within(clock, idle, sliceMs)) !== TIMED_OUT || this.#isIdle()) return true;
      if (sliceMs === leftMs) return false;
    }
  }

  #isIdle(): boolean {
    if (this.#obtaining > 0) return false;
    for (const tenure of this.#context.tenures) if (!this.#isIgnored(tenure)) return false;
    return true;
  }

  #isIgnored(tenure: Tenure): boolean {
    return (this.#ignoresFinal && tenure.final) || this.#ignored?.has(tenure) === true;
  }

  /** To be called whenever something has ended. */
  checkIdle(): void {
    if (this.#idle !== undefined && this.#isIdle()) this.#idle();
  }
}
