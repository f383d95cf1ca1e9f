import type { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { AdoptRequest, LeaseStore, StoreMessage } from '../../src/store/store.ts';
import type { StoreMutant } from './store-mutant.ts';

function changeAdopt(change: (request: AdoptRequest) => Partial<AdoptRequest>): StoreMutant['change'] {
  return (memory) => ({ adopt: (request, call) => memory.adopt({ ...request, ...change(request) }, call) });
}

function changeMessages(change: (message: StoreMessage) => readonly StoreMessage[]): StoreMutant['change'] {
  return (memory) => ({
    subscribe: (channel, listener) => memory.subscribe(channel, (message) => change(message).forEach(listener)),
  });
}

function changeList(
  change: (listed: { resource: string; leaseId: string; state: string }, at: number) => string | undefined,
): (memory: MemoryLeaseStore) => Partial<LeaseStore> {
  return (memory) => ({
    async *list(call) {
      let at = 0;
      for await (const { resource, record } of memory.list(call)) {
        const name = change({ resource, leaseId: record.leaseId, state: record.state }, at++);
        if (name !== undefined) yield { resource: name, record };
      }
    },
  });
}

/** Errors in hand-over, revocation, messages and what can be read. */
export const moreStoreMutants: readonly StoreMutant[] = [
  {
    does: 'keeps nothing of seals',
    foundBy: 'a seal of the fences is kept in the log with operator and reason, and changes no record and needs none',
    change: () => ({ noteSeal: async () => {} }),
  },
  {
    does: 'writes what is given of one owner to all leases of a batch',
    foundBy: 'extend writes what is given of the owner to the leases it is given for, and to no other',
    change: (memory) => ({
      extend: (items, call) =>
        memory.extend(
          items.map((item) => ({ ...item, ownerJson: items[0]?.ownerJson })),
          call,
        ),
    }),
  },
  {
    does: 'writes nothing of owners',
    foundBy: 'extend writes what is given of the owner to the leases it is given for, and to no other',
    change: (memory) => ({
      extend: (items, call) =>
        memory.extend(
          items.map((item) => ({ ...item, ownerJson: undefined })),
          call,
        ),
    }),
  },
  {
    does: 'writes of the owner before it looks whether the lease is extended',
    foundBy: 'extend of a lease that is not extended writes nothing of its owner',
    change: (memory) => ({
      async extend(items, call) {
        for (const { resource, ownerJson } of items) if (ownerJson !== undefined) memory.edit(resource, { ownerJson });
        return memory.extend(items, call);
      },
    }),
  },
  {
    does: 'tells of milliseconds instead of microseconds',
    foundBy: 'the time that an extend is told of, if it is, is the time at which it was carried out',
    change: (memory) => ({
      extend: (items, call) => memory.extend(items, { ...call, told: (nowUs) => call.told?.(nowUs / 1000) }),
    }),
  },
  {
    does: 'loses the mark of a revocation',
    foundBy: 'a revoked lease is told so at its next extend, not extended, and still held',
    change: (memory) => ({
      async extend(items, call) {
        for (const { resource } of items) memory.edit(resource, { revoked: '' });
        return memory.extend(items, call);
      },
    }),
  },
  ...[
    'revoke opens the resource to nobody before release or expiry',
    'a revoked lease is told so at its next extend, not extended, and still held',
  ].map((foundBy): StoreMutant => ({
    does: 'revokes by a release',
    foundBy,
    change: (memory) => ({
      async revoke(request, call) {
        const reply = await memory.revoke(request, call);
        await memory.release({ ...request, outcome: 'aborted', floor: 0, history: 'exceptions' }, call);
        return reply;
      },
    }),
  })),
  ...(
    [
      ['leaseId', 'what was decided on must still be there: leaseId, token, extensions'],
      ['fencingToken', 'what was decided on must still be there: leaseId, token, extensions'],
      ['extensions', 'what was decided on must still be there: leaseId, token, extensions'],
    ] as const
  ).map(([field, foundBy]): StoreMutant => ({
    does: `releases by force without comparing the ${field}`,
    foundBy,
    change: (memory) => ({
      async forceRelease(request, call) {
        const record = await memory.read(request.resource, call);
        const believed = record === null ? request : { ...request, [field]: record[field] };
        return memory.forceRelease(believed, call);
      },
    }),
  })),
  {
    does: 'releases by force what has not run out for so long',
    foundBy: 'a lease that has not run out for so long is left alone',
    change: (memory) => ({
      forceRelease: (request, call) => memory.forceRelease({ ...request, elapsedMs: null }, call),
    }),
  },
  {
    does: 'forgets the floor of a forced release',
    foundBy: 'the token is raised to what the fences were sealed with, unless that is out of range',
    change: (memory) => ({
      forceRelease: (request, call) => memory.forceRelease({ ...request, floor: 0 }, call),
    }),
  },
  {
    does: 'revokes whoever holds the resource',
    foundBy: 'revoke of a leaseId that is not held changes nothing, and tells why',
    change: (memory) => ({
      async revoke(request, call) {
        const record = await memory.read(request.resource, call);
        return memory.revoke({ ...request, leaseId: record?.leaseId ?? request.leaseId }, call);
      },
    }),
  },
  {
    does: 'brings the expiry of a revoked lease closer',
    foundBy: 'a revoked lease is told so at its next extend, not extended, and still held',
    change: (memory) => ({
      async revoke(request, call) {
        const reply = await memory.revoke(request, call);
        const record = await memory.read(request.resource, call);
        memory.edit(request.resource, { expiresUs: (record?.expiresUs ?? 0) - 1_000_000 });
        return reply;
      },
    }),
  },
  {
    does: 'notes a revocation each time it is asked for',
    foundBy: 'revoke sent again changes nothing more',
    change: (memory) => ({
      async revoke(request, call) {
        memory.edit(request.resource, { revoked: '' });
        return memory.revoke(request, call);
      },
    }),
  },
  {
    does: 'leaves the old mark of revocation to the next owner',
    foundBy: 'a revocation ends with the tenure that it was meant for',
    change: (memory) => {
      let revoked = false;
      return {
        revoke: (request, call) => ((revoked = true), memory.revoke(request, call)),
        async acquire(request, call) {
          const reply = await memory.acquire(request, call);
          if (reply.kind === 'granted' && revoked) memory.edit(request.resource, { revoked: request.leaseId });
          return reply;
        },
      };
    },
  },
  {
    does: 'keeps the leaseId that is handed over',
    foundBy: 'after adopt, nothing that the old leaseId sends touches the new one',
    change: (memory) => ({
      async adopt(request, call) {
        const reply = await memory.adopt(request, call);
        if (reply.kind === 'granted') memory.edit(request.resource, { leaseId: request.from });
        return reply;
      },
    }),
  },
  {
    does: 'keeps the token of the lease that is handed over',
    foundBy: 'adopt makes the lease another’s, with a new leaseId and a greater token',
    change: (memory) => ({
      async adopt(request, call) {
        const before = await memory.read(request.resource, call);
        const reply = await memory.adopt(request, call);
        if (reply.kind !== 'granted' || before === null) return reply;
        memory.edit(request.resource, { fencingToken: before.fencingToken });
        return { ...reply, fencingToken: before.fencingToken };
      },
    }),
  },
  {
    does: 'lets everybody adopt who has the ticket',
    foundBy: 'the second to adopt is superseded',
    change: (memory) => ({
      async adopt(request, call) {
        const record = await memory.read(request.resource, call);
        return memory.adopt({ ...request, from: record?.leaseId ?? request.from }, call);
      },
    }),
  },
  {
    does: 'moves the expiry when an adoption is repeated',
    foundBy: 'adopt sent again answers the same grant and does not move the expiry',
    change: (memory) => ({
      async adopt(request, call) {
        const reply = await memory.adopt(request, call);
        if (reply.kind === 'granted' && reply.again) await memory.extend([request], call);
        return reply;
      },
    }),
  },
  {
    does: 'lets an expired lease be adopted',
    foundBy: 'a lease that is not held cannot be adopted',
    change: (memory) => ({
      async adopt(request, call) {
        const record = await memory.read(request.resource, call);
        if (record?.state === 'expired') memory.edit(request.resource, { expiresUs: record.nowUs + 10_000 });
        return memory.adopt(request, call);
      },
    }),
  },
  {
    does: 'lets a revoked lease be adopted',
    foundBy: 'a revoked lease cannot be adopted, an adopted one can be revoked',
    change: (memory) => ({
      async adopt(request, call) {
        memory.edit(request.resource, { revoked: '' });
        return memory.adopt(request, call);
      },
    }),
  },
  {
    does: 'hands over without the tick',
    foundBy: 'the tick goes over: its claim, its outcome, and what stood there before',
    change: changeAdopt(() => ({ job: undefined })),
  },
  {
    does: 'hands over every tick',
    foundBy: 'adopt without a job, or of another’s job, takes no tick',
    change: changeAdopt(() => ({ job: 'job' })),
  },
  {
    does: 'ignores the floor of an adoption',
    foundBy: 'adopt obeys its floor',
    change: changeAdopt(() => ({ floor: 0 })),
  },
  {
    does: 'forgets the channel of who adopts',
    foundBy: 'who adopts is told of its revocation, who handed over is not',
    change: changeAdopt(() => ({ channel: '' })),
  },
  {
    does: 'says nothing of a revocation',
    foundBy: 'the owner is told of its revocation',
    change: changeMessages((message) => (message.kind === 'revoked' ? [] : [message])),
  },
  {
    does: 'does not say whose turn it is',
    foundBy: 'two waiters of one process are told apart',
    change: changeMessages((message) => [{ ...message, leaseId: '' }]),
  },
  {
    does: 'sends the second to look at once',
    foundBy: 'release tells the head to go and the second to look',
    change: changeMessages((message) => [{ ...message, afterMs: 0 }]),
  },
  {
    does: 'tells a parked process twice',
    foundBy: 'a parked process is told once, and only when nobody waits',
    change: changeMessages((message) => [message, message]),
  },
  {
    does: 'goes on telling who no longer listens',
    foundBy: 'a listener that has ended hears nothing, another of the same channel does',
    change: (memory) => ({
      async subscribe(channel, listener) {
        await memory.subscribe(channel, listener);
        return async () => {};
      },
    }),
  },
  {
    does: 'sees no restart',
    foundBy: 'a restart is seen by who was connected before it, and its channels go on',
    change: (memory) => ({ server: memory.server && { ...memory.server, restarted: false } }),
  },
  {
    does: 'lists a page and no more',
    foundBy: 'list gives each of many resources, with the record that read gives',
    change: changeList(({ resource }, at) => (at < 100 ? resource : undefined)),
  },
  {
    does: 'lists names as they are encoded',
    foundBy: 'list gives hostile and look-alike names as they are',
    change: changeList(({ resource }) => encodeURIComponent(resource)),
  },
  {
    does: 'lists no free resources',
    foundBy: 'list tells held, expired and free; what was never held is not in it',
    change: changeList(({ resource, state }) => (state === 'free' ? undefined : resource)),
  },
  {
    does: 'gives the oldest event first',
    foundBy: 'the log of exceptions has what is out of the ordinary, the newest first',
    change: (memory) => ({
      history: async (resource, limit, call) => (await memory.history(resource, limit, call)).toReversed(),
    }),
  },
  {
    does: 'ignores the limit of a log',
    foundBy: 'the log of exceptions has what is out of the ordinary, the newest first',
    change: (memory) => ({ history: (resource, _limit, call) => memory.history(resource, 1_000, call) }),
  },
  {
    does: 'keeps exceptions only',
    foundBy: 'the log of all has acquisitions and releases, too, with job and tick',
    change: (memory) => ({
      acquire: (request, call) => memory.acquire({ ...request, history: 'exceptions' }, call),
    }),
  },
  {
    does: 'keeps 64 exceptions',
    foundBy: 'the log keeps 16 exceptions, or 64 events of all kinds',
    change: (memory) => ({
      acquire: (request, call) => memory.acquire({ ...request, history: 'all' }, call),
      history: async (resource, limit, call) =>
        (await memory.history(resource, 1_000, call)).filter(({ event }) => event === 'refused').slice(0, limit),
    }),
  },
  {
    does: 'forgets the tick before the last',
    foundBy: 'ticks gives the last tick of a job and the one before it',
    change: (memory) => ({ ticks: async (...args) => (await memory.ticks(...args)).slice(0, 1) }),
  },
];
