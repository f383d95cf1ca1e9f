import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '../clock.ts';
import { ConfigError, FenceUnavailableError } from '../errors.ts';
import type { Grant } from './fence.ts';

/** A place in a queue. */
interface Place {
  /** When all before it have ended. */
  readonly ready: Promise<void>;
  /** Whether there was nobody before it. */
  readonly isFirst: boolean;
  end(): void;
}

/** Queues by name, in the memory of this process. */
export class Queues {
  readonly #last = new Map<string, Promise<void>>();

  take(name: string): Place {
    const before = this.#last.get(name);
    const ready = before ?? Promise.resolve();
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    // Also for those behind one that has left early, everybody before it has ended first.
    const last = ready.then(() => ended);
    this.#last.set(name, last);
    void last.then(() => {
      if (this.#last.get(name) === last) this.#last.delete(name);
    });
    return { ready, isFirst: before === undefined, end };
  }
}

interface Running {
  /** Of which fence. */
  readonly turns: Turns;
  readonly name: string;
  readonly around: Running | undefined;
  isOver: boolean;
}

/**
 * The write that this code runs in. One for all fences: until Node 24 every promise of the process costs a little more for
 * each such storage that was ever used, also for those that nobody has any more.
 */
const inside = new AsyncLocalStorage<Running>();

/**
 * Lets the writes of one grant run one after the other within this process, so that none of them has to do its work
 * again for a sibling's sake. A newer grant never waits for an older one's body.
 */
export class Turns {
  readonly #fence: string;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #queues = new Queues();

  /** Of the fence of that name. A write waits `timeoutMs` for its turn and no longer: the body before it may never settle. */
  constructor(fence: string, clock: Clock, timeoutMs: number) {
    this.#fence = fence;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Rejects with `ConfigError` inside a write of the same grant, which would wait for itself; and with `FenceUnavailableError`. */
  async run<T>({ resource, fencingToken, leaseId }: Grant, write: () => Promise<T>): Promise<T> {
    const name = `${fencingToken} ${leaseId} ${resource}`;
    const around = inside.getStore();
    for (let at = around; at !== undefined; at = at.around) {
      if (at.turns !== this || at.name !== name || at.isOver) continue;
      throw new ConfigError('write', 'inside a write of the same lease would wait for it; use the tx of that write');
    }
    const place = this.#queues.take(name);
    if (!place.isFirst && !(await this.#isReady(place))) {
      place.end();
      const why = `another write of this lease is still in its body; ${this.#timeoutMs} ms are over`;
      throw new FenceUnavailableError(resource, this.#fence, why, undefined, 'not-written');
    }
    const running: Running = { turns: this, name, around, isOver: false };
    try {
      return await inside.run(running, write);
    } finally {
      running.isOver = true;
      place.end();
    }
  }

  /** False if its turn does not come in time. */
  #isReady({ ready }: Place): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(this.#timeoutMs, () => resolve(false), { ref: true });
      void ready.then(() => {
        timer.clear();
        resolve(true);
      });
    });
  }
}
