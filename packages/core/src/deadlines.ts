import type { Clock } from './clock.ts';
import { Wheel, type Slotted } from './wheel.ts';

/** A call that must settle by a deadline. */
export interface Due extends Slotted {
  /** Called once when its time has come; perhaps after it was removed, in the turn between, so it must do nothing if it has settled. */
  expire(): void;
}

/**
 * The deadlines of all calls of a client, on one timer. They are acted upon one turn of the event loop after their
 * timer: Node runs timers before it looks at sockets, and a reply that has arrived while the loop was blocked must win.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #wheel: Wheel<Due>;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#wheel = new Wheel<Due>(clock, 5, () => {
      const due = this.#wheel.takeDue();
      if (due.length > 0) setImmediate(() => expire(due));
    });
  }

  /** Returns the time, by the monotonic clock. */
  put(call: Due, timeoutMs: number): number {
    const nowMs = this.#clock.monotonicMs();
    this.#wheel.put(call, nowMs + timeoutMs);
    return nowMs;
  }

  remove(call: Due): void {
    this.#wheel.remove(call);
  }

  /** Expires all that is left. */
  expireAll(): void {
    expire(this.#wheel.takeDue(Infinity));
  }
}

function expire(due: readonly Due[]): void {
  for (const call of due) call.expire();
}
