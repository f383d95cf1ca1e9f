import type { Clock, Timer } from './clock.ts';

/** What can lie in a `Wheel`: the wheel keeps its place in `slot`, which belongs to it. */
export interface Slotted {
  /** -1 while in no wheel. */
  slot: number;
}

/**
 * Many deadlines, one timer. Setting and clearing a timer for each lease and each call costs more than the rest of them,
 * so deadlines are put into slots of `grainMs`; the timer is armed for the earliest slot, and neither cleared nor armed
 * again when an item leaves.
 *
 * Items are due at most one grain late, and never early unless `takeDue` asks ahead.
 */
export class Wheel<T extends Slotted> {
  readonly #slots = new Map<number, Set<T>>();
  readonly #clock: Clock;
  readonly #grainMs: number;
  readonly #onDue: () => void;
  #timer: Timer | undefined;
  #armedSlot = Infinity;

  /** `onDue` takes what is due with `takeDue`; it must not throw. The timer does not keep the process alive. */
  constructor(clock: Clock, grainMs: number, onDue: () => void) {
    this.#clock = clock;
    this.#grainMs = grainMs;
    this.#onDue = onDue;
  }

  /** `dueMs` by the clock's `monotonicMs`. An item already in the wheel is moved. */
  put(item: T, dueMs: number): void {
    this.remove(item);
    const slot = Math.ceil(dueMs / this.#grainMs);
    item.slot = slot;
    const items = this.#slots.get(slot);
    if (items === undefined) this.#slots.set(slot, new Set([item]));
    else items.add(item);
    if (slot < this.#armedSlot) this.#arm(slot);
  }

  remove(item: T): void {
    if (item.slot < 0) return;
    const items = this.#slots.get(item.slot);
    item.slot = -1;
    items?.delete(item);
    // An empty slot stays until the timer fires: a run that comes and goes leaves the timer as it was.
  }

  /** The first item that fits. Looks at each: for rare occasions. */
  find(fits: (item: T) => boolean): T | undefined {
    for (const items of this.#slots.values()) for (const item of items) if (fits(item)) return item;
    return undefined;
  }

  /** Removes and returns all that is due now or within `aheadMs`. */
  takeDue(aheadMs = 0): T[] {
    const now = (this.#clock.monotonicMs() + aheadMs) / this.#grainMs;
    const due: T[] = [];
    for (const [slot, items] of this.#slots) {
      if (slot > now) continue;
      this.#slots.delete(slot);
      for (const item of items) {
        item.slot = -1;
        due.push(item);
      }
    }
    return due;
  }

  #arm(slot: number): void {
    this.#timer?.clear();
    this.#armedSlot = slot;
    const delay = slot * this.#grainMs - this.#clock.monotonicMs();
    this.#timer = this.#clock.setTimer(delay, () => this.#fire(), { ref: false });
  }

  #fire(): void {
    this.#timer = undefined;
    this.#armedSlot = Infinity;
    this.#onDue();
    let next = Infinity;
    for (const [slot, items] of this.#slots) {
      if (items.size === 0) this.#slots.delete(slot);
      else if (slot < next) next = slot;
    }
    // `onDue` may have put items, and armed the timer for the earliest of those.
    if (next < this.#armedSlot) this.#arm(next);
  }
}
