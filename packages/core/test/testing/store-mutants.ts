import type { AcquireRequest } from '../../src/store/store.ts';
import type { ScheduledTick } from '../../src/store/tick-request.ts';
import { moreStoreMutants } from './more-store-mutants.ts';
import { spareMutants } from './spare-mutants.ts';
import type { StoreMutant } from './store-mutant.ts';
import { tickMutants } from './tick-mutants.ts';

function changeAcquire(change: (request: AcquireRequest) => Partial<AcquireRequest>): StoreMutant['change'] {
  return (memory) => ({ acquire: (request, call) => memory.acquire({ ...request, ...change(request) }, call) });
}

function changeTick(change: Partial<Omit<ScheduledTick, 'at'>>): StoreMutant['change'] {
  return changeAcquire(({ tick }) => ({ tick: tick && { ...tick, ...change } }));
}

export const storeMutants: readonly StoreMutant[] = [
  ...moreStoreMutants,
  ...tickMutants,
  ...spareMutants,
  {
    does: 'revives an expired lease on extend',
    foundBy: 'an expired lease is not revived by extend, though nobody took the resource',
    change: (memory) => ({
      async extend(items, call) {
        for (const { resource, leaseId, ttlMs } of items) {
          const record = await memory.read(resource, call);
          if (record?.state === 'expired' && record.leaseId === leaseId) {
            memory.edit(resource, { expiresUs: record.nowUs + ttlMs * 1000 });
          }
        }
        return memory.extend(items, call);
      },
    }),
  },
  {
    does: 'moves the expiry when an acquire is repeated',
    foundBy: 'the same leaseId sent twice grants once and does not move the expiry',
    change: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'granted' || !reply.again) return reply;
        await memory.extend([request], call);
        return { ...reply, remainingMs: request.ttlMs };
      },
    }),
  },
  {
    does: 'says of a repeated grant that its full ttl is left',
    foundBy: 'the same leaseId sent twice grants once and does not move the expiry',
    change: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        return reply.kind === 'granted' ? { ...reply, remainingMs: request.ttlMs } : reply;
      },
    }),
  },
  ...['a released leaseId is spent', 'an expired leaseId is spent, though nobody took the resource'].map(
    (foundBy): StoreMutant => ({
      does: 'grants a spent leaseId',
      foundBy,
      change: (memory) => ({
        async acquire(request, call) {
          const reply = await memory.acquire(request, call);
          if (reply.kind !== 'spent') return reply;
          memory.edit(request.resource, { leaseId: 'forgotten' });
          return memory.acquire(request, call);
        },
      }),
    }),
  ),
  {
    does: 'forgets on release that there was an owner',
    foundBy: 'a released leaseId is spent',
    change: (memory) => ({
      async release(request, call) {
        const reply = await memory.release(request, call);
        if (reply.kind === 'released') memory.edit(request.resource, { leaseId: '' });
        return reply;
      },
    }),
  },
  {
    does: 'counts tokens instead of taking them from the clock',
    foundBy: 'tokens grow across the loss of all data',
    change: (memory) => ({
      async acquire(request, call) {
        const before = await memory.read(request.resource, call);
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'granted') return reply;
        const fencingToken = reply.again ? (before?.fencingToken ?? 0) : (before?.fencingToken ?? 0) + 1;
        memory.edit(request.resource, { fencingToken });
        return { ...reply, fencingToken };
      },
    }),
  },
  {
    does: 'ignores the floor',
    foundBy: 'a token is greater than its floor, and the next one greater still',
    change: changeAcquire(() => ({ floor: 0 })),
  },
  {
    does: 'passes on a floor out of range',
    foundBy: 'a floor more than a day ahead is out of range, and shuts out nobody',
    change: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'out-of-range') return reply;
        return {
          kind: 'granted',
          fencingToken: request.floor + 1,
          remainingMs: request.ttlMs,
          again: false,
          tick: null,
        };
      },
    }),
  },
  ...[
    'cancel before its acquire: the packet under way never becomes owner',
    'cancel after its acquire: the resource is free, a repeated packet never becomes owner again',
  ].map((foundBy): StoreMutant => ({
    does: 'leaves no tombstones',
    foundBy,
    change: (memory) => ({ cancel: (request, call) => memory.cancel({ ...request, tombstoneMs: 0 }, call) }),
  })),
  {
    does: 'leaves tombstones that never end',
    foundBy: 'a tombstone ends when its time is up',
    change: (memory) => ({
      cancel: (request, call) =>
        memory.cancel({ ...request, tombstoneMs: request.tombstoneMs === 0 ? 0 : 1_000_000_000 }, call),
    }),
  },
  {
    does: 'releases whoever holds the resource',
    foundBy: 'a late release, extend or cancel of an old leaseId touches nothing of its successor',
    change: (memory) => ({
      async release(request, call) {
        const record = await memory.read(request.resource, call);
        return memory.release({ ...request, leaseId: record?.leaseId ?? request.leaseId }, call);
      },
    }),
  },
  {
    does: 'extends without looking whose lease it is',
    foundBy: 'extend tells why a lease is lost',
    change: (memory) => ({
      async extend(items, call) {
        const records = await Promise.all(items.map(({ resource }) => memory.read(resource, call)));
        return memory.extend(
          items.map((item, index) => ({ ...item, leaseId: records[index]?.leaseId ?? item.leaseId })),
          call,
        );
      },
    }),
  },
  {
    does: 'answers a batch in another order',
    foundBy: 'a batch of extends has one verdict for each item, in their order',
    change: (memory) => ({
      extend: async (items, call) => (await memory.extend(items, call)).toReversed(),
    }),
  },
  {
    does: 'lets everybody in',
    foundBy: 'workers that try lose no update of an unguarded counter',
    change: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'busy') return reply;
        return { kind: 'granted', fencingToken: 1, remainingMs: request.ttlMs, again: false, tick: null };
      },
    }),
  },
  {
    does: 'ignores replaces',
    foundBy: 'replaces takes the place of a held lease in one step, with a greater token',
    change: changeAcquire(() => ({ replaces: '' })),
  },
  {
    does: 'replaces by a release, and drops the tick',
    foundBy: 'replaces keeps the tick, and what stood there before it',
    change: (memory) => ({
      async acquire(request, call) {
        const { replaces, resource, tick } = request;
        if (replaces === '') return memory.acquire(request, call);
        await memory.release(
          { resource, leaseId: replaces, outcome: 'done', floor: 0, history: 'exceptions', job: tick?.job },
          call,
        );
        return memory.acquire({ ...request, replaces: '', tick: undefined }, call);
      },
    }),
  },
  {
    does: 'takes all jobs of a resource for one',
    foundBy: 'two jobs on one resource have ticks of their own',
    change: changeTick({ job: 'the only one' }),
  },
  {
    does: 'claims too late',
    foundBy: 'too late is by the store’s clock, and changes nothing',
    change: changeTick({ startingDeadlineMs: Number.MAX_SAFE_INTEGER }),
  },
  {
    does: 'claims too early',
    foundBy: 'a tick ahead of the store’s clock is early, not done with',
    change: changeTick({ maxAheadMs: Number.MAX_SAFE_INTEGER }),
  },
  {
    does: 'always retries',
    foundBy: 'a tick is claimed once, whatever became of the run',
    change: changeTick({ retry: 5 }),
  },
  {
    does: 'never retries',
    foundBy: 'a retry claims what did not succeed, never what did',
    change: changeTick({ retry: 0 }),
  },
  {
    does: 'keeps the tick of a run that was not started',
    foundBy: 'not-started gives the tick back, and the one before it',
    change: (memory) => ({
      release: (request, call) =>
        memory.release({ ...request, outcome: request.outcome === 'not-started' ? 'done' : request.outcome }, call),
    }),
  },
  {
    does: 'writes no outcome once the lease is lost',
    foundBy: 'an outcome is written though the lease was lost',
    change: (memory) => ({
      async release(request, call) {
        const record = await memory.read(request.resource, call);
        const held = record?.state === 'held' && record.leaseId === request.leaseId;
        return memory.release(held ? request : { ...request, job: undefined }, call);
      },
    }),
  },
  {
    does: 'lets newcomers in before the waiter whose turn it is',
    foundBy: 'the turn goes to the head of the queue; everybody else is told that it is taken',
    change: (memory) => {
      const waiters = new Set<string>();
      return {
        async acquire(request, call) {
          const reply = await memory.acquire(request, call);
          if (reply.kind === 'queued') waiters.add(request.leaseId);
          if (reply.kind !== 'busy' || reply.reason !== 'turn') return reply;
          const { resource } = request;
          for (const leaseId of waiters) {
            await memory.cancel(
              { resource, leaseId, outcome: 'not-started', floor: 0, history: 'exceptions', tombstoneMs: 0 },
              call,
            );
          }
          return memory.acquire(request, call);
        },
      };
    },
  },
  {
    does: 'never gives up on a waiter',
    foundBy: 'waiters that no longer ask are passed over',
    change: changeAcquire(() => ({ waitRefreshMs: 1_000_000_000 })),
  },
  {
    does: 'sends a waiter that asks again to the end of the queue',
    foundBy: 'a waiter that asks again keeps its place and stays alive',
    change: (memory) => ({
      async acquire(request, call) {
        const { resource, leaseId } = request;
        if (request.mode === 'wait') {
          await memory.cancel(
            { resource, leaseId, outcome: 'not-started', floor: 0, history: 'exceptions', tombstoneMs: 0 },
            call,
          );
        }
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'puts who parks into the queue',
    foundBy: 'parking reserves nothing',
    change: (memory) => ({
      async acquire(request, call) {
        if (request.mode !== 'park') return memory.acquire(request, call);
        const reply = await memory.acquire({ ...request, mode: 'wait' }, call);
        return reply.kind === 'queued' ? { ...reply, kind: 'busy' } : reply;
      },
    }),
  },
  {
    does: 'believes a deadline of a clock that was set back',
    foundBy: 'a deadline of a clock that was set back is written back to its ttl',
    change: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind === 'granted') memory.edit(request.resource, { ttlMs: 1_000_000_000 });
        return reply;
      },
    }),
  },
  {
    does: 'says nothing of what it has sent',
    foundBy: 'each call says that it was sent before it settles',
    change: (memory) => ({ release: (request, call) => memory.release(request, { timeoutMs: call.timeoutMs }) }),
  },
  {
    does: 'takes look-alike names for one',
    foundBy: 'hostile and look-alike names are each a lease of their own',
    change: changeAcquire(({ resource }) => ({ resource: resource.normalize('NFC') })),
  },
  {
    does: 'answers after it was closed',
    foundBy: 'a closed store rejects what comes later as never sent',
    change: () => ({ close: async () => {} }),
  },
];
