import { Tenure } from '../../src/lease/tenure.ts';
import { Keeper } from '../../src/lease/keeper.ts';
import { OwnerClock } from '../../src/lease/term.ts';
import type { Grant } from '../../src/fence/fence.ts';
import type { Mark } from '../testing/plain-fence.ts';
import { PlainFence } from '../testing/plain-fence.ts';
import type { SeededBug } from './bug.ts';
import { lingerBugs } from './linger-bugs.ts';
import { counted, moreBugs } from './more-bugs.ts';
import { ownerBugs } from './owner-bugs.ts';
import { changing, fenceOf, replacing } from './replacing.ts';
import { storeBugs } from './store-bugs.ts';

class TokenOnly extends PlainFence {
  override admits(highest: Mark | null, grant: Grant): boolean {
    return highest === null || grant.fencingToken >= highest.fencingToken;
  }
}

export const seededBugs: readonly SeededBug[] = [
  {
    does: 'a fence that admits lower tokens',
    foundBy: 'S1',
    fence: fenceOf(
      class extends PlainFence {
        override admits(): boolean {
          return true;
        }
      },
    ),
  },
  {
    does: 'tokens that are counted, a fence that compares them alone, and a loss of the data',
    mutation: 'token alone',
    foundBy: 'S2',
    store: counted,
    fence: fenceOf(TokenOnly),
  },
  {
    does: 'a fence that checks before the write, and not as a part of it',
    mutation: 'check outside',
    foundBy: 'S3',
    fence: fenceOf(
      class extends PlainFence {
        override store(...[, , , changes]: Parameters<PlainFence['store']>): void {
          for (const [key, entry] of changes) this.ground.values.set(key, entry);
        }
      },
    ),
  },
  {
    does: 'bodies that read before anything was activated',
    foundBy: 'S4',
    acquire: { activate: 'on-write' },
  },
  {
    does: 'a fence that refuses the same grant when it comes again',
    foundBy: 'S5',
    fence: fenceOf(
      class extends PlainFence {
        override admits(highest: Mark | null, grant: Grant): boolean {
          return highest === null || grant.fencingToken > highest.fencingToken;
        }
        override store(...[, , , changes]: Parameters<PlainFence['store']>): void {
          for (const [key, entry] of changes) this.ground.values.set(key, entry);
        }
      },
    ),
  },
  {
    does: 'an owner that remembers that it holds its lease, instead of computing it',
    mutation: 'flag',
    foundBy: 'S6',
    engine: replacing(Tenure.prototype, 'isHeld', function isHeld(this: Tenure): boolean {
      return this.live;
    }),
  },
  {
    does: 'an owner that goes by its wall clock alone',
    mutation: 'wall clock',
    foundBy: 'S6',
    engine: replacing(OwnerClock.prototype, 'since', function since(this: OwnerClock, stamp) {
      const { wallMs } = this.stamp();
      const elapsed = wallMs - stamp.wallMs;
      return { monotonicMs: elapsed, wallMs: elapsed, uptimeMs: elapsed };
    }),
  },
  {
    does: 'an owner that counts from the answer',
    mutation: 'from the reply',
    foundBy: 'S6',
    hand: (store) =>
      changing(store, ['acquire', 'extend'], async (send, request, call) => {
        const reply = await send(request, call);
        call.sent?.();
        return reply;
      }),
  },
  {
    does: 'an owner that goes on extending what it has released',
    foundBy: 'S7',
    engine() {
      const repairs = [
        replacing(Tenure.prototype, 'beginRelease', function beginRelease(this: Tenure): boolean {
          return this.isHeld();
        })(),
        replacing(Tenure.prototype, 'end', () => {})(),
        replacing(Keeper.prototype, 'drop', () => {})(),
      ];
      return () => {
        for (const repair of repairs) repair();
      };
    },
  },
  {
    does: 'a release that ends the lease of whoever has it',
    foundBy: 'S8',
    store: (memory) => ({
      async release(request, call) {
        const record = await memory.read(request.resource, call);
        return memory.release({ ...request, leaseId: record?.leaseId ?? request.leaseId }, call);
      },
    }),
  },
  {
    does: 'an extend that makes the lease again that it does not find',
    mutation: 'resurrection',
    foundBy: 'S9',
    store: (memory) => ({
      async extend(items, call) {
        const verdicts = await memory.extend(items, call);
        return verdicts.map((verdict, index) =>
          verdict.verdict === 'lost' ? { verdict: 'extended', remainingMs: items[index]?.ttlMs ?? 0 } : verdict,
        );
      },
    }),
  },
  {
    does: 'an acquire that grants anew when it is asked again',
    foundBy: 'S10',
    store: (memory) => ({
      async acquire(request, call) {
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'granted' || !reply.again) return reply;
        const fencingToken = reply.fencingToken + 1;
        memory.edit(request.resource, { fencingToken });
        return { ...reply, fencingToken, again: false };
      },
    }),
  },
  {
    does: 'a store without tombstones',
    mutation: 'no tombstones',
    foundBy: 'S11',
    store: (memory) => ({ cancel: (request, call) => memory.cancel({ ...request, tombstoneMs: 0 }, call) }),
  },
  {
    does: 'a release by force without a seal',
    mutation: 'no seal',
    foundBy: 'S12',
    forcesUnsealed: true,
  },
  {
    does: 'a store that gives out smaller and smaller tokens',
    foundBy: 'S14',
    store: (memory) => ({
      async acquire(request, call) {
        const before = await memory.read(request.resource, call);
        const reply = await memory.acquire(request, call);
        if (reply.kind !== 'granted' || reply.again || before === null) return reply;
        const fencingToken = before.fencingToken - 1;
        memory.edit(request.resource, { fencingToken });
        return { ...reply, fencingToken };
      },
    }),
  },
  {
    does: 'a store that gives out what is held',
    foundBy: 'S15',
    store: (memory) => ({
      async acquire(request, call) {
        const record = await memory.read(request.resource, call);
        const isHeld = record?.state === 'held' && record.leaseId !== request.leaseId;
        if (isHeld) memory.edit(request.resource, { expiresUs: record.nowUs });
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'a store that forgets the tick when its lease is over',
    foundBy: 'S16',
    store: (memory) => ({
      acquire: ({ tick, ...request }, call) =>
        memory.acquire(
          { ...request, tick: tick && { ...tick, job: `${tick.job}-${request.leaseId.slice(0, 8)}` } },
          call,
        ),
    }),
  },
  {
    does: 'a store that never lets go of what was not released',
    foundBy: 'L1',
    store: (memory) => ({
      async acquire(request, call) {
        const record = await memory.read(request.resource, call);
        if (record?.state === 'expired') memory.edit(request.resource, { expiresUs: record.nowUs + 1_000_000 });
        return memory.acquire(request, call);
      },
    }),
  },
  {
    does: 'an owner that extends only when it is too late',
    foundBy: 'L5',
    engine: replacing(Tenure.prototype, 'refreshMs', Infinity),
  },
  {
    does: 'an owner that wakes up and first believes what came meanwhile',
    foundBy: 'L6',
    engine: replacing(Tenure.prototype, 'remainingMs', function remainingMs(this: Tenure): number {
      return this.live ? 1 : 0;
    }),
  },
  {
    does: 'calls without a deadline',
    foundBy: 'L7',
    client: (store) =>
      changing(store, ['extend', 'release'], (send, request, call) => send(request, { ...call, timeoutMs: 1_000_000 })),
  },
  ...moreBugs,
  ...ownerBugs,
  ...storeBugs,
  ...lingerBugs,
];
