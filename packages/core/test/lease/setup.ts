import { LeaseManager, MemoryLeaseStore, type LeaseManagerOptions, type ManagerEvents } from '@leasehold/core';
import { FaultyStore, ManualClock } from '@leasehold/core/testing';

export interface Bench {
  readonly clock: ManualClock;
  readonly memory: MemoryLeaseStore;
  readonly store: FaultyStore;
  readonly manager: LeaseManager;
  /** The names of the manager's events so far, in order, `extended` left out. */
  readonly events: string[];
  /** Another process: a manager of its own on the same data, with nothing in between. */
  other(options?: Partial<LeaseManagerOptions>): LeaseManager;
}

const NAMES: readonly (keyof ManagerEvents)[] = [
  'acquired',
  'busy',
  'tickRefused',
  'extendFailed',
  'cancelled',
  'lost',
  'released',
  'releaseUnconfirmed',
  'rejected',
];

/** A manager on a memory store behind a network that can fail, with a clock that stands still. ttl 3 s, window 2820 ms. */
export function bench(options: Partial<LeaseManagerOptions> = {}): Bench {
  const clock = new ManualClock();
  const memory = new MemoryLeaseStore({ clock });
  const store = new FaultyStore(memory, { clock });
  const manager = new LeaseManager({ store, clock, ttl: '3s', ...options });
  const events: string[] = [];
  for (const name of NAMES) manager.on(name, () => events.push(name));
  return {
    clock,
    memory,
    store,
    manager,
    events,
    other: (more = {}) => new LeaseManager({ store: memory, clock, ttl: '3s', ...more }),
  };
}

/** A promise and its ends. Node 20 has no `Promise.withResolvers`. */
export function deferred<T = void>(): {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
} {
  let resolve: (value: T) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** What a promise came to, without letting a rejection go unhandled meanwhile. */
export function outcomeOf<T>(promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  return Promise.allSettled([promise]).then(([outcome]) => outcome as PromiseSettledResult<T>);
}

export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  const outcome = await outcomeOf(promise);
  if (outcome.status === 'fulfilled') throw new Error('it did not reject');
  return outcome.reason as unknown;
}
