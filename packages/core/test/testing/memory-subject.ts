import { MemoryFence, type MemoryTx } from '../../src/fence/memory.ts';
import type { Fence } from '../../src/fence/fence.ts';
import { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { LeaseStore } from '../../src/store/store.ts';
import type { FenceSubject } from '../../src/testing/fence/context.ts';
import { ManualClock } from '../../src/testing/manual-clock.ts';
import type { StoreSubject } from '../../src/testing/store/context.ts';
import type { PlainFence } from './plain-fence.ts';

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

/** A fence whose values a test can look at. */
export type OpenFence = Fence<MemoryTx> & { readonly values: ReadonlyMap<string, unknown> };

/** The log of each resource is a value of the fence. */
export function memoryFenceSubject(
  make: (clock: ManualClock) => OpenFence = (clock) => new MemoryFence({ clock }),
  more: (fence: OpenFence) => Partial<FenceSubject<MemoryTx>> = () => ({}),
): FenceSubject<MemoryTx> {
  const clock = new ManualClock();
  const fence = make(clock);
  const log = (value: unknown): readonly string[] => (Array.isArray(value) ? value : []);
  const append = (tx: MemoryTx, resource: string, entry: string): void =>
    tx.set(resource, [...log(tx.get(resource)), entry]);
  return {
    fence,
    nowUs: () => clock.wallUs(),
    append,
    count: (tx, resource) => log(tx.get(resource)).length,
    entries: async (resource) => log(fence.values.get(resource)),
    abandon: (grant, entry) =>
      new Promise((resolve, reject) => {
        const write = fence.write(grant, (tx) => {
          append(tx, grant.resource, entry);
          resolve();
          return new Promise(() => {});
        });
        write.catch(reject);
      }),
    abandonedMs: 100,
    close: async () => {},
    ...more(fence),
  };
}

/** What a plain fence can do beside: a second one before the same ground, and a line that breaks. */
export function plainHooks(
  fence: PlainFence,
  again: (clock: ManualClock) => PlainFence,
): Pick<FenceSubject<MemoryTx>, 'second' | 'loseAnswer' | 'loseRequest'> {
  return {
    second: async () => again(fence.clock),
    loseAnswer: async () => void (fence.ground.trouble = 'loses the answer'),
    loseRequest: async () => void (fence.ground.trouble = 'loses the request'),
  };
}
