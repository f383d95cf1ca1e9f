// Many who wait for one resource, in one process with one manager or one connection: each asks again as soon as its turn has ended.
import { LeaseManager, type Lease } from '@leasehold/core';
import { redisStore } from '@leasehold/core/redis';
import { setTimeout as sleep } from 'node:timers/promises';

import { libraryNamed } from '../../peers/libraries.ts';
import { measured, nowUs, type Measured, type Side } from '../side.ts';

export interface ScaleWaitersSetup {
  readonly url: string;
  /** `leasehold` or the name of a library. */
  readonly variant: string;
}

export interface Crowd {
  readonly resource: string;
  /** Numbers of those who are here. */
  readonly clients: readonly number[];
  /** By the clock that processes share, µs. */
  readonly until: number;
  /** How long each turn is. */
  readonly holdMs: number;
}

export interface Turns extends Measured {
  /** Four for each turn: client, asked, begun, ended; µs since `from`. */
  readonly turns: Float64Array;
}

interface Asker {
  acquire(resource: string): Promise<unknown>;
  release(lock: unknown): Promise<unknown>;
  close(): Promise<unknown> | void;
}

function askerOf({ url, variant }: ScaleWaitersSetup): Asker {
  if (variant !== 'leasehold') return libraryNamed(variant).open({ url, ttlMs: 30_000 });
  const leases = new LeaseManager({ store: redisStore(url) });
  return {
    acquire: (resource) => leases.acquire(resource, { wait: Infinity }),
    release: (lease: Lease) => lease.release(),
    close: () => leases.close({ grace: 0 }),
  };
}

export async function open(setup: ScaleWaitersSetup): Promise<Side> {
  const asker = askerOf(setup);
  return {
    async contend({ resource, clients, until, holdMs }: Crowd): Promise<Turns> {
      const turns: number[] = [];
      const loop = async (client: number): Promise<void> => {
        while (nowUs() < until) {
          const asked = nowUs();
          const lock = await asker.acquire(resource);
          const begun = nowUs();
          if (holdMs > 0) await sleep(holdMs);
          const ended = nowUs();
          await asker.release(lock);
          turns.push(client, asked, begun, ended);
        }
      };
      const its = await measured(() => Promise.all(clients.map(loop)));
      return { ...its, turns: Float64Array.from(turns) };
    },
    close: async () => void (await asker.close()),
  };
}
