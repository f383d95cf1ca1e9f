// Bytes of heap that a held lease takes: with `--expose-gc`, or they are not exact.
import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

import { holding, inside } from '../../peers/adapters/library.ts';
import { libraryNamed } from '../../peers/libraries.ts';
import { heapUsed } from '../heap-used.ts';
import type { Side } from '../side.ts';
import { ByHand } from './by-hand.ts';

export interface HeapSetup {
  readonly url: string;
  /** `floor`, `acquire`, `run` or the name of a library. */
  readonly variant: string;
  readonly count: number;
}

/** So long that nothing is extended meanwhile. */
const TTL_MS = 600_000;
const AT_ONCE = 250;

interface Holder {
  acquire(name: string): Promise<unknown>;
  release(lock: unknown): Promise<unknown>;
  close(): Promise<unknown> | void;
}

function holderOf({ url, variant }: HeapSetup): Holder {
  if (variant === 'floor') return new ByHand(url, TTL_MS);
  if (variant !== 'acquire' && variant !== 'run') {
    const library = libraryNamed(variant);
    const opened = library.open({ url, ttlMs: TTL_MS, extendEachMs: TTL_MS / 3 });
    const { acquire, release } = holding(library, opened);
    return { acquire: (name) => acquire(`${variant}:${name}`), release, close: () => opened.close() };
  }
  const leases = new LeaseManager({ store: redisStore(url), ttl: TTL_MS });
  const close = () => leases.close();
  if (variant === 'run') return { ...inside((name, work) => leases.run(name, work)), close };
  return { acquire: (name) => leases.acquire(name), release: (lease: Lease) => lease.release(), close };
}

export async function open(setup: HeapSetup): Promise<Side> {
  const holder = holderOf(setup);
  let rounds = 0;
  return {
    async hold(): Promise<number> {
      const round = rounds++;
      const held: unknown[] = Array.from({ length: setup.count });
      const before = await heapUsed();
      for (let from = 0; from < setup.count; from += AT_ONCE) {
        const some = Array.from({ length: Math.min(AT_ONCE, setup.count - from) }, (_, index) =>
          holder.acquire(`${round}:${from + index}`),
        );
        for (const [index, lock] of (await Promise.all(some)).entries()) held[from + index] = lock;
      }
      const bytes = ((await heapUsed()) - before) / setup.count;
      for (let from = 0; from < setup.count; from += AT_ONCE)
        await Promise.all(held.slice(from, from + AT_ONCE).map((lock) => holder.release(lock)));
      return bytes;
    },
    close: async () => void (await holder.close()),
  };
}
