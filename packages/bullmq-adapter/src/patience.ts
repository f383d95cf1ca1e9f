const MAX_TIMER_MS = 2 ** 31 - 1;

export const ABANDONED: unique symbol = Symbol('abandoned');

/** How long a body may go on after its signal was aborted. */
export class Patience {
  readonly #afterMs: number;
  #signal: AbortSignal | undefined;
  #timer: NodeJS.Timeout | undefined;
  #giveUp: () => void = () => {};
  readonly #aborted = (): void => {
    this.#timer = setTimeout(() => this.#giveUp(), this.#afterMs);
  };

  /** `Infinity`, or longer than timers can wait: for ever. */
  constructor(afterMs: number) {
    this.#afterMs = afterMs;
  }

  begin(signal: AbortSignal): void {
    if (this.#afterMs > MAX_TIMER_MS) return;
    this.#signal = signal;
    if (signal.aborted) this.#aborted();
    else signal.addEventListener('abort', this.#aborted);
  }

  /** What the work comes to; what it comes to after it was abandoned is dropped. */
  async with<T>(work: Promise<T>): Promise<T | typeof ABANDONED> {
    if (this.#afterMs > MAX_TIMER_MS) return work;
    const abandoned = new Promise<typeof ABANDONED>((resolve) => (this.#giveUp = () => resolve(ABANDONED)));
    return Promise.race([work, abandoned]);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#aborted);
  }
}
