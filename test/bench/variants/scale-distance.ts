// A process far from its Redis: how long each call takes, and how short a lease can be.
import { LeaseManager } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';

import { median } from '../numbers.ts';
import type { Side } from '../side.ts';

export interface ScaleDistanceSetup {
  readonly url: string;
}

export interface Calls {
  readonly pingUs: number;
  readonly acquireUs: number;
  readonly releaseUs: number;
}

export interface Endurance {
  readonly ttlMs: number;
  /** Could not be acquired. */
  readonly refused: number;
  readonly lost: number;
  readonly unanswered: number;
}

export interface Enduring {
  readonly ttls: readonly number[];
  readonly leases: number;
  readonly ms: number;
}

export async function open({ url }: ScaleDistanceSetup): Promise<Side> {
  const client = new Redis(url);
  const leases = new LeaseManager({ store: redisStore(url) });
  let names = 0;

  async function endure(ttlMs: number, count: number, ms: number): Promise<Endurance> {
    const its = new LeaseManager({ store: redisStore(url), ttl: ttlMs, logger: silent });
    let [refused, lost, unanswered] = [0, 0, 0];
    its.on('lost', () => lost++);
    its.on('extendFailed', () => unanswered++);
    // The first connection takes several round trips.
    await its.inspect('nothing').catch(() => null);
    const names = Array.from({ length: count }, (_, index) => `${ttlMs}-${index}`);
    const held = await Promise.all(names.map((name) => its.acquire(name).catch(() => void refused++)));
    await sleep(ms);
    const result = { ttlMs, refused, lost, unanswered };
    await Promise.all(held.map(async (lease) => lease?.release()));
    await its.close({ grace: 0 });
    return result;
  }

  return {
    async calls({ count }: { readonly count: number }): Promise<Calls> {
      const [ping, acquire, release]: [number[], number[], number[]] = [[], [], []];
      const timed = async <T>(into: number[], work: Promise<T>): Promise<T> => {
        const from = performance.now();
        const result = await work;
        into.push((performance.now() - from) * 1000);
        return result;
      };
      // Connected, and the scripts are known.
      await client.ping();
      await (await leases.acquire('first')).release();
      for (let index = 0; index < count; index++) {
        await timed(ping, client.ping());
        const lease = await timed(acquire, leases.acquire(`call-${names++}`));
        await timed(release, lease.release());
      }
      return { pingUs: median(ping), acquireUs: median(acquire), releaseUs: median(release) };
    },
    endure: ({ ttls, leases, ms }: Enduring): Promise<Endurance[]> =>
      Promise.all(ttls.map((ttlMs) => endure(ttlMs, leases, ms))),
    async close(): Promise<void> {
      client.disconnect();
      await leases.close({ grace: 0 });
    },
  };
}

/** So short a ttl is warned of. */
const silent = { debug() {}, info() {}, warn() {}, error() {} };
