import type { Clock, Timer } from '../clock.ts';

/** A sleep that can be cut short, also before it has begun: who is told to wake while he is asking asks again at once. */
export class Sleeper {
  readonly #clock: Clock;
  #dueMs = Infinity;
  #timer: Timer | undefined;
  #resolve: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves after `forMs`, or earlier if `wake` says so. Keeps the process alive: somebody waits. */
  sleep(forMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#arm(Math.min(this.#dueMs, this.#clock.monotonicMs() + forMs));
    });
  }

  wake(afterMs = 0): void {
    const dueMs = this.#clock.monotonicMs() + afterMs;
    if (dueMs >= this.#dueMs) return;
    if (this.#resolve === undefined) this.#dueMs = dueMs;
    else this.#arm(dueMs);
  }

  /** Forgets what was said before the question that is being asked now. */
  forget(): void {
    this.#dueMs = Infinity;
  }

  end(): void {
    this.#timer?.clear();
    this.#finish();
  }

  #arm(dueMs: number): void {
    this.#timer?.clear();
    this.#dueMs = dueMs;
    const inMs = dueMs - this.#clock.monotonicMs();
    if (inMs <= 0) this.#finish();
    else this.#timer = this.#clock.setTimer(inMs, () => this.#finish(), { ref: true });
  }

  #finish(): void {
    const resolve = this.#resolve;
    this.#resolve = undefined;
    this.#dueMs = Infinity;
    resolve?.();
  }
}
