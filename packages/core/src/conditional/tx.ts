import { ConfigError } from '../errors.ts';
import { show } from '../show.ts';

/** What the body of a write sees of the protected value. */
export interface ConditionalTx<V> {
  /** The value under the body's own change; null if nothing was set yet. To be replaced by `set`, not to be changed in place. */
  readonly value: V | null;
  /**
   * Stored when the body has settled, if the grant is still admitted and nobody else was faster. The last call counts. Plain
   * data: `ConfigError` for undefined, a function, a symbol or a bigint.
   */
  set(value: V | null): void;
}

/** One run of a body. */
export class Run<V> implements ConditionalTx<V> {
  isChanged = false;
  #value: V | null;
  #isOver = false;

  constructor(value: V | null) {
    this.#value = value;
  }

  async run<T>(body: (tx: ConditionalTx<V>) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } finally {
      this.#isOver = true;
    }
  }

  get value(): V | null {
    return this.#value;
  }

  set(value: V | null): void {
    if (this.#isOver) {
      throw new ConfigError('tx', 'this write is over; use tx only inside its body, and await all of it');
    }
    if (value === undefined) throw new ConfigError('tx.set', 'got undefined; null stands for no value');
    if (typeof value === 'function' || typeof value === 'symbol' || typeof value === 'bigint') {
      throw new ConfigError('tx.set', `got ${show(value)}: must be plain data`);
    }
    this.isChanged = true;
    this.#value = value;
  }
}
