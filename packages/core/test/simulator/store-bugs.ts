import { grantOf, type Grant } from '../../src/fence/fence.ts';
import type { Mark } from '../testing/plain-fence.ts';
import { PlainFence } from '../testing/plain-fence.ts';
import type { SeededBug } from './bug.ts';
import { changing, fenceOf, reaching } from './replacing.ts';

/** LeaseIds that wait, of all processes of a run. */
const waiting = new Set<string>();

/** What a store or a fence could do wrong with those who come one after the other. */
export const storeBugs: readonly SeededBug[] = [
  {
    does: 'a store that extends what was revoked',
    mutation: 'revoked goes on',
    foundBy: 'S17',
    store: (memory) => ({
      async revoke(request, call) {
        const reply = await memory.revoke(request, call);
        memory.edit(request.resource, { revoked: '' });
        return reply;
      },
    }),
  },
  {
    does: 'a store that has a lease adopted by whoever comes with an old ticket',
    foundBy: 'S20',
    store: (memory) => ({
      async adopt(request, call) {
        const record = await memory.read(request.resource, call);
        return memory.adopt({ ...request, from: record?.leaseId ?? request.from }, call);
      },
    }),
  },
  {
    does: 'a store that gives to whoever asks first, and not to who waits',
    foundBy: 'S22',
    engine() {
      waiting.clear();
      return () => waiting.clear();
    },
    store: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind === 'queued') waiting.add(request.leaseId);
        if ((reply.kind !== 'queued' && reply.kind !== 'busy') || reply.reason !== 'turn') return reply;
        for (const leaseId of waiting) {
          const { resource } = request;
          await memory.cancel(
            {
              resource,
              leaseId,
              outcome: 'not-started',
              floor: 0,
              job: undefined,
              tombstoneMs: 0,
              history: 'exceptions',
              retentionMs: undefined,
            },
            call,
          );
        }
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'a store that grants at once where nothing is known',
    foundBy: 'S23',
    store: (memory) => ({ acquire: (request, call) => memory.acquire({ ...request, quarantineMs: 0 }, call) }),
  },
  {
    does: 'an owner that does not ask for the quarantine that it was told to keep',
    foundBy: 'S23',
    from: 80,
    hand: (store) =>
      changing(store, ['acquire'], (send, request, call) => send({ ...(request as object), quarantineMs: 0 }, call)),
  },
  {
    does: 'a store that grants an expired leaseId again',
    mutation: 'expired again',
    foundBy: 'S10',
    from: 280,
    store: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'spent') return reply;
        memory.edit(request.resource, { leaseId: 'f'.repeat(32) });
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'a fence whose seal lets the grant through that has the same token',
    mutation: 'equal seal',
    foundBy: 'S1',
    fence: fenceOf(
      class extends PlainFence {
        override admits(highest: Mark | null, grant: Grant): boolean {
          const isSealed = highest?.leaseId === null && highest.fencingToken === grant.fencingToken;
          return isSealed || super.admits(highest, grant);
        }
      },
    ),
  },
  {
    does: 'a client that writes with the grant that was activated last',
    foundBy: 'S24',
    reach(fence) {
      let last: Grant | undefined;
      return reaching(fence, {
        activate(grant) {
          last = grantOf(grant);
          return fence.activate(grant);
        },
        write: (grant, body) => fence.write(last ?? grant, body),
      });
    },
  },
];
