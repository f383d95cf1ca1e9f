import type { Clock } from '../clock.ts';
import type { LeaseStore } from '../store/store.ts';
import { Keeper } from './keeper.ts';
import { Mailbox } from './mailbox.ts';
import { Settler } from './settler.ts';
import type { Sleeper } from './sleeper.ts';
import { OwnerClock } from './term.ts';
import type { Vitals } from './vitals.ts';

/** What the managers of one store share. */
export class Engine {
  readonly ownerClock: OwnerClock;
  readonly keeper: Keeper;
  readonly vitals: Vitals;
  readonly settler: Settler;
  readonly mailbox: Mailbox;
  /** Acquisitions that wait, by leaseId. */
  readonly waiters: Map<string, Sleeper> = new Map();
  /** Told of each resource that is free for those who put work aside. */
  readonly parked: Set<(resource: string) => void> = new Set();
  /** Told of each lease whose resource somebody else wants, or that is to end. */
  readonly wanted: Set<(leaseId: string) => void> = new Set();
  readonly #stopListening: () => void;

  constructor(store: LeaseStore, clock: Clock) {
    this.ownerClock = new OwnerClock(clock);
    this.keeper = new Keeper(store, clock, this.ownerClock);
    this.vitals = this.keeper.vitals;
    this.settler = new Settler(clock);
    this.mailbox = new Mailbox(store, {
      waiter: (leaseId, afterMs) => this.waiters.get(leaseId)?.wake(afterMs),
      owner: (leaseId) => {
        this.keeper.hurry(leaseId);
        this.#want(leaseId);
      },
      wanted: (leaseId) => this.#want(leaseId),
      parked: (resource) => {
        for (const listener of this.parked) listener(resource);
      },
    });
    this.#stopListening = store.onReconnect(() => {
      this.mailbox.reconnected();
      this.keeper.reconnected();
      this.settler.reconnected();
      for (const sleeper of this.waiters.values()) sleeper.wake();
    });
  }

  #want(leaseId: string): void {
    for (const listener of this.wanted) listener(leaseId);
  }

  stop(): void {
    this.#stopListening();
    this.settler.abandon();
    this.vitals.stop();
  }
}

const enginesOf = new WeakMap<LeaseStore, Map<Clock, { readonly engine: Engine; users: number }>>();

/**
 * One engine a store (and clock, which differ only in tests), however many managers use it. `leave` ends this manager's
 * use; the last one closes the store.
 */
export function joinEngine(
  store: LeaseStore,
  clock: Clock,
): { readonly engine: Engine; readonly leave: () => Promise<void> } {
  let engines = enginesOf.get(store);
  if (engines === undefined) enginesOf.set(store, (engines = new Map()));
  const others = engines;
  let shared = others.get(clock);
  if (shared === undefined) others.set(clock, (shared = { engine: new Engine(store, clock), users: 0 }));
  const mine = shared;
  mine.users++;

  async function leave(): Promise<void> {
    if (--mine.users > 0) return;
    mine.engine.stop();
    others.delete(clock);
    if (others.size === 0) await store.close();
  }
  return { engine: mine.engine, leave };
}
