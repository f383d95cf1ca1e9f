import { diagnose } from '../../src/diagnosis/diagnose.ts';
import { StoreUnavailableError } from '../../src/errors.ts';
import type { AcquireRequest, LeaseStore, StoreCall } from '../../src/store/store.ts';
import type { StoreMutant } from '../testing/store-mutant.ts';
import type { SeededBug } from './bug.ts';
import { changing, reaching } from './replacing.ts';

/** What cannot be sent is said to have failed, and sent all the same once there is a connection. */
function queueing(store: LeaseStore): LeaseStore {
  return changing(store, ['acquire'], async (send, request, call) => {
    try {
      return await send(request, call);
    } catch (error) {
      if (error instanceof StoreUnavailableError && !error.mayHaveRun) sendOnceConnected(store, request, call);
      throw error;
    }
  });
}

function sendOnceConnected(store: LeaseStore, request: unknown, { timeoutMs }: StoreCall): void {
  const stop = store.onReconnect(() => {
    stop();
    store.acquire(request as AcquireRequest, { timeoutMs }).catch(() => {});
  });
}

/** Tokens that are counted in the record instead of coming from the clock. */
export const counted: StoreMutant['change'] = (memory) => ({
  async acquire(request, call) {
    const before = await memory.read(request.resource, call);
    const reply = await memory.acquire(request, call);
    if (reply.kind !== 'granted' || reply.again) return reply;
    const fencingToken = (before?.fencingToken ?? 0) + 1;
    memory.edit(request.resource, { fencingToken });
    return { ...reply, fencingToken };
  },
});

export const moreBugs: readonly SeededBug[] = [
  {
    does: 'a process that activates nothing and writes at once',
    mutation: 'no activation',
    foundBy: 'S3',
    reach: (fence) => reaching(fence, { activate: () => Promise.resolve() }),
  },
  {
    does: 'a token that is read again from the store for each write',
    mutation: 're-read',
    foundBy: 'S4',
    async holder({ resource, grant }, manager) {
      const now = await manager.inspect(resource);
      if (now === null || now.leaseId === null) return grant;
      return { ...grant, leaseId: now.leaseId, fencingToken: now.fencingToken };
    },
  },
  {
    does: 'a release that ends whatever lease its owner has',
    mutation: 'by owner',
    foundBy: 'S8',
    // A store is one process's way to the data: what it asks for is that owner's.
    store(memory) {
      const own = new Set<string>();
      return {
        acquire(request, call) {
          own.add(request.leaseId);
          return memory.acquire(request, call);
        },
        adopt(request, call) {
          own.add(request.leaseId);
          return memory.adopt(request, call);
        },
        async release(request, call) {
          const record = await memory.read(request.resource, call);
          const isOwn = record !== null && record.leaseId !== null && own.has(record.leaseId);
          return memory.release({ ...request, leaseId: isOwn ? record.leaseId : request.leaseId }, call);
        },
      };
    },
  },
  {
    does: 'an extend that asks whether the name is held, and not by whom',
    mutation: 'by name',
    foundBy: 'S9',
    store: (memory) => ({
      async extend(items, call) {
        const verdicts = await memory.extend(items, call);
        const records = await Promise.all(items.map(({ resource }) => memory.read(resource, call)));
        return verdicts.map((verdict, index) =>
          verdict.verdict === 'lost' && records[index]?.state === 'held'
            ? { verdict: 'extended', remainingMs: items[index]?.ttlMs ?? 0 }
            : verdict,
        );
      },
    }),
  },
  {
    does: 'a client that keeps what it cannot send until it can',
    mutation: 'offline queue',
    foundBy: 'S11',
    client: queueing,
  },
  {
    does: 'a diagnosis that tries whether the lease can be had',
    foundBy: 'S13',
    async diagnose(manager, resource, options) {
      const found = await diagnose(manager, resource, options);
      const tried = await manager.tryAcquire(resource);
      if (tried.acquired) await tried.lease.release();
      return found;
    },
  },
  {
    does: 'a diagnosis that takes an owner for dead that has not just extended its lease',
    foundBy: 'S13',
    async diagnose(manager, resource, options) {
      const found = await diagnose(manager, resource, options);
      const { lease, verdict } = found;
      const isLate = lease?.state === 'held' && lease.remainingMs !== null && lease.remainingMs < 0.75 * lease.ttlMs;
      return isLate ? { ...found, verdict: { ...verdict, code: 'orphaned' } } : found;
    },
  },
  {
    does: 'tokens that are counted, and a loss of the data',
    mutation: 'counted',
    foundBy: 'S14',
    store: counted,
  },
  {
    does: 'tokens that begin anew when a lease is released',
    mutation: 'token deleted',
    foundBy: 'S14',
    store: (memory) => ({
      async release(request, call) {
        const reply = await memory.release(request, call);
        if (reply.kind === 'released') memory.edit(request.resource, { fencingToken: 0 });
        return reply;
      },
    }),
  },
  {
    does: 'an owner that learns nothing from the refusal of a fence',
    foundBy: 'L2',
    hand: (store) =>
      changing(store, ['acquire', 'release'], (send, request, call) =>
        send({ ...(request as { readonly floor: number }), floor: 0 }, call),
      ),
  },
  {
    does: 'a store that keeps a lease for longer than was asked for',
    foundBy: 'L3',
    store: (memory) => ({
      acquire: (request, call) => memory.acquire({ ...request, ttlMs: 4 * request.ttlMs }, call),
      extend: (items, call) =>
        memory.extend(
          items.map((item) => ({ ...item, ttlMs: 4 * item.ttlMs })),
          call,
        ),
    }),
  },
  {
    does: 'a fence that waits for its resource for as long as it takes',
    foundBy: 'L4',
    fenceTimeoutMs: 1_000_000,
  },
];
