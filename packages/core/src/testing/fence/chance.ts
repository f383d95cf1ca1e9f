/** Numbers that look random and are the same for the same seed (mulberry32). */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** 0 to `limit` - 1. */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  }

  branch(): Chance {
    return new Chance(this.below(2 ** 31));
  }

  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

/** The variable that sets the seed of a run, to see it again. */
const VARIABLE = 'LEASEHOLD_SUITE_SEED';

/** Runs `work` with a seed of its own, which is added to whatever it throws. */
export async function withSeed(work: (chance: Chance) => Promise<void>): Promise<void> {
  const seed = Number(process.env[VARIABLE] ?? Math.floor(Math.random() * 2 ** 31));
  try {
    await work(new Chance(seed));
  } catch (error) {
    if (error instanceof Error) error.message += `\nthe same choices again: ${VARIABLE}=${seed}`;
    throw error;
  }
}
