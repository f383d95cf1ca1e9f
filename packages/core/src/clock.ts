import { uptime } from 'node:os';

/** A pending timer of a `Clock`. */
export interface Timer {
  clear(): void;
}

/**
 * All the time that the engine knows. Three clocks, because each is blind to something: `monotonicMs` stands still while
 * a Linux machine is suspended, `wallMs` is set by people and NTP, `uptimeMs` counts suspension but is coarse.
 */
export interface Clock {
  /** Milliseconds on a clock that never goes back. */
  monotonicMs(): number;
  /** Milliseconds since 1970. */
  wallMs(): number;
  /** Microseconds since 1970, following the same clock as `wallMs`; up to 1,000 readings within one millisecond differ. */
  wallUs(): number;
  /** Milliseconds since boot, suspension included, or undefined where that is not known to a tenth of a second. */
  uptimeMs(): number | undefined;
  /**
   * Calls `fire` once after `delayMs` (any size; clamped to what timers can hold). `ref: false` lets the process end
   * while it is pending.
   */
  setTimer(delayMs: number, fire: () => void, options: { readonly ref: boolean }): Timer;
}

// Node fires a timer above this at once.
const MAX_TIMER_MS = 2 ** 31 - 1;

function readUptimeMs(): number | undefined {
  try {
    return uptime() * 1000;
  } catch {
    return undefined;
  }
}

class SystemClock implements Clock {
  #lastUs = 0;
  #uptimeIsFine = false;

  monotonicMs(): number {
    return performance.now();
  }

  wallMs(): number {
    return Date.now();
  }

  wallUs(): number {
    const us = Date.now() * 1000;
    this.#lastUs = this.#lastUs >= us && this.#lastUs < us + 999 ? this.#lastUs + 1 : us;
    return this.#lastUs;
  }

  /**
   * `os.uptime()` is CLOCK_BOOTTIME with 10 ms grain on Linux with /proc, but whole seconds elsewhere: a lease of 1 s would
   * be lost at once. It is believed from the first reading on that has digits behind the point.
   */
  uptimeMs(): number | undefined {
    if (process.platform !== 'linux') return undefined;
    const ms = readUptimeMs();
    this.#uptimeIsFine ||= ms !== undefined && ms % 1000 !== 0;
    return this.#uptimeIsFine ? ms : undefined;
  }

  setTimer(delayMs: number, fire: () => void, options: { readonly ref: boolean }): Timer {
    const timer = setTimeout(fire, Math.min(Math.max(delayMs, 0), MAX_TIMER_MS));
    if (!options.ref) timer.unref();
    return { clear: () => clearTimeout(timer) };
  }
}

/** The clocks of this machine. */
export const systemClock: Clock = new SystemClock();
