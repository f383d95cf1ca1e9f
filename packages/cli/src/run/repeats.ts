import { performance } from 'node:perf_hooks';

import type { Logger } from '@leasehold/core';

/** The same trouble is told again after this time. */
const TELL_AGAIN_MS = 5000;

interface Told {
  readonly at: number;
  /** How often it was kept back since. */
  readonly repeats: number;
}

/** Keeps trouble that lasts from filling the log: each kind is told once in 5 s, with the number of times it was not told. */
export class Repeats {
  readonly #now: () => number;
  readonly #told = new Map<string, Told>();

  /** `now` is monotonic, milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** How often this was kept back since it was told last, if it is to be told now; undefined if it is not. */
  tell(trouble: string): number | undefined {
    const now = this.#now();
    const last = this.#told.get(trouble);
    if (last !== undefined && now - last.at < TELL_AGAIN_MS) {
      this.#told.set(trouble, { ...last, repeats: last.repeats + 1 });
      return undefined;
    }
    // What is over is not remembered: leases come and go.
    for (const [its, { at }] of this.#told) if (now - at >= 2 * TELL_AGAIN_MS) this.#told.delete(its);
    this.#told.set(trouble, { at: now, repeats: 0 });
    return last === undefined || now - last.at >= 2 * TELL_AGAIN_MS ? 0 : last.repeats;
  }
}

/** A logger that is told of the same warning about the same lease once in 5 s; its field `repeats` counts those in between. */
export function withoutRepeats(logger: Logger, repeats: Repeats = new Repeats()): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    error: (fields, message) => logger.error(fields, message),
    warn: (fields, message) => {
      const { leaseId } = fields as { readonly leaseId?: unknown };
      if (typeof leaseId !== 'string') return logger.warn(fields, message);
      const count = repeats.tell(`${leaseId} ${message}`);
      if (count === undefined) return;
      logger.warn(count === 0 ? fields : { ...fields, repeats: count }, message);
    },
  };
}
