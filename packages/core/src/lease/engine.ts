import type { Clock } from '../clock.ts';
import type { LeaseStore } from '../store/store.ts';
import { Keeper } from './keeper.ts';
import { Settler } from './settler.ts';
import { OwnerClock } from './term.ts';

/** What the managers of one store share. */
export interface Engine {
  readonly ownerClock: OwnerClock;
  readonly keeper: Keeper;
  readonly settler: Settler;
  /** Ends this manager's use; the last one closes the store. */
  leave(): Promise<void>;
}

interface Shared {
  readonly ownerClock: OwnerClock;
  readonly keeper: Keeper;
  readonly settler: Settler;
  readonly stopListening: () => void;
  users: number;
}

const enginesOf = new WeakMap<LeaseStore, Map<Clock, Shared>>();

function create(store: LeaseStore, clock: Clock): Shared {
  const ownerClock = new OwnerClock(clock);
  const keeper = new Keeper(store, clock, ownerClock);
  const settler = new Settler(clock);
  const stopListening = store.onReconnect(() => {
    keeper.reconnected();
    settler.reconnected();
  });
  return { ownerClock, keeper, settler, stopListening, users: 0 };
}

/** One engine a store (and clock, which differ only in tests), however many managers use it. */
export function joinEngine(store: LeaseStore, clock: Clock): Engine {
  let engines = enginesOf.get(store);
  if (engines === undefined) enginesOf.set(store, (engines = new Map()));
  let shared = engines.get(clock);
  if (shared === undefined) engines.set(clock, (shared = create(store, clock)));
  shared.users++;
  const { ownerClock, keeper, settler } = shared;

  async function leave(): Promise<void> {
    if (shared === undefined || --shared.users > 0) return;
    shared.stopListening();
    shared.settler.abandon();
    engines?.delete(clock);
    if (engines?.size === 0) await store.close();
  }
  return { ownerClock, keeper, settler, leave };
}
