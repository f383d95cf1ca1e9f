// Many who wait for one resource, in one process with one manager or one connection: each asks again as soon as its turn has ended.
import { LeaseManager, type AcquireReply, type AcquireRequest, type Lease, type StoreCall } from '@leasehold/core';
import { RedisLeaseStore } from '@leasehold/core/redis';
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
  /** Five for each turn: client, asked, known to stand in the queue (NaN if there was none), begun, ended. */
  readonly turns: Float64Array;
}

interface Asker {
  acquire(resource: string): Promise<unknown>;
  /** When the store said that this one stands in its queue, if it has one. */
  queuedAt?(lock: unknown): number | undefined;
  release(lock: unknown): Promise<unknown>;
  close(): Promise<unknown> | void;
}

/** Remembers when each leaseId was first told of its place. */
class QueueingStore extends RedisLeaseStore {
  readonly queuedAt = new Map<string, number>();

  override async acquire(request: AcquireRequest, call: StoreCall): Promise<AcquireReply> {
    const reply = await super.acquire(request, call);
    const { leaseId } = request;
    if (reply.kind === 'queued' && !this.queuedAt.has(leaseId)) this.queuedAt.set(leaseId, nowUs());
    return reply;
  }
}

function askerOf({ url, variant }: ScaleWaitersSetup): Asker {
  if (variant !== 'leasehold') return libraryNamed(variant).open({ url, ttlMs: 30_000 });
  const store = new QueueingStore(url);
  const leases = new LeaseManager({ store });
  return {
    acquire: (resource) => leases.acquire(resource, { wait: Infinity }),
    queuedAt({ leaseId }: Lease) {
      const at = store.queuedAt.get(leaseId);
      store.queuedAt.delete(leaseId);
      return at;
    },
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
          turns.push(client, asked, asker.queuedAt?.(lock) ?? NaN, begun, ended);
        }
      };
      const its = await measured(() => Promise.all(clients.map(loop)));
      return { ...its, turns: Float64Array.from(turns) };
    },
    close: async () => void (await asker.close()),
  };
}
