import type { Lease, LeaseManager } from '@leasehold/core';

import type { AnyJobHandler, JobContext } from '../context.ts';
import { HandlerPlace } from './handler-place.ts';
import { LeaseWindow } from './lease-window.ts';
import type { HandlerData } from './messages.ts';
import type { Peer } from './peer.ts';
import { ProcessPeer } from './process-peer.ts';
import { ThreadPeer } from './thread-peer.ts';

/**
 * A handler in threads or processes of its own, one for each run that goes on; those that are free are kept for the next. Whatever it does, the
 * leases of this process are extended meanwhile, and it can be ended.
 */
export class IsolatedHandler {
  /** Stands for it. */
  readonly handler: AnyJobHandler = (context: JobContext) => this.#run(context);
  readonly #kind: Peer['kind'];
  readonly #data: HandlerData;
  readonly #free: HandlerPlace[] = [];
  /** What tells the places of runs how long their leases may be trusted. */
  readonly #held = new Map<() => void, Lease>();

  constructor(kind: Peer['kind'], data: HandlerData, manager: LeaseManager) {
    this.#kind = kind;
    this.#data = data;
    manager.on('extended', ({ leaseId }) => {
      for (const [publish, lease] of this.#held) if (lease.leaseId === leaseId) publish();
    });
  }

  /** Ends those that are free. */
  async close(): Promise<void> {
    await Promise.all(this.#free.splice(0).map((place) => place.terminate()));
  }

  async #run(context: JobContext): Promise<unknown> {
    const { lease, signal } = context;
    const window = new LeaseWindow();
    const place = this.#take();
    // What is lost is not trusted any more; what is cancelled is.
    const publish = (): void => {
      window.publish(lease.remainingMs());
      place.share(window);
    };
    window.publish(lease.remainingMs());
    this.#held.set(publish, lease);
    signal.addEventListener('abort', publish);
    try {
      return await place.run(context, window);
    } finally {
      signal.removeEventListener('abort', publish);
      this.#held.delete(publish);
      if (place.isUsable) this.#free.push(place);
    }
  }

  #start(): Peer {
    return this.#kind === 'thread' ? new ThreadPeer(this.#data) : new ProcessPeer(this.#data);
  }

  #take(): HandlerPlace {
    for (;;) {
      const place = this.#free.pop();
      if (place === undefined) return new HandlerPlace(this.#start());
      if (place.isUsable) return place;
    }
  }
}
