import type { Clock, Timer } from '../clock.ts';
import { clamp, CLOCKS_DISAGREE_MS, type OwnerClock, type Stamp } from './term.ts';

/** A fortieth of the ttl: a pause is measured too short by at most that, and an idle process wakes up 4 to 100 times a second. */
const BEATS_PER_TTL = 40;
const MIN_PERIOD_MS = 10;
const MAX_PERIOD_MS = 250;

/** Two readings of the clocks that are farther apart were torn apart by a pause. */
const TORN_MS = 5;

/** How often it beats with leases of this ttl, milliseconds: a pause is measured too short by at most that. */
export function beatMs(ttlMs: number): number {
  return clamp(ttlMs / BEATS_PER_TTL, MIN_PERIOD_MS, MAX_PERIOD_MS);
}

/** What happened between two beats, in milliseconds. */
export interface Beat {
  /** How long the event loop stood still, too short by at most a period. */
  readonly pauseMs: number;
  /** By how much the wall clock was set, forward or (negative) back. */
  readonly stepMs: number;
  readonly suspendedMs: number;
}

/**
 * A timer that measures how late it is, while leases are held. That is what a blocked event loop, a collection of garbage,
 * a CPU limit and SIGSTOP have in common, and it is what delays the extension. Node's own histogram
 * (`monitorEventLoopDelay`) sees the same but follows no `Clock`, tells of no single pause, and wakes the process 100 times
 * a second for a figure that only matters when it comes near the ttl.
 */
export class Pulse {
  readonly #clock: Clock;
  readonly #ownerClock: OwnerClock;
  readonly #goesOn: () => boolean;
  readonly #onBeat: (beat: Beat) => void;
  #timer: Timer | undefined;
  #periodMs = Infinity;
  #dueMs = 0;
  #last: Stamp | undefined;
  #pausedMs = 0;

  /** It ends by itself once `goesOn` says no. `onBeat` must not throw. */
  constructor(clock: Clock, ownerClock: OwnerClock, goesOn: () => boolean, onBeat: (beat: Beat) => void) {
    this.#clock = clock;
    this.#ownerClock = ownerClock;
    this.#goesOn = goesOn;
    this.#onBeat = onBeat;
  }

  /** Begins, unless it beats already. The shortest ttl sets the period. */
  start(ttlMs: number): void {
    const periodMs = beatMs(ttlMs);
    if (periodMs < this.#periodMs) this.#periodMs = periodMs;
    if (this.#timer !== undefined) return;
    this.#last = this.#read();
    this.#arm();
  }

  stop(): void {
    this.#timer?.clear();
    this.#timer = undefined;
    this.#periodMs = Infinity;
  }

  /** What it measures is that exact. */
  get periodMs(): number {
    return Math.min(this.#periodMs, MAX_PERIOD_MS);
  }

  /** How long the event loop has stood still since the beginning, in all; now included, if the beat is overdue. */
  pausedMs(): number {
    return this.#timer === undefined ? this.#pausedMs : this.#pausedMs + this.#lateMs(this.#clock.monotonicMs());
  }

  /** Beats now if it should have by more than a period: after a pause others may come first, and want to know of it. */
  catchUp(): void {
    if (this.#timer === undefined || this.#lateMs(this.#clock.monotonicMs()) < this.#periodMs) return;
    this.#timer.clear();
    this.#beat();
  }

  #lateMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#dueMs);
  }

  #arm(): void {
    this.#dueMs = this.#clock.monotonicMs() + this.#periodMs;
    this.#timer = this.#clock.setTimer(this.#periodMs, () => this.#beat(), { ref: false });
  }

  #beat(): void {
    this.#timer = undefined;
    const before = this.#last;
    const now = this.#read();
    this.#last = now;
    const pauseMs = this.#lateMs(now.monotonicMs);
    this.#pausedMs += pauseMs;
    if (before !== undefined) this.#onBeat({ pauseMs, ...jumps(before, now) });
    if (this.#goesOn()) this.#arm();
    else this.stop();
  }

  /** All clocks at one instant: a pause between two of them would look like a step. */
  #read(): Stamp {
    for (let tries = 1; ; tries++) {
      const stamp = this.#ownerClock.stamp();
      if (tries === 3 || this.#clock.monotonicMs() - stamp.monotonicMs < TORN_MS) return stamp;
    }
  }
}

/** Where uptime is not known, a suspension is a step of the wall clock: the two cannot be told apart. */
function jumps(before: Stamp, now: Stamp): Pick<Beat, 'stepMs' | 'suspendedMs'> {
  const suspendedMs =
    before.offsetMs === undefined || now.offsetMs === undefined ? 0 : meant(now.offsetMs - before.offsetMs);
  const stepMs = meant(now.wallMs - before.wallMs - (now.monotonicMs - before.monotonicMs) - suspendedMs);
  return { stepMs, suspendedMs };
}

/** Less than that is the grain of the clocks, or a clock that is being slewed. */
function meant(ms: number): number {
  return Math.abs(ms) >= CLOCKS_DISAGREE_MS ? ms : 0;
}
