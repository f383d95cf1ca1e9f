import { randomBytes } from 'node:crypto';

/** A write, told apart from all others of its grant. */
export interface Numbered {
  /** Of the fence object that numbers. */
  readonly id: string;
  readonly number: number;
  /** The lowest number before the same fence that waits for its answer; this one, if none does. */
  readonly lowest: number;
}

/** Numbers the writes of one fence object, and knows which of them wait for an answer. */
export class WriteNumbers {
  readonly #id = randomBytes(6).toString('base64url');
  /** By the fence's key, in growing order. */
  readonly #waiting = new Map<string, Set<number>>();
  #last = 0;

  begin(key: string): Numbered {
    const number = ++this.#last;
    const waiting = this.#waiting.get(key) ?? new Set();
    waiting.add(number);
    this.#waiting.set(key, waiting);
    const [lowest = number] = waiting;
    return { id: this.#id, number, lowest };
  }

  /** It has its answer, or nobody waits for one any more. */
  end(key: string, { number }: Numbered): void {
    const waiting = this.#waiting.get(key);
    waiting?.delete(number);
    if (waiting?.size === 0) this.#waiting.delete(key);
  }
}
