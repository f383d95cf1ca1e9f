import type { Lease, LeaseManager } from '@leasehold/core';

import type { AnyJobHandler, JobContext } from '../context.ts';
import { HandlerThread } from './handler-thread.ts';
import { LeaseWindow } from './lease-window.ts';
import type { ThreadData } from './messages.ts';

/**
 * A handler in threads of its own, one for each run that goes on; those that are free are kept for the next. Whatever it does, the leases of this
 * process are extended meanwhile, and it can be ended.
 */
export class IsolatedHandler {
  /** Stands for it. */
  readonly handler: AnyJobHandler = (context: JobContext) => this.#run(context);
  readonly #data: ThreadData;
  readonly #free: HandlerThread[] = [];
  readonly #held = new Map<LeaseWindow, Lease>();

  constructor(data: ThreadData, manager: LeaseManager) {
    this.#data = data;
    manager.on('extended', ({ leaseId }) => {
      for (const [window, lease] of this.#held) if (lease.leaseId === leaseId) window.publish(lease.remainingMs());
    });
  }

  /** Ends the threads that are free. */
  async close(): Promise<void> {
    await Promise.all(this.#free.splice(0).map((thread) => thread.terminate()));
  }

  async #run(context: JobContext): Promise<unknown> {
    const { lease, signal } = context;
    const window = new LeaseWindow();
    // What is lost is not trusted any more; what is cancelled is.
    const publish = (): void => window.publish(lease.remainingMs());
    publish();
    this.#held.set(window, lease);
    signal.addEventListener('abort', publish);
    const thread = this.#take();
    try {
      return await thread.run(context, window);
    } finally {
      signal.removeEventListener('abort', publish);
      this.#held.delete(window);
      if (thread.isUsable) this.#free.push(thread);
    }
  }

  #take(): HandlerThread {
    for (;;) {
      const thread = this.#free.pop();
      if (thread === undefined) return new HandlerThread(this.#data);
      if (thread.isUsable) return thread;
    }
  }
}
