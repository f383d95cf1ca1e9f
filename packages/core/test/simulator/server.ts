import type { Clock, Timer } from '../../src/clock.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import { START_MS } from './process.ts';
import type { World } from './world.ts';

/** The clock of a server. It is never stopped. */
export class ServerClock implements Clock {
  readonly #world: World;
  readonly #rate: number;
  #wallUs = START_MS * 1000;

  constructor(world: World, rate: number) {
    this.#world = world;
    this.#rate = rate;
  }

  stepWall(ms: number): void {
    this.#wallUs += ms * 1000;
  }

  monotonicMs(): number {
    return (this.#world.nowUs * this.#rate) / 1000;
  }

  wallMs(): number {
    return Math.floor(this.wallUs() / 1000);
  }

  wallUs(): number {
    return Math.floor(this.#wallUs + this.#world.nowUs * this.#rate);
  }

  uptimeMs(): number {
    return this.monotonicMs();
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    const pending = this.#world.at(this.#world.nowUs + (delayMs * 1000) / this.#rate, undefined, fire);
    return { clear: () => pending.cancel() };
  }
}

/** The store itself: the memory store, at the far end of every link. */
export class StoreServer {
  readonly clock: ServerClock;
  readonly memory: MemoryLeaseStore;
  readonly #world: World;
  /** How many requests had to wait. */
  stalled = 0;
  #stalledUntilUs = 0;

  constructor(world: World, rate: number) {
    this.#world = world;
    this.clock = new ServerClock(world, rate);
    this.memory = new MemoryLeaseStore({ clock: this.clock, prefix: 'sim' });
  }

  /** Answers nothing for so long; what came meanwhile is carried out then. */
  stall(forUs: number): void {
    this.#stalledUntilUs = Math.max(this.#stalledUntilUs, this.#world.nowUs + forUs);
  }

  serve(work: () => Promise<void>): void {
    if (this.#stalledUntilUs > this.#world.nowUs) {
      this.stalled++;
      this.#world.at(this.#stalledUntilUs, undefined, () => this.serve(work));
      return;
    }
    work().catch((error: unknown) => this.#world.problems.push(`the store server failed: ${String(error)}`));
  }
}
