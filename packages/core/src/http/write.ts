import { ConfigError, findStale, type StaleTokenError } from '../errors.ts';

/** The requests of one write. It is over when its body has settled and every request was answered. */
export class Write {
  readonly #send: typeof fetch;
  readonly #open = new Map<Promise<Response>, Promise<Response>>();
  #made = 0;
  #isOver = false;
  #stale: StaleTokenError | undefined;

  constructor(send: typeof fetch) {
    this.#send = send;
  }

  /**
   * Rejects with what the body threw; otherwise with a refusal that the body did not care about, or with the failure of a
   * request that it did not wait for.
   */
  async run<T>(body: (send: typeof fetch) => T | Promise<T>): Promise<T> {
    let value: T;
    try {
      value = await body((input, init) => this.#request(input, init));
    } catch (error) {
      await this.#end();
      throw error;
    }
    const failure = await this.#end();
    if (this.#stale !== undefined) throw this.#stale;
    if (failure !== undefined) throw failure.reason;
    if (this.#made === 0) {
      throw new ConfigError(
        'body',
        'sent no request with the fetch that it was given; use that one, or activate to ask the fence alone',
      );
    }
    return value;
  }

  #request(...args: Parameters<typeof fetch>): Promise<Response> {
    if (this.#isOver) {
      const error = new ConfigError(
        'fetch',
        'this write is over; use its fetch only inside its body, and await all of it',
      );
      return Promise.reject(error);
    }
    this.#made++;
    const request = this.#send(...args);
    // A promise of its own for the body: one that it forgets is reported, as it would be anywhere else.
    const given = request.then((response) => response);
    this.#open.set(request, given);
    request.then(
      () => this.#open.delete(request),
      (error: unknown) => {
        this.#open.delete(request);
        this.#stale ??= findStale(error);
      },
    );
    return given;
  }

  /** Waits for what is still open; gives the first failure. */
  async #end(): Promise<PromiseRejectedResult | undefined> {
    this.#isOver = true;
    // These are reported by the write itself.
    const settled = await Promise.allSettled(this.#open.values());
    return settled.find((each) => each.status === 'rejected');
  }
}
