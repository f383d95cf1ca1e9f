// What it costs a process to keep many leases.
import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

import { holding } from '../../peers/adapters/library.ts';
import { libraryNamed } from '../../peers/libraries.ts';
import { measured, nowUs, type Measured, type Side } from '../side.ts';

export interface HeldSetup {
  readonly url: string;
  readonly count: number;
  readonly ttlMs: number;
  /** In which all are acquired, and extended once: a third of the ttl. */
  readonly roundMs: number;
  /** `floor`, `leasehold` or the name of a library. */
  readonly variant: string;
}

export interface Kept extends Measured {
  readonly delayP99Ms: number;
}

export interface Counted {
  /** Since they were acquired; null where the store does not tell. */
  readonly extensions: number | null;
  /** On the clock that processes share. */
  readonly atUs: number;
}

/** How many are acquired or extended at once. */
const BATCH = 500;

interface Keeper {
  /** Acquires all, spread over a third of the ttl as they would be in life. */
  hold(): Promise<void>;
  /** Since the start, by what the store has. Null: it is not told. */
  extensions(): Promise<number> | null;
  drop(): Promise<void>;
  close(): Promise<unknown> | void;
}

/** So many in each batch, the batches at even distances. */
async function inBatches(setup: HeldSetup, batch: (from: number, to: number) => Promise<unknown>): Promise<void> {
  const pauseMs = setup.roundMs / Math.ceil(setup.count / BATCH);
  for (let from = 0; from < setup.count; from += BATCH) {
    await batch(from, Math.min(setup.count, from + BATCH));
    await sleep(pauseMs);
  }
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, index) => from + index);

/** Owner-checked extensions, 500 in one script, each lease once in a third of the ttl. */
class Floor implements Keeper {
  readonly #setup: HeldSetup;
  readonly #client: Redis;
  readonly #keys: readonly string[];
  #extended = 0;
  #isHeld = false;
  #over: Promise<void> = Promise.resolve();

  constructor(setup: HeldSetup) {
    this.#setup = setup;
    this.#client = new Redis(setup.url);
    this.#client.defineCommand('extendMany', {
      lua: `local n = 0 for i = 1, #KEYS do if redis.call('GET', KEYS[i]) == ARGV[1] then
        redis.call('PEXPIRE', KEYS[i], ARGV[2]) n = n + 1 end end return n`,
    });
    this.#keys = range(0, setup.count).map((index) => `floor:${setup.count}:${index}`);
  }

  async hold(): Promise<void> {
    const { ttlMs } = this.#setup;
    await inBatches(this.#setup, (from, to) =>
      Promise.all(this.#keys.slice(from, to).map((key) => this.#client.set(key, 'mine', 'PX', ttlMs))),
    );
    this.#isHeld = true;
    this.#over = this.#extend();
  }

  async #extend(): Promise<void> {
    const { extendMany } = this.#client as unknown as { extendMany(...args: (string | number)[]): Promise<number> };
    while (this.#isHeld) {
      await inBatches(this.#setup, async (from, to) => {
        if (!this.#isHeld) return;
        const keys = this.#keys.slice(from, to);
        this.#extended += await extendMany.call(this.#client, keys.length, ...keys, 'mine', this.#setup.ttlMs);
      });
    }
  }

  extensions(): Promise<number> {
    return Promise.resolve(this.#extended);
  }

  async drop(): Promise<void> {
    this.#isHeld = false;
    await this.#over;
    await this.#client.unlink(...this.#keys);
  }

  close(): void {
    this.#client.disconnect();
  }
}

class Leasehold implements Keeper {
  readonly #setup: HeldSetup;
  readonly #reader: Redis;
  readonly #leases: LeaseManager;
  #held: Lease[] = [];

  constructor(setup: HeldSetup) {
    this.#setup = setup;
    this.#reader = new Redis(setup.url);
    this.#leases = new LeaseManager({ store: redisStore(setup.url), ttl: setup.ttlMs });
  }

  async hold(): Promise<void> {
    await inBatches(this.#setup, async (from, to) => {
      this.#held.push(...(await Promise.all(range(from, to).map((index) => this.#leases.acquire(`r${index}`)))));
    });
  }

  /** By the records, because a listener for each lease would be part of what is measured. */
  async extensions(): Promise<number> {
    let extensions = 0;
    await inBatchesAtOnce(this.#held, async (part) => {
      const pipeline = this.#reader.pipeline();
      for (const { resource } of part) pipeline.hget(`leasehold:{${resource}}`, 'term');
      for (const [, term] of (await pipeline.exec()) ?? []) extensions += Number((term as string).split(' ')[2]);
    });
    return extensions;
  }

  async drop(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    if (!held.every((lease) => lease.isHeld())) throw new Error('leases were lost');
    await inBatchesAtOnce(held, (part) => Promise.all(part.map((lease) => lease.release())));
  }

  close(): Promise<unknown> {
    this.#reader.disconnect();
    return this.#leases.close();
  }
}

class Library implements Keeper {
  readonly #setup: HeldSetup;
  readonly #opened;
  readonly #holding;
  #held: unknown[] = [];

  constructor(setup: HeldSetup) {
    this.#setup = setup;
    const library = libraryNamed(setup.variant);
    this.#opened = library.open({ url: setup.url, ttlMs: setup.ttlMs, extendEachMs: setup.ttlMs / 3 });
    this.#holding = holding(library, this.#opened);
  }

  async hold(): Promise<void> {
    await inBatches(this.#setup, async (from, to) => {
      const one = (index: number) => this.#holding.acquire(`${this.#setup.variant}:${index}`);
      this.#held.push(...(await Promise.all(range(from, to).map(one))));
    });
  }

  extensions(): null {
    return null;
  }

  async drop(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    await inBatchesAtOnce(held, (part) => Promise.all(part.map((lock) => this.#holding.release(lock))));
  }

  close(): void {
    this.#opened.close();
  }
}

async function inBatchesAtOnce<T>(all: readonly T[], work: (part: readonly T[]) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < all.length; from += BATCH) await work(all.slice(from, from + BATCH));
}

export async function open(setup: HeldSetup): Promise<Side> {
  const keeper =
    setup.variant === 'floor'
      ? new Floor(setup)
      : setup.variant === 'leasehold'
        ? new Leasehold(setup)
        : new Library(setup);
  return {
    hold: () => keeper.hold(),
    async count(): Promise<Counted> {
      const from = nowUs();
      const extensions = await keeper.extensions();
      return { extensions, atUs: (from + nowUs()) / 2 };
    },
    async keep({ ms }: { readonly ms: number }): Promise<Kept> {
      const delay = monitorEventLoopDelay({ resolution: 2 });
      delay.enable();
      const its = await measured(() => sleep(ms));
      delay.disable();
      return { ...its, delayP99Ms: delay.percentile(99) / 1e6 };
    },
    drop: () => keeper.drop(),
    close: async () => void (await keeper.close()),
  };
}
