import { expect } from 'vitest';

import type { StoreCall } from '../../store/store.ts';
import { newLeaseId, unique, yieldOnce } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';

/** Reads, lets others run, writes: every overlap of two workers loses an update. */
async function countUnguarded(clients: readonly StoreContext[], mode: 'try' | 'wait'): Promise<void> {
  const workers = 12;
  const rounds = 8;
  let count = 0;
  const work = async (client: StoreContext): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const leaseId = newLeaseId();
      await client.until('a grant', async () => {
        const reply = await client.acquire({ leaseId, mode });
        return reply.kind === 'granted' ? reply : undefined;
      });
      const seen = count;
      await yieldOnce();
      await yieldOnce();
      count = seen + 1;
      expect(await client.release(leaseId)).toEqual({ kind: 'released' });
    }
  };
  await Promise.all(
    Array.from({ length: workers }, (_, worker) => work(clients[worker % clients.length] as StoreContext)),
  );
  expect(count).toBe(workers * rounds);
}

export const ownershipCases: readonly StoreCase[] = [
  {
    name: 'workers that try lose no update of an unguarded counter',
    needs: [],
    run: (context) => countUnguarded([context], 'try'),
  },
  {
    name: 'workers that wait lose no update of an unguarded counter',
    needs: [],
    run: (context) => countUnguarded([context], 'wait'),
  },
  {
    name: 'two stores on the same data exclude each other',
    needs: ['second'],
    run: async (context) => countUnguarded([context, context.over(await context.hook('second')())], 'try'),
  },
  {
    name: 'two stores on the same data see each other',
    needs: ['second'],
    async run(context) {
      const other = context.over(await context.hook('second')());
      const { leaseId, fencingToken } = await context.grant();
      expect(await other.acquire()).toMatchObject({ kind: 'busy', holder: { fencingToken } });
      expect(await other.record()).toMatchObject({ state: 'held', leaseId, fencingToken });
      expect(await other.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      expect(await other.release(leaseId)).toEqual({ kind: 'released' });
      expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'released' });
    },
  },
  {
    name: 'a free resource is granted; a held one is busy and names its holder',
    needs: [],
    async run(context) {
      const first = await context.grant({ ttlMs: 20_000, owner: { line: 'first owner', json: '{}' } });
      expect(first).toMatchObject({ again: false, remainingMs: expect.any(Number) });
      expect(first.remainingMs).toBeGreaterThan(19_000);
      expect(first.remainingMs).toBeLessThanOrEqual(20_000);
      const busy = await context.acquire();
      expect(busy).toMatchObject({
        kind: 'busy',
        reason: 'held',
        holder: { owner: 'first owner', fencingToken: first.fencingToken },
      });
      const { remainingMs } = busy as { remainingMs: number };
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(20_000);
    },
  },
  {
    name: 'the same leaseId sent twice grants once and does not move the expiry',
    needs: [],
    async run(context) {
      const request = context.request({ ttlMs: 20_000 });
      const first = await context.store.acquire(request, context.call);
      expect(first).toMatchObject({ kind: 'granted', again: false });
      const { fencingToken } = first as { fencingToken: number };
      const before = await context.record();
      await context.until('time to pass', async () =>
        (await context.record()).nowUs - before.acquiredUs > 50_000 ? true : undefined,
      );
      const again = await context.store.acquire(request, context.call);
      expect(again).toMatchObject({ kind: 'granted', again: true, fencingToken });
      expect((again as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(19_950);
      expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
    },
  },
  {
    name: 'the same request many times at once grants once',
    needs: [],
    async run(context) {
      const request = context.request();
      const replies = await Promise.all(Array.from({ length: 10 }, () => context.store.acquire(request, context.call)));
      const tokens = new Set(replies.map((reply) => (reply.kind === 'granted' ? reply.fencingToken : reply.kind)));
      expect(tokens.size).toBe(1);
      expect(replies.filter((reply) => reply.kind === 'granted' && !reply.again)).toHaveLength(1);
      expect((await context.record()).fencingToken).toBe([...tokens][0]);
    },
  },
  {
    name: 'a released leaseId is spent',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      await context.release(leaseId);
      expect(await context.acquire({ leaseId })).toEqual({ kind: 'spent' });
      expect(await context.acquire({ leaseId, mode: 'wait' })).toEqual({ kind: 'spent' });
      expect((await context.record()).state).toBe('free');
    },
  },
  {
    name: 'an expired leaseId is spent, though nobody took the resource',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 120 });
      await context.expired();
      expect(await context.acquire({ leaseId })).toEqual({ kind: 'spent' });
      expect((await context.record()).state).toBe('expired');
      await context.grant();
    },
  },
  {
    name: 'an expired lease is not revived by extend, though nobody took the resource',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 120 });
      await context.expired();
      expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'expired' });
      expect((await context.record()).state).toBe('expired');
      await context.grant();
      expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'superseded' });
    },
  },
  {
    name: 'extend moves the expiry to its ttl after now',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant({ ttlMs: 5_000 });
      const verdict = await context.extend(leaseId, 20_000);
      expect(verdict).toMatchObject({ verdict: 'extended' });
      const { remainingMs } = verdict as { remainingMs: number };
      expect(remainingMs).toBeGreaterThan(19_000);
      expect(remainingMs).toBeLessThanOrEqual(20_000);
      const record = await context.record();
      expect(record).toMatchObject({ state: 'held', leaseId, fencingToken, extensions: 1 });
      expect(record.expiresUs - record.extendedUs).toBe(20_000_000);
      expect(record.extendedUs).toBeGreaterThanOrEqual(record.acquiredUs);
    },
  },
  {
    name: 'extend with a shorter ttl brings the expiry no closer',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 20_000 });
      const { expiresUs } = await context.record();
      const verdict = await context.extend(leaseId, 1_000);
      expect(verdict).toMatchObject({ verdict: 'extended' });
      expect((verdict as { remainingMs: number }).remainingMs).toBeGreaterThan(1_000);
      expect((await context.record()).expiresUs).toBe(expiresUs);
      // Whoever comes now must not take it for a deadline of a clock that went back.
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'held' });
      expect((await context.record()).expiresUs).toBe(expiresUs);
    },
  },
  {
    name: 'extend tells why a lease is lost',
    needs: [],
    async run(context) {
      expect(await context.extend(newLeaseId())).toEqual({ verdict: 'lost', reason: 'missing' });
      const { leaseId } = await context.grant();
      expect(await context.extend(newLeaseId())).toEqual({ verdict: 'lost', reason: 'superseded' });
      await context.release(leaseId);
      expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'released' });
    },
  },
  {
    name: 'a batch of extends has one verdict for each item, in their order',
    needs: [],
    async run(context) {
      const held = await Promise.all(
        Array.from({ length: 40 }, async (_, index) => {
          const resource = unique('batch');
          const { leaseId } = await context.grant({ resource, ttlMs: 10_000 + index * 1_000 });
          return { resource, leaseId, ttlMs: 20_000 + index * 1_000 };
        }),
      );
      const wrong = held.map((item, index) => (index % 4 === 1 ? { ...item, leaseId: newLeaseId() } : item));
      const verdicts = await context.store.extend(wrong, context.call);
      expect(verdicts).toHaveLength(wrong.length);
      for (const [index, verdict] of verdicts.entries()) {
        if (index % 4 === 1) {
          expect(verdict).toEqual({ verdict: 'lost', reason: 'superseded' });
        } else {
          expect(verdict).toMatchObject({ verdict: 'extended' });
          const { remainingMs } = verdict as { remainingMs: number };
          expect(Math.abs(remainingMs - (20_000 + index * 1_000))).toBeLessThan(1_000);
        }
      }
      expect(await context.store.extend([], context.call)).toEqual([]);
    },
  },
  {
    name: 'release makes the resource free at once, and again is lost',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant({ owner: { line: 'leaver', json: '{}' } });
      expect(await context.release(leaseId)).toEqual({ kind: 'released' });
      const record = await context.record();
      expect(record).toMatchObject({ state: 'free', owner: '', ownerJson: '', fencingToken, revoked: false });
      expect(record.previous).toMatchObject({ owner: 'leaver', fencingToken });
      expect(record.expiresUs).toBeLessThanOrEqual(record.nowUs);
      expect(await context.release(leaseId)).toEqual({ kind: 'lost', reason: 'released' });
      expect(await context.record()).toEqual({ ...record, nowUs: expect.any(Number) });
      await context.grant();
      expect((await context.record()).previous).toEqual(record.previous);
    },
  },
  {
    name: 'release of an expired lease is lost, and leaves the resource free',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant({ ttlMs: 120 });
      const { expiresUs } = await context.expired();
      expect(await context.release(leaseId)).toEqual({ kind: 'lost', reason: 'expired' });
      expect(await context.record()).toMatchObject({
        state: 'free',
        previous: { fencingToken, endUs: expiresUs, reason: 'expired' },
      });
    },
  },
  {
    name: 'release without a record is missing',
    needs: [],
    async run(context) {
      expect(await context.release(newLeaseId())).toEqual({ kind: 'lost', reason: 'missing' });
      await context.grant();
    },
  },
  {
    name: 'a late release, extend or cancel of an old leaseId touches nothing of its successor',
    needs: [],
    async run(context) {
      const old = await context.grant({ ttlMs: 120 });
      await context.expired();
      const successor = await context.grant();
      const before = await context.record();
      const floor = successor.fencingToken + 1_000_000;
      expect(await context.extend(old.leaseId)).toEqual({ verdict: 'lost', reason: 'superseded' });
      expect(await context.release(old.leaseId, { floor })).toEqual({ kind: 'lost', reason: 'superseded' });
      expect(await context.cancel(old.leaseId, { floor, tombstoneMs: 60_000 })).toEqual({ kind: 'nothing' });
      expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
      expect(await context.extend(successor.leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'read tells absent, held, expired and free, and changes nothing',
    needs: [],
    async run(context) {
      expect(await context.read()).toBeNull();
      const owner = {
        line: 'web-1 pid 7 "quoted" \\ é 🦊',
        json: JSON.stringify({ host: 'é "🦊"', note: 'x'.repeat(2_000) }),
      };
      const { leaseId, fencingToken } = await context.grant({ ttlMs: 400, owner });
      const held = await context.record();
      expect(held).toMatchObject({ state: 'held', owner: owner.line, ownerJson: owner.json, leaseId, fencingToken });
      expect(held).toMatchObject({ ttlMs: 400, extensions: 0, revoked: false, previous: null, waiting: 0 });
      expect(held.expiresUs - held.acquiredUs).toBe(400_000);
      expect(held.extendedUs).toBe(held.acquiredUs);
      expect(held.nowUs).toBeGreaterThanOrEqual(held.acquiredUs);
      const expired = await context.expired();
      expect(expired).toEqual({ ...held, state: 'expired', nowUs: expect.any(Number) });
      const next = await context.grant();
      expect((await context.record()).previous).toEqual({
        owner: owner.line,
        fencingToken,
        endUs: held.expiresUs,
        reason: 'expired',
      });
      await context.release(next.leaseId);
      expect((await context.record()).state).toBe('free');
    },
  },
  {
    name: 'each call says that it was sent before it settles',
    needs: [],
    async run(context) {
      const { store, resource } = context;
      const request = context.request();
      const { leaseId } = request;
      const end = { resource, leaseId, outcome: 'done', floor: 0, history: 'exceptions' } as const;
      const calls: Record<string, (call: StoreCall) => Promise<unknown>> = {
        acquire: (call) => store.acquire(request, call),
        extend: (call) => store.extend([{ resource, leaseId, ttlMs: 30_000 }], call),
        read: (call) => store.read(resource, call),
        release: (call) => store.release(end, call),
        cancel: (call) => store.cancel({ ...end, tombstoneMs: 1_000 }, call),
      };
      for (const [name, run] of Object.entries(calls)) {
        let sent = 0;
        await run({ ...context.call, sent: () => sent++ });
        expect([name, sent > 0]).toEqual([name, true]);
      }
    },
  },
  {
    name: 'a closed store rejects what comes later as never sent',
    needs: [],
    async run(context) {
      await context.store.close();
      const error = await context.refused('STORE_UNAVAILABLE', context.acquire());
      expect(error).toMatchObject({ mayHaveRun: false });
      await context.refused('STORE_UNAVAILABLE', context.extend(newLeaseId()));
    },
  },
];
