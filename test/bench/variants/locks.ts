// One way to lock, many times. Whoever it is of, it is called in the same way.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';

import { libraryNamed } from '../../peers/libraries.ts';
import { inFlight, measured, type Measured, type Side } from '../side.ts';
import { BareScripts } from './bare-scripts.ts';
import { ByHand } from './by-hand.ts';
import { LeastFencing, type LeastKind } from './least-fencing.ts';

export interface LocksSetup {
  readonly url: string;
  readonly way:
    | 'floor'
    | 'floor, auto-pipelining'
    | 'bare scripts'
    | 'least'
    | 'acquire'
    | 'run'
    | 'peer'
    | 'peer using';
  readonly library?: string;
  /** Of `least`. */
  readonly least?: LeastKind;
}

export interface LocksSlice {
  readonly count: number;
  readonly width: number;
}

interface Way {
  once(place: number): Promise<unknown>;
  close(): Promise<unknown> | void;
}

export async function open(setup: LocksSetup): Promise<Side> {
  const way = await wayOf(setup);
  return {
    async slice({ count, width }: LocksSlice): Promise<Measured & { p50Us: number; p99Us: number }> {
      const tookUs: number[] = [];
      const its = await measured(() => inFlight(width, count, way.once, tookUs));
      tookUs.sort((a, b) => a - b);
      const at = (part: number): number => tookUs[Math.floor(tookUs.length * part)] ?? 0;
      return { ...its, p50Us: at(0.5), p99Us: at(0.99) };
    },
    close: async () => void (await way.close()),
  };
}

async function wayOf({ url, way, library = '', least = 'two keys' }: LocksSetup): Promise<Way> {
  switch (way) {
    case 'floor':
    case 'floor, auto-pipelining': {
      const byHand = new ByHand(url, 30_000, way !== 'floor');
      return { once: async (place) => byHand.release(await byHand.acquire(`${place}`)), close: () => byHand.close() };
    }
    case 'bare scripts': {
      const bare = await BareScripts.open(url);
      return { once: (place) => bare.pair(`${place}`), close: () => bare.close() };
    }
    case 'least': {
      const its = new LeastFencing(url, least);
      return { once: (place) => its.pair(`${place}`), close: () => its.close() };
    }
    case 'acquire': {
      const leases = new LeaseManager({ store: redisStore(url) });
      return { once: async (place) => (await leases.acquire(`r${place}`)).release(), close: () => leases.close() };
    }
    case 'run': {
      const leases = new LeaseManager({ store: redisStore(url) });
      return { once: (place) => leases.run(`r${place}`, () => place), close: () => leases.close() };
    }
    case 'peer': {
      const opened = libraryNamed(library).open({ url, ttlMs: 30_000 });
      return {
        once: async (place) => opened.release(await opened.acquire(`peer:${library}:${place}`)),
        close: () => opened.close(),
      };
    }
    case 'peer using': {
      const { using, close } = libraryNamed(library).open({ url, ttlMs: 30_000 });
      if (using === undefined) throw new Error(`${library} has no using`);
      return { once: (place) => using(`peer:${library}:${place}`, async () => place), close };
    }
  }
}
