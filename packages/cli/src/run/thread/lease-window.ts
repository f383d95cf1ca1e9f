/**
 * Until when a lease may be trusted, in memory that the thread that keeps it and the one that works under it share. Written on each extension;
 * read without waiting, so it is right also while one of the two is blocked. By two clocks that all threads of a process have in common:
 * the monotonic one, and the wall clock for a machine that slept.
 */
export class LeaseWindow {
  readonly buffer: SharedArrayBuffer;
  readonly #untilUs: BigInt64Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#untilUs = new BigInt64Array(buffer);
  }

  publish(remainingMs: number): void {
    const remainingUs = BigInt(Math.floor(remainingMs * 1000));
    Atomics.store(this.#untilUs, 0, monotonicUs() + remainingUs);
    Atomics.store(this.#untilUs, 1, wallUs() + remainingUs);
  }

  remainingMs(): number {
    const monotonic = Atomics.load(this.#untilUs, 0) - monotonicUs();
    const wall = Atomics.load(this.#untilUs, 1) - wallUs();
    return Math.max(0, Number(monotonic < wall ? monotonic : wall) / 1000);
  }
}

function monotonicUs(): bigint {
  return process.hrtime.bigint() / 1000n;
}

function wallUs(): bigint {
  return BigInt(Date.now()) * 1000n;
}
