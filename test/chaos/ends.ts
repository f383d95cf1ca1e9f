/** What was opened, ended in the opposite order: `AsyncDisposableStack`, which Node 20 has not. */
export class Ends implements AsyncDisposable {
  readonly #ends: (() => Promise<unknown> | void)[] = [];

  use<T extends AsyncDisposable | Disposable>(thing: T): T {
    this.defer(() => {
      if (Symbol.asyncDispose in thing) return Promise.resolve(thing[Symbol.asyncDispose]());
      return thing[Symbol.dispose]();
    });
    return thing;
  }

  defer(end: () => Promise<unknown> | void): void {
    this.#ends.push(end);
  }

  /** Ends all, also when one of them fails; then it rejects with the first failure. */
  async [Symbol.asyncDispose](): Promise<void> {
    const failures: unknown[] = [];
    for (const end of this.#ends.splice(0).toReversed()) {
      try {
        await end();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
