import { MemoryFence, type MemoryTx } from '../../src/fence/memory.ts';
import type { Fence } from '../../src/fence/fence.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { LeaseStore } from '../../src/store/store.ts';
import type { FenceSubject } from '../../src/testing/fence/context.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';
import type { StoreSubject } from '../../src/testing/store/context.ts';

/** A memory store that the suite can get at. `wrap` makes another store of it, to plant an error. */
export function memoryStoreSubject(wrap: (store: MemoryLeaseStore) => LeaseStore = (store) => store): StoreSubject {
  const clock = new ManualClock();
  const memory = new MemoryLeaseStore({ clock });
  return {
    store: wrap(memory),
    messages: true,
    pass: (ms) => clock.advanceAsync(ms),
    second: async () => wrap(memory.beside()),
    flush: async () => memory.flush(),
    evict: async (resource) => memory.flush(resource),
    setField: async (resource, field, value) => {
      if (!memory.edit(resource, { [field]: value })) throw new Error(`no record of ${resource}`);
    },
    restart: async (options) => memory.restart(options),
    stepClock: async (ms) => clock.stepWall(ms),
    close: () => memory.close(),
  };
}

/** The log of each resource is a value of the fence. `make` gives another fence, to plant an error. */
export function memoryFenceSubject(
  make: (clock: ManualClock) => Fence<MemoryTx> & { readonly values: ReadonlyMap<string, unknown> } = (clock) =>
    new MemoryFence({ clock }),
): FenceSubject<MemoryTx> {
  const clock = new ManualClock();
  const fence = make(clock);
  const log = (value: unknown): readonly string[] => (Array.isArray(value) ? value : []);
  return {
    fence,
    nowUs: () => clock.wallUs(),
    append: (tx, resource, entry) => tx.set(resource, [...log(tx.get(resource)), entry]),
    count: (tx, resource) => log(tx.get(resource)).length,
    entries: async (resource) => log(fence.values.get(resource)),
    close: async () => {},
  };
}
