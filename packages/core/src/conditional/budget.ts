import type { Clock } from '../clock.ts';
import { parseDuration, type Duration } from '../duration.ts';
import { ConfigError } from '../errors.ts';

/** Throws `ConfigError` unless calls can have it as their deadline. */
export function callTimeoutMs(timeout: Duration): number {
  const ms = parseDuration('timeout', timeout);
  if (ms === 0 || ms === Infinity) throw new ConfigError('timeout', `${timeout} gives no call a deadline`);
  return ms;
}

/** What `within` rejects with when its time is over. Whether the work goes on nevertheless is not known. */
export class TimeIsUp extends Error {}

/**
 * The time that one call to a fence may take. Code of the caller's runs `outside` of it: a body may be as slow as it
 * likes, what the fence does around it may not.
 */
export class Budget {
  readonly totalMs: number;
  readonly #clock: Clock;
  #endMs: number;

  constructor(clock: Clock, totalMs: number) {
    this.totalMs = totalMs;
    this.#clock = clock;
    this.#endMs = clock.monotonicMs() + totalMs;
  }

  get leftMs(): number {
    return Math.max(0, this.#endMs - this.#clock.monotonicMs());
  }

  get isOver(): boolean {
    return this.leftMs === 0;
  }

  async outside<T>(work: () => T | Promise<T>): Promise<T> {
    const beganMs = this.#clock.monotonicMs();
    try {
      return await work();
    } finally {
      this.#endMs += this.#clock.monotonicMs() - beganMs;
    }
  }

  /**
   * What `work` comes to, or `TimeIsUp` after `limitMs` or at the end, whichever is first; the signal is aborted then. Begins
   * `work` at once, in the same turn.
   */
  within<T>(limitMs: number, work: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = new AbortController();
      const ms = Math.min(limitMs, this.leftMs);
      // One turn later: timers run before sockets are looked at, and an answer that is already here must win.
      const expire = (): void =>
        void setImmediate(() => {
          const late = new TimeIsUp(`no answer within ${Math.round(ms)} ms`);
          reject(late);
          abort.abort(late);
        });
      const timer = this.#clock.setTimer(ms, expire, { ref: true });
      new Promise<T>((begun) => begun(work(abort.signal))).then(resolve, reject).finally(() => timer.clear());
    });
  }

  /** Waits before the next try, from about 5 ms up to half a second: at random, so that rivals do not meet again. */
  pause(round: number, mostMs = 500): Promise<void> {
    const ms = Math.min(5 * 2 ** Math.min(round, 20), mostMs) * (0.5 + Math.random());
    return new Promise((resolve) => {
      this.#clock.setTimer(Math.min(ms, this.leftMs), resolve, { ref: true });
    });
  }
}
