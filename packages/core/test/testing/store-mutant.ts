import type { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { LeaseStore } from '../../src/store/store.ts';

/** A memory store with one error, and the case that must find it. */
export interface StoreMutant {
  readonly does: string;
  readonly foundBy: string;
  readonly change: (memory: MemoryLeaseStore) => Partial<LeaseStore>;
}

/** The store with the error; without one if nothing is changed. */
export function mutate(memory: MemoryLeaseStore, change: StoreMutant['change']): LeaseStore {
  return {
    namespace: memory.namespace,
    description: memory.description,
    checkName: (option, name) => memory.checkName(option, name),
    acquire: (request, call) => memory.acquire(request, call),
    extend: (items, call) => memory.extend(items, call),
    release: (request, call) => memory.release(request, call),
    cancel: (request, call) => memory.cancel(request, call),
    read: (resource, call) => memory.read(resource, call),
    adopt: (request, call) => memory.adopt(request, call),
    revoke: (request, call) => memory.revoke(request, call),
    forceRelease: (request, call) => memory.forceRelease(request, call),
    noteSeal: (request, call) => memory.noteSeal(request, call),
    list: (call) => memory.list(call),
    history: (resource, limit, call) => memory.history(resource, limit, call),
    ticks: (resource, job, call) => memory.ticks(resource, job, call),
    connect: () => memory.connect(),
    get server() {
      return memory.server;
    },
    subscribe: (channel, listener) => memory.subscribe(channel, listener),
    onReconnect: (listener) => memory.onReconnect(listener),
    close: () => memory.close(),
    ...change(memory),
  };
}
