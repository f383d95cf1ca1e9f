import type { Fence } from '../../src/fence/fence.ts';
import type { MemoryTx } from '../../src/fence/memory.ts';
import type { LeaseStore, StoreCall } from '../../src/store/store.ts';
import type { PlainFence } from '../testing/plain-fence.ts';
import type { ServerClock } from './server.ts';

/** A fence that takes its clock from the server, in parts that can be replaced. */
export function fenceOf(fence: new (clock: never) => PlainFence): (clock: ServerClock) => PlainFence {
  return (clock) => new fence(clock as never);
}

/** Replaces a method of the engine for as long as a run takes. */
export function replacing<T extends object, K extends keyof T>(target: T, name: K, method: T[K]): () => () => void {
  return () => {
    const own = Object.getOwnPropertyDescriptor(target, name);
    Object.defineProperty(target, name, { value: method, configurable: true, writable: true });
    return () => {
      if (own !== undefined) Object.defineProperty(target, name, own);
    };
  };
}

export type Send = (request: unknown, call: StoreCall) => Promise<unknown>;

/** A store of which some operations are done in another way. */
export function changing(
  store: LeaseStore,
  names: readonly (keyof LeaseStore)[],
  change: (send: Send, request: unknown, call: StoreCall) => Promise<unknown>,
): LeaseStore {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (!names.includes(name as keyof LeaseStore)) return value;
      return (request: unknown, call: StoreCall) => change(value as Send, request, call);
    },
  });
}

/** A fence of which some operations are done in another way. */
export function reaching(fence: Fence<MemoryTx>, change: Partial<Fence<MemoryTx>>): Fence<MemoryTx> {
  return {
    name: fence.name,
    enforcing: fence.enforcing,
    activate: (grant) => fence.activate(grant),
    write: (grant, body) => fence.write(grant, body),
    seal: (resource, fencingToken) => fence.seal(resource, fencingToken),
    highest: (resource) => fence.highest(resource),
    ...change,
  };
}
