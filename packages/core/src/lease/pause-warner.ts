import type { Context } from './context.ts';
import { adviseTiming } from './timing-advice.ts';

/** A standstill of this part of the trust window is told of: one that is twice as long loses leases. */
const NEAR = 0.5;
const AGAIN_MS = 10 * 60_000;

/** Warns of standstills of the process that come near the trust window of its leases: at once, then at most each 10 min. */
export class PauseWarner {
  readonly #context: Context;
  #quietUntilMs = -Infinity;

  readonly #stoodStill = (forMs: number): void => this.#judge(forMs);

  constructor(context: Context) {
    this.#context = context;
    context.engine.vitals.onStandstill.add(this.#stoodStill);
  }

  end(): void {
    this.#context.engine.vitals.onStandstill.delete(this.#stoodStill);
  }

  #judge(forMs: number): void {
    const { settings, tenures, clock, engine } = this.#context;
    let { timing } = settings;
    for (const tenure of tenures) if (tenure.timing.windowMs < timing.windowMs) timing = tenure.timing;
    const { ttlMs, windowMs } = timing;
    if (forMs < windowMs * NEAR || clock.monotonicMs() < this.#quietUntilMs) return;
    this.#quietUntilMs = clock.monotonicMs() + AGAIN_MS;
    const { refreshRatio, driftRate, safetyMarginMs } = settings.timingOptions;
    const measured = { vitals: engine.vitals.now(), ttlMs, refreshRatio, driftRate, safetyMarginMs };
    const { shortestTtlMs } = adviseTiming(measured);
    const remedy = 'look for synchronous work, long collections of garbage, CPU limits, or a machine that was stopped';
    const orRaise = shortestTtlMs > ttlMs ? `, or raise ttl to ${shortestTtlMs} ms` : '';
    settings.logger.warn(
      { pauseMs: Math.round(forMs), windowMs: Math.round(windowMs), ttlMs, shortestTtlMs },
      `this process stood still for ${Math.round(forMs)} ms, and leases are trusted for ${Math.round(windowMs)} ms: ${remedy}${orRaise}`,
    );
  }
}
