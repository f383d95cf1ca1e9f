/**
 * The arithmetic of a lease on the owner's side. Pure: clocks are read by `OwnerClock`, timers belong to the keeper.
 *
 * An owner may believe in its lease until `base + window`, where `base` is read *before* the confirmed request was handed
 * to the socket (the store cannot have counted from an earlier instant) and the window is shorter than the store's by the
 * drift that two clocks may have against each other and by a margin for what happens between a check and its effect.
 * The rule is Gray and Cheriton's (Leases, 1989); anchoring it at the send is what River and the AWS DynamoDB lock
 * client do, and what libraries that sample the clock after the reply get wrong.
 */

import type { Clock } from '../clock.ts';
import { ConfigError } from '../errors.ts';

/** The timing of a lease, in milliseconds. Derived from ttl and the manager's options; see `timingOf`. */
export interface Timing {
  readonly ttlMs: number;
  /** After this much of the lease it is extended. */
  readonly refreshMs: number;
  /** How long the owner believes in a full lease. */
  readonly windowMs: number;
  readonly callTimeoutMs: number;
  readonly marginMs: number;
  readonly driftRate: number;
}

export interface TimingOptions {
  readonly refreshRatio: number;
  readonly driftRate: number;
  /** Undefined: clamp(ttl / 20, 20 ms, 500 ms). */
  readonly safetyMarginMs: number | undefined;
  /** Undefined: min(2 s, (window - refresh) / 3). */
  readonly callTimeoutMs: number | undefined;
}

const MIN_TTL_MS = 100;
const MAX_TTL_MS = 24 * 60 * 60 * 1000;

export function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** How long `remainingMs` of the store's time may be trusted by the owner. */
export function trustedMs(remainingMs: number, timing: Pick<Timing, 'driftRate' | 'marginMs'>): number {
  return remainingMs * (1 - timing.driftRate) - timing.marginMs;
}

/** How much earlier than the store the owner stops believing in a lease of this ttl. */
export function marginOf(ttlMs: number, safetyMarginMs: number | undefined): number {
  return safetyMarginMs ?? clamp(ttlMs / 20, 20, 500);
}

/**
 * Throws `ConfigError` for timing that cannot work: a lease that could not be extended twice before the owner has to
 * stop believing in it is lost by one slow answer.
 */
export function timingOf(ttlMs: number, options: TimingOptions): Timing {
  if (ttlMs < MIN_TTL_MS) {
    throw new ConfigError('ttl', `is ${ttlMs} ms, below ${MIN_TTL_MS} ms; did you mean '${ttlMs}s'?`);
  }
  if (ttlMs > MAX_TTL_MS) {
    throw new ConfigError(
      'ttl',
      `is ${ttlMs} ms, above 24 h; a lease is extended while its run lasts, so a short ttl is enough`,
    );
  }
  const { refreshRatio, driftRate } = options;
  const marginMs = marginOf(ttlMs, options.safetyMarginMs);
  const windowMs = trustedMs(ttlMs, { driftRate, marginMs });
  const refreshMs = ttlMs / refreshRatio;
  const callTimeoutMs = options.callTimeoutMs ?? Math.min(2000, (windowMs - refreshMs) / 3);
  if (callTimeoutMs <= 0 || refreshMs + 2 * callTimeoutMs > windowMs) {
    const option =
      options.callTimeoutMs !== undefined
        ? 'callTimeout'
        : options.safetyMarginMs !== undefined
          ? 'safetyMargin'
          : 'driftRate';
    throw new ConfigError(
      option,
      `with ttl ${ttlMs} ms the lease is extended after ${Math.round(refreshMs)} ms and trusted for ${Math.round(windowMs)} ms; ` +
        `refresh + 2 x callTimeout (${Math.round(callTimeoutMs)} ms) must fit into that: raise ttl or refreshRatio, or lower callTimeout, safetyMargin or driftRate`,
    );
  }
  return { ttlMs, refreshMs, windowMs, callTimeoutMs, marginMs, driftRate };
}

/**
 * When a request left, on the owner's three clocks. `offsetMs` is uptime minus monotonic: what suspension has added;
 * undefined while uptime is not known.
 */
export interface Stamp {
  readonly monotonicMs: number;
  readonly wallMs: number;
  readonly offsetMs: number | undefined;
}

/** Milliseconds since a stamp, by each clock; the largest counts. */
export interface Elapsed {
  readonly monotonicMs: number;
  readonly wallMs: number;
  readonly uptimeMs: number;
}

// A reading of uptime costs 8 to 13 µs. It is needed when a second may hide a suspension, or when the other two clocks
// no longer agree.
const UPTIME_EVERY_MS = 1000;
export const CLOCKS_DISAGREE_MS = 20;

/** Reads the clocks for stamps and checks. One a manager. */
export class OwnerClock {
  readonly #clock: Clock;
  // Suspension only ever adds to the offset and the 10 ms grain of uptime only ever hides some, so the largest reading is
  // the nearest. A stamp with an offset that is up to a second old is too early by what was suspended since: safe.
  #offsetMs: number | undefined;
  #readAtMs = -Infinity;
  #wallMinusMonotonicMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  stamp(): Stamp {
    const monotonicMs = this.#clock.monotonicMs();
    const wallMs = this.#clock.wallMs();
    return { monotonicMs, wallMs, offsetMs: this.#offset(monotonicMs, wallMs) };
  }

  since(stamp: Stamp, now: Stamp = this.stamp()): Elapsed {
    const monotonicMs = now.monotonicMs - stamp.monotonicMs;
    const suspendedMs = now.offsetMs === undefined || stamp.offsetMs === undefined ? 0 : now.offsetMs - stamp.offsetMs;
    return { monotonicMs, wallMs: now.wallMs - stamp.wallMs, uptimeMs: monotonicMs + suspendedMs };
  }

  #offset(monotonicMs: number, wallMs: number): number | undefined {
    const apart = Math.abs(wallMs - monotonicMs - this.#wallMinusMonotonicMs);
    if (monotonicMs - this.#readAtMs >= UPTIME_EVERY_MS || apart >= CLOCKS_DISAGREE_MS) {
      const uptimeMs = this.#clock.uptimeMs();
      this.#readAtMs = monotonicMs;
      this.#wallMinusMonotonicMs = wallMs - monotonicMs;
      if (uptimeMs !== undefined) {
        this.#offsetMs = Math.max(this.#offsetMs ?? -Infinity, uptimeMs - monotonicMs);
      }
    }
    return this.#offsetMs;
  }
}

export function elapsedMs(elapsed: Elapsed): number {
  return Math.max(elapsed.monotonicMs, elapsed.wallMs, elapsed.uptimeMs);
}

/**
 * Why the window is closed, given that it is: because the wall clock was stepped, or because time passed, with or without
 * an extend that had no answer. Two clocks of one machine may differ a little without a step.
 */
export function reasonOfClosure(
  elapsed: Elapsed,
  windowMs: number,
  unanswered: boolean,
): 'clock-step' | 'store-unreachable' | 'expired' {
  const passedMs = Math.max(elapsed.monotonicMs, elapsed.uptimeMs);
  if (passedMs < windowMs && elapsed.wallMs - passedMs >= CLOCKS_DISAGREE_MS) return 'clock-step';
  return unanswered ? 'store-unreachable' : 'expired';
}
