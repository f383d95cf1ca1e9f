/** An instant by two clocks that all threads and processes of a machine have in common, in microseconds. */
export type Until = readonly [monotonicUs: bigint, wallUs: bigint];

/** What a window is made from elsewhere: the memory itself, or what stood in it. */
export type WindowSource = SharedArrayBuffer | Until;

/**
 * Until when a lease may be trusted, for the one that keeps it and the one that works under it. Threads share the memory: what is written on
 * each extension is read without waiting, so it is right also while one of the two is blocked. Between processes it is sent: one that is blocked
 * knows of no extension since, so it trusts the lease too short, never too long. By the monotonic clock, and by the wall clock for a machine
 * that slept.
 */
export class LeaseWindow {
  readonly buffer: SharedArrayBuffer;
  readonly #untilUs: BigInt64Array;

  constructor(source: WindowSource = new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT)) {
    const isShared = source instanceof SharedArrayBuffer;
    this.buffer = isShared ? source : new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT);
    this.#untilUs = new BigInt64Array(this.buffer);
    if (!isShared) this.until = source;
  }

  get until(): Until {
    return [Atomics.load(this.#untilUs, 0), Atomics.load(this.#untilUs, 1)];
  }

  set until([monotonic, wall]: Until) {
    Atomics.store(this.#untilUs, 0, monotonic);
    Atomics.store(this.#untilUs, 1, wall);
  }

  publish(remainingMs: number): void {
    const remainingUs = BigInt(Math.floor(remainingMs * 1000));
    this.until = [monotonicUs() + remainingUs, wallUs() + remainingUs];
  }

  remainingMs(): number {
    const [untilMonotonic, untilWall] = this.until;
    const monotonic = untilMonotonic - monotonicUs();
    const wall = untilWall - wallUs();
    return Math.max(0, Number(monotonic < wall ? monotonic : wall) / 1000);
  }
}

function monotonicUs(): bigint {
  return process.hrtime.bigint() / 1000n;
}

function wallUs(): bigint {
  return BigInt(Date.now()) * 1000n;
}
