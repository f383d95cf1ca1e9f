const MAX_TIMER_MS = 2 ** 31 - 1;

export const ABANDONED: unique symbol = Symbol('abandoned');

/** How long a body may go on after its signal was aborted. */
export class Patience {
  readonly #afterMs: number;
  #signal: AbortSignal | undefined;
  #timer: NodeJS.Timeout | undefined;
  #giveUp: (() => void) | undefined;
  #hasBegun = false;
  #isOver = false;
  #aborted: (() => void) | undefined;

  /** `Infinity`, or longer than timers can wait: for ever. */
  constructor(afterMs: number) {
    this.#afterMs = afterMs;
  }

  begin(signal: AbortSignal): void {
    this.#hasBegun = true;
    if (this.#isOver) this.#giveUp?.();
    if (this.#afterMs > MAX_TIMER_MS) return;
    const aborted = (): void => {
      this.#timer = setTimeout(() => this.#giveUp?.(), this.#afterMs);
    };
    this.#signal = signal;
    this.#aborted = aborted;
    if (signal.aborted) aborted();
    else signal.addEventListener('abort', aborted);
  }

  /** Whatever time is left, there is none from now on; a body that has not begun is waited for until it does. */
  giveUp(): void {
    this.#isOver = true;
    if (this.#hasBegun) this.#giveUp?.();
  }

  /** What the work comes to; what it comes to after it was abandoned is dropped. */
  with<T>(work: Promise<T>): Promise<T | typeof ABANDONED> {
    return new Promise((resolve, reject) => {
      this.#giveUp = () => resolve(ABANDONED);
      if (this.#hasBegun && this.#isOver) this.#giveUp();
      work.then(resolve, reject);
    });
  }

  end(): void {
    clearTimeout(this.#timer);
    if (this.#aborted !== undefined) this.#signal?.removeEventListener('abort', this.#aborted);
  }
}
