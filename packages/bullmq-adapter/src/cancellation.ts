import { isError } from './thrown.ts';

/** Ends one run early: what asks for it is gathered in one native signal, whose reason is always an `Error`. */
export class Cancellation {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #as: (reason: Error) => Error;
  readonly #forward = (): void => this.cancel(this.#outer?.reason);

  /**
   * `outer` may be a polyfill, as older versions of BullMQ had it: `AbortSignal.any` accepts such a signal and never fires,
   * so it is listened to. `as` makes of each reason what the signal is aborted with.
   */
  constructor(outer: AbortSignal | undefined, as: (reason: Error) => Error = (reason) => reason) {
    this.#outer = outer;
    this.#as = as;
    if (outer === undefined) return;
    if (outer.aborted) this.#forward();
    else outer.addEventListener('abort', this.#forward);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** `worker.cancelJob` gives a text or nothing; thrown as it is, a text would be recorded as the failure "null". */
  cancel(reason: unknown): void {
    const why = typeof reason === 'string' ? reason : 'no reason given';
    this.#controller.abort(this.#as(isError(reason) ? reason : new Error(`the job was cancelled: ${why}`)));
  }

  end(): void {
    this.#outer?.removeEventListener('abort', this.#forward);
  }
}
