import type { MemoryLeaseStore } from '../../src/store/memory.ts';
import type { AcquireReply, AcquireRequest, StoreMessage } from '../../src/store/store.ts';
import type { StoreMutant } from './store-mutant.ts';

type Granted = Extract<AcquireReply, { readonly kind: 'granted' }>;

/** Changes what was granted, and may change the record as well. */
function changeGrant(
  change: (granted: Granted, request: AcquireRequest, memory: MemoryLeaseStore) => Granted,
): StoreMutant['change'] {
  return (memory) => ({
    async acquire(request, call) {
      const reply = await memory.acquire(request, call);
      return reply.kind === 'granted' ? change(reply, request, memory) : reply;
    },
  });
}

function changeAcquire(change: (request: AcquireRequest) => Partial<AcquireRequest>): StoreMutant['change'] {
  return (memory) => ({ acquire: (request, call) => memory.acquire({ ...request, ...change(request) }, call) });
}

/** Not told when it was `mode` that was asked in. */
function silentAbout(mode: AcquireRequest['mode']): StoreMutant['change'] {
  let last: AcquireRequest['mode'] | undefined;
  return (memory) => ({
    acquire(request, call) {
      last = request.mode;
      return memory.acquire(request, call);
    },
    subscribe: (channel, listener) =>
      memory.subscribe(channel, (message) => {
        if (message.kind !== 'wanted' || last !== mode) listener(message);
      }),
  });
}

function changeWanted(change: (message: StoreMessage) => readonly StoreMessage[]): StoreMutant['change'] {
  return (memory) => ({
    subscribe: (channel, listener) =>
      memory.subscribe(channel, (message) =>
        (message.kind === 'wanted' ? change(message) : [message]).forEach(listener),
      ),
  });
}

/** The spare tokens that were asked for are given, whatever speaks against it. */
function given(granted: Granted, { resource, spareTokens = 0 }: AcquireRequest, memory: MemoryLeaseStore): Granted {
  if (spareTokens === 0 || granted.again || granted.spareTokens !== undefined) return granted;
  memory.edit(resource, { fencingToken: granted.fencingToken + spareTokens, hasSpareTokens: true });
  return { ...granted, spareTokens };
}

const RECORD = 'spare tokens lie above the one that is granted, and the record has the last of them';
const ABOVE = 'whoever comes after a lease with spare tokens is above the last of them';
const AGAIN = 'a repeated grant has no spare tokens: its token is the last of them';
const TICK = 'with a tick there are no spare tokens';
const OTHERS = 'there are no spare tokens when others wait or are parked; who waited alone has some';
const TOLD = 'an owner with spare tokens is told whenever its lease is refused to somebody, however that one asks';
const SILENT = 'an owner without spare tokens is not told that others ask, nor one who asks for its own';

/** Errors with tokens that are reserved, and with the word that a lease is wanted. */
export const spareMutants: readonly StoreMutant[] = [
  {
    does: 'grants spare tokens and says nothing of them',
    foundBy: RECORD,
    change: changeGrant(({ spareTokens: _, ...granted }) => granted),
  },
  {
    does: 'says more spare tokens than it has reserved',
    foundBy: RECORD,
    change: changeGrant((granted) => ({ ...granted, spareTokens: (granted.spareTokens ?? 0) + 1 })),
  },
  {
    does: 'grants the last of the tokens in place of the first',
    foundBy: RECORD,
    change: changeGrant((granted) => ({
      ...granted,
      fencingToken: granted.fencingToken + (granted.spareTokens ?? 0),
    })),
  },
  {
    does: 'forgets the floor when it reserves tokens',
    foundBy: RECORD,
    change: changeAcquire(({ floor, spareTokens }) => ({ floor: spareTokens === undefined ? floor : 0 })),
  },
  {
    does: 'counts the spare tokens from the floor down',
    foundBy: RECORD,
    change: changeGrant((granted, { floor, resource, spareTokens = 0 }, memory) => {
      if (floor === 0) return granted;
      memory.edit(resource, { fencingToken: granted.fencingToken });
      return { ...granted, fencingToken: granted.fencingToken - spareTokens };
    }),
  },
  {
    does: 'keeps the first of the tokens in the record',
    foundBy: RECORD,
    change: changeGrant((granted, { resource }, memory) => {
      memory.edit(resource, { fencingToken: granted.fencingToken });
      return granted;
    }),
  },
  {
    does: 'notes the first of the tokens in its log',
    foundBy: RECORD,
    change: (memory) => ({
      history: async (resource, limit, call) =>
        (await memory.history(resource, limit, call)).map((event) => ({
          ...event,
          fencingToken: event.fencingToken - 10,
        })),
    }),
  },
  {
    does: 'forgets at the release what it has reserved',
    foundBy: ABOVE,
    change: (memory) => ({
      async release(request, call) {
        const record = await memory.read(request.resource, call);
        const reply = await memory.release(request, call);
        memory.edit(request.resource, { fencingToken: (record?.fencingToken ?? 0) - 100_000_000 });
        return reply;
      },
    }),
  },
  {
    does: 'forgets what it has reserved when the lease has run out',
    foundBy: ABOVE,
    change: (memory) => ({
      async acquire(request, call) {
        const record = await memory.read(request.resource, call);
        if (record?.state === 'expired') {
          memory.edit(request.resource, { fencingToken: record.fencingToken - 100_000_000 });
        }
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'lets a lease begin among the tokens of the one that it replaces',
    foundBy: ABOVE,
    change: (memory) => ({
      async acquire(request, call) {
        const record = await memory.read(request.resource, call);
        if (record !== null && request.replaces !== '') {
          memory.edit(request.resource, { fencingToken: record.fencingToken - 100_000_000 });
        }
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'lets an adopter begin among the tokens of the one before',
    foundBy: ABOVE,
    change: (memory) => ({
      async adopt(request, call) {
        const record = await memory.read(request.resource, call);
        memory.edit(request.resource, { fencingToken: (record?.fencingToken ?? 0) - 100_000_000 });
        return memory.adopt(request, call);
      },
    }),
  },
  {
    does: 'gives an adopter the spare tokens of the one before',
    foundBy: ABOVE,
    change: (memory) => ({
      async adopt(request, call) {
        const reply = await memory.adopt(request, call);
        return reply.kind === 'granted' ? { ...reply, spareTokens: 10 } : reply;
      },
    }),
  },
  {
    does: 'answers a repeated request with all tokens once more',
    foundBy: AGAIN,
    change: changeGrant((granted, { spareTokens = 0 }) =>
      granted.again ? { ...granted, spareTokens, fencingToken: granted.fencingToken - spareTokens } : granted,
    ),
  },
  {
    does: 'answers a repeated request with the first token',
    foundBy: AGAIN,
    change: changeGrant((granted, { spareTokens = 0 }) =>
      granted.again ? { ...granted, fencingToken: granted.fencingToken - spareTokens } : granted,
    ),
  },
  {
    does: 'says that there are spare tokens above the last',
    foundBy: AGAIN,
    change: changeGrant((granted, { spareTokens }) => (granted.again ? { ...granted, spareTokens } : granted)),
  },
  { does: 'gives spare tokens with a tick', foundBy: TICK, change: changeGrant(given) },
  {
    does: 'reserves tokens with a tick and does not say so',
    foundBy: TICK,
    change: changeGrant((granted, request, memory) => {
      const { spareTokens, ...rest } = given(granted, request, memory);
      return request.tick === undefined ? { ...rest, spareTokens } : rest;
    }),
  },
  { does: 'gives spare tokens though others wait', foundBy: OTHERS, change: changeGrant(given) },
  {
    does: 'gives spare tokens though others wait, to one who replaces its own lease',
    foundBy: OTHERS,
    change: changeGrant((granted, request, memory) =>
      request.replaces === '' ? granted : given(granted, request, memory),
    ),
  },
  {
    does: 'gives spare tokens though others are parked',
    foundBy: OTHERS,
    change: changeGrant((granted, request, memory) =>
      request.mode === 'try' && request.replaces === '' ? given(granted, request, memory) : granted,
    ),
  },
  {
    does: 'takes the place of the one who asks for that of another',
    foundBy: OTHERS,
    change: changeAcquire(({ mode, spareTokens }) => ({ spareTokens: mode === 'wait' ? undefined : spareTokens })),
  },
  ...(['try', 'wait', 'park'] as const).map((mode): StoreMutant => ({
    does: `does not tell the owner when it was asked as ${mode}`,
    foundBy: TOLD,
    change: silentAbout(mode),
  })),
  {
    does: 'tells the owner once only',
    foundBy: TOLD,
    change: (memory) => {
      let told = false;
      return changeWanted((message) => (told ? [] : ((told = true), [message])))(memory);
    },
  },
  {
    does: 'tells the owner of another lease',
    foundBy: TOLD,
    change: changeWanted((message) => [{ ...message, leaseId: 'another' }]),
  },
  {
    does: 'tells the owner of another resource',
    foundBy: TOLD,
    change: changeWanted((message) => [{ ...message, resource: 'another' }]),
  },
  {
    does: 'forgets with an extension that the lease has spare tokens',
    foundBy: TOLD,
    change: (memory) => ({
      extend(items, call) {
        for (const { resource } of items) memory.edit(resource, { hasSpareTokens: false });
        return memory.extend(items, call);
      },
    }),
  },
  {
    does: 'tells every owner that others ask',
    foundBy: SILENT,
    change: changeGrant((granted, { resource }, memory) => {
      memory.edit(resource, { hasSpareTokens: true });
      return granted;
    }),
  },
  {
    does: 'tells an owner with a tick that others ask',
    foundBy: SILENT,
    change: changeGrant((granted, { resource, tick }, memory) => {
      if (tick !== null) memory.edit(resource, { hasSpareTokens: true });
      return granted;
    }),
  },
  {
    does: 'tells an adopter that others ask',
    foundBy: SILENT,
    change: (memory) => ({
      async adopt(request, call) {
        const reply = await memory.adopt(request, call);
        memory.edit(request.resource, { hasSpareTokens: true });
        return reply;
      },
    }),
  },
  {
    does: 'tells an owner who asks again that its lease is wanted',
    foundBy: SILENT,
    change: (memory) => {
      const ears = new Map<string, (message: StoreMessage) => void>();
      return {
        subscribe(channel, listener) {
          ears.set(channel, listener);
          return memory.subscribe(channel, listener);
        },
        async acquire(request, call) {
          const reply = await memory.acquire(request, call);
          const { resource, leaseId, channel } = request;
          if (reply.kind === 'granted' && reply.again) {
            ears.get(channel)?.({ kind: 'wanted', resource, leaseId, afterMs: 0 });
          }
          return reply;
        },
      };
    },
  },
];
