import type { Clock, Timer } from '../clock.ts';

interface Pending extends Timer {
  readonly dueUs: number;
  readonly ref: boolean;
  readonly fire: () => void;
}

const START_MS = Date.UTC(2026, 0, 15, 3, 0, 0);
// As in Node: whole milliseconds, at least one, and no more than a signed 32-bit number holds.
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Lets everything run that waits for no time: all microtasks, and what they lead to. */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function toUs(ms: number): number {
  return Math.round(ms * 1000);
}

/** Time that stands still until a test moves it. Timers keep to the monotonic clock, as in Node. */
export class ManualClock implements Clock {
  // Whole µs, so that steps of a fraction of a millisecond add up.
  #monotonicUs = 1_000_000;
  #uptimeUs = 60_000_000;
  #wallUs: number;
  #readings = 0;
  #pending: Pending[] = [];

  constructor(options: { readonly startMs?: number | undefined } = {}) {
    this.#wallUs = toUs(options.startMs ?? START_MS);
  }

  monotonicMs(): number {
    return this.#monotonicUs / 1000;
  }

  wallMs(): number {
    return Math.floor(this.#wallUs / 1000);
  }

  /**
   * Each reading is a µs later than the one before, up to a thousand readings. These µs never start again, so
   * `advance(ttl)` always reaches the end of what was begun before it.
   */
  wallUs(): number {
    const us = this.#wallUs + this.#readings;
    if (this.#readings < 999) this.#readings++;
    return us;
  }

  uptimeMs(): number {
    return this.#uptimeUs / 1000;
  }

  setTimer(delayMs: number, fire: () => void, options: { readonly ref: boolean }): Timer {
    const delay = Math.min(Math.max(Math.trunc(delayMs), 1), MAX_TIMER_MS);
    const timer: Pending = {
      dueUs: this.#monotonicUs + toUs(delay),
      ref: options.ref,
      fire,
      clear: () => {
        this.#pending = this.#pending.filter((other) => other !== timer);
      },
    };
    this.#pending.push(timer);
    return timer;
  }

  /** The timers that wait: for tests that something was cleared, or keeps no process alive. */
  get timers(): readonly { readonly inMs: number; readonly ref: boolean }[] {
    return this.#pending.map(({ dueUs, ref }) => ({ inMs: (dueUs - this.#monotonicUs) / 1000, ref }));
  }

  /** Moves all clocks by `ms`, firing each timer at its own instant. What promises do in between comes afterwards. */
  advance(ms: number): void {
    const untilUs = this.#monotonicUs + toUs(ms);
    for (let timer = this.#next(untilUs); timer !== undefined; timer = this.#next(untilUs)) this.#fire(timer);
    this.#move(untilUs - this.#monotonicUs);
  }

  /** As `advance`, but what promises lead to runs before the first timer, after each timer, and at the end. */
  async advanceAsync(ms: number): Promise<void> {
    const untilUs = this.#monotonicUs + toUs(ms);
    await settle();
    for (let timer = this.#next(untilUs); timer !== undefined; timer = this.#next(untilUs)) {
      this.#fire(timer);
      await settle();
    }
    this.#move(untilUs - this.#monotonicUs);
    await settle();
  }

  /** The wall clock alone is set forward, or back. */
  stepWall(ms: number): void {
    this.#wallUs += toUs(ms);
  }

  /** The machine sleeps: the monotonic clock, and with it every timer, stands still. */
  suspend(ms: number): void {
    this.#wallUs += toUs(ms);
    this.#uptimeUs += toUs(ms);
  }

  /** The event loop is blocked, or the process stopped: time passes, and no timer fires until the next `advance`. */
  block(ms: number): void {
    this.#move(toUs(ms));
  }

  #next(untilUs: number): Pending | undefined {
    let next: Pending | undefined;
    for (const timer of this.#pending) {
      if (timer.dueUs <= untilUs && (next === undefined || timer.dueUs < next.dueUs)) next = timer;
    }
    return next;
  }

  #fire(timer: Pending): void {
    timer.clear();
    this.#move(Math.max(0, timer.dueUs - this.#monotonicUs));
    timer.fire();
  }

  #move(us: number): void {
    this.#monotonicUs += us;
    this.#wallUs += us;
    this.#uptimeUs += us;
  }
}
