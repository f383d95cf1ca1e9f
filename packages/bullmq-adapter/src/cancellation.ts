import { isError } from './thrown.ts';

const asItIs = (reason: Error): Error => reason;

/**
 * Ends one run early: what asks for it is gathered here, its reason always an `Error`. A `Brake` of the core; a native signal
 * of it is made only for who asks for one.
 */
export class Cancellation {
  readonly #outer: AbortSignal | undefined;
  readonly #as: (reason: Error) => Error;
  readonly #forward: (() => void) | undefined;
  #reason: Error | undefined;
  #listener: (() => void) | undefined;
  #controller: AbortController | undefined;

  /**
   * `outer` may be a polyfill, as older versions of BullMQ had it: `AbortSignal.any` accepts such a signal and never fires,
   * so it is listened to. `as` makes of each reason what the signal is aborted with.
   */
  constructor(outer: AbortSignal | undefined, as: (reason: Error) => Error = asItIs) {
    this.#outer = outer;
    this.#as = as;
    if (outer === undefined) return;
    this.#forward = () => this.cancel(outer.reason);
    if (outer.aborted) this.#forward();
    else outer.addEventListener('abort', this.#forward);
  }

  get aborted(): boolean {
    return this.#reason !== undefined;
  }

  get reason(): Error | undefined {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** One listener at a time: first whoever waits for the lease, then the lease. */
  listen(listener: () => void): () => void {
    this.#listener = listener;
    return () => {
      if (this.#listener === listener) this.#listener = undefined;
    };
  }

  /** `worker.cancelJob` gives a text or nothing; thrown as it is, a text would be recorded as the failure "null". */
  cancel(reason: unknown): void {
    if (this.#reason !== undefined) return;
    const why = typeof reason === 'string' ? reason : 'no reason given';
    this.#reason = this.#as(isError(reason) ? reason : new Error(`the job was cancelled: ${why}`));
    this.#controller?.abort(this.#reason);
    this.#listener?.();
  }

  end(): void {
    if (this.#forward !== undefined) this.#outer?.removeEventListener('abort', this.#forward);
  }
}
