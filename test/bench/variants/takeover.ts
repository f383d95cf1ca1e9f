// Somebody who holds and is killed, or somebody who waits for what that one held.
import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { setTimeout as sleep } from 'node:timers/promises';

import { libraryNamed } from '../../peers/libraries.ts';
import { nowUs, type Side } from '../side.ts';
import { ByHand, type HeldByHand } from './by-hand.ts';

export interface TakeoverSetup {
  readonly url: string;
  readonly ttlMs: number;
  /** `floor`, `leasehold` or the name of a library. */
  readonly variant: string;
}

interface Taker {
  acquire(resource: string): Promise<unknown>;
  release(lock: unknown): Promise<unknown>;
  close(): Promise<unknown> | void;
}

/** The key whose time to live is that of the lease; null: its library has to be asked. */
export function keyOf(variant: string, resource: string): string | null {
  if (variant === 'leasehold') return null;
  return variant === 'floor' ? `by-hand:${resource}` : libraryNamed(variant).keyOf(resource);
}

/** Asks when the key will be gone, sleeps for so long, and then tries each millisecond. */
class Floor implements Taker {
  readonly #byHand: ByHand;

  constructor(url: string, ttlMs: number) {
    this.#byHand = new ByHand(url, ttlMs);
  }

  async acquire(resource: string): Promise<unknown> {
    const leftMs = await this.#byHand.client.pttl(`by-hand:${resource}`);
    if (leftMs > 0) await sleep(leftMs);
    for (;;) {
      try {
        return await this.#byHand.acquire(resource);
      } catch {
        await sleep(1);
      }
    }
  }

  release(lock: HeldByHand): Promise<unknown> {
    return this.#byHand.release(lock);
  }

  close(): void {
    this.#byHand.close();
  }
}

function takerOf({ url, ttlMs, variant }: TakeoverSetup): Taker {
  if (variant === 'floor') return new Floor(url, ttlMs);
  if (variant !== 'leasehold') return libraryNamed(variant).open({ url, ttlMs });
  const leases = new LeaseManager({ store: redisStore(url), ttl: ttlMs });
  return {
    acquire: (resource) => leases.acquire(resource, { wait: Infinity }),
    release: (lease: Lease) => lease.release(),
    close: () => leases.close(),
  };
}

export async function open(setup: TakeoverSetup): Promise<Side> {
  const taker = takerOf(setup);
  return {
    /** One after the other, so that they do not end together. */
    async hold({ resources, apartMs }: { readonly resources: readonly string[]; readonly apartMs: number }) {
      for (const resource of resources) {
        await taker.acquire(resource);
        await sleep(apartMs);
      }
    },
    /** When each of them was acquired, in µs of the clock that all processes share. */
    async take({ resources }: { readonly resources: readonly string[] }): Promise<number[]> {
      const one = async (resource: string): Promise<number> => {
        const lock = await taker.acquire(resource);
        const takenUs = nowUs();
        await taker.release(lock);
        return takenUs;
      };
      return Promise.all(resources.map(one));
    },
    close: async () => void (await taker.close()),
  };
}
