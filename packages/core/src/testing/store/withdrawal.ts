import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase } from './context.ts';

const TOMBSTONE_MS = 60_000;

/** Cancel and replaces: the ways a tenure ends, or never begins, other than by release and expiry. */
export const withdrawalCases: readonly StoreCase[] = [
  {
    name: 'cancel before its acquire: the packet under way never becomes owner',
    needs: [],
    async run(context) {
      const leaseId = newLeaseId();
      expect(await context.cancel(leaseId, { tombstoneMs: TOMBSTONE_MS })).toEqual({ kind: 'nothing' });
      expect(await context.acquire({ leaseId })).toEqual({ kind: 'cancelled' });
      expect(await context.acquire({ leaseId, mode: 'wait' })).toEqual({ kind: 'cancelled' });
      await context.grant();
      expect((await context.record()).waiting).toBe(0);
    },
  },
  {
    name: 'cancel after its acquire: the resource is free, a repeated packet never becomes owner again',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      expect(await context.cancel(leaseId, { tombstoneMs: TOMBSTONE_MS })).toEqual({ kind: 'ended' });
      expect(await context.cancel(leaseId, { tombstoneMs: TOMBSTONE_MS })).toEqual({ kind: 'nothing' });
      const next = await context.grant();
      await context.release(next.leaseId);
      // By now the record has forgotten this leaseId: only the tombstone knows.
      expect(await context.acquire({ leaseId })).toEqual({ kind: 'cancelled' });
    },
  },
  {
    name: 'cancel of an owner without a tombstone frees the resource, and its leaseId is spent',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      expect(await context.cancel(leaseId)).toEqual({ kind: 'ended' });
      expect((await context.record()).state).toBe('free');
      expect(await context.acquire({ leaseId })).toEqual({ kind: 'spent' });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'lost' });
      await context.grant();
    },
  },
  {
    name: 'cancel of a stranger takes nothing from the owner',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      expect(await context.cancel(newLeaseId(), { tombstoneMs: TOMBSTONE_MS })).toEqual({ kind: 'nothing' });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'a tombstone ends when its time is up',
    needs: [],
    async run(context) {
      const leaseId = newLeaseId();
      await context.cancel(leaseId, { tombstoneMs: 300 });
      expect(await context.acquire({ leaseId })).toEqual({ kind: 'cancelled' });
      const reply = await context.until('the end of the tombstone', async () => {
        const answer = await context.acquire({ leaseId });
        return answer.kind === 'cancelled' ? undefined : answer;
      });
      expect(reply).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'at most eight tombstones, the oldest goes first',
    needs: [],
    async run(context) {
      const ids = Array.from({ length: 9 }, newLeaseId);
      for (const leaseId of ids) await context.cancel(leaseId, { tombstoneMs: TOMBSTONE_MS });
      const [oldest, ...kept] = ids;
      for (const leaseId of kept) expect(await context.acquire({ leaseId })).toEqual({ kind: 'cancelled' });
      await context.grant({ leaseId: oldest as string });
    },
  },
  {
    name: 'a cancel sent many times leaves one tombstone',
    needs: [],
    async run(context) {
      const [first, second] = [newLeaseId(), newLeaseId()];
      await context.cancel(first, { tombstoneMs: TOMBSTONE_MS });
      for (let time = 0; time < 12; time++) await context.cancel(second, { tombstoneMs: TOMBSTONE_MS });
      expect(await context.acquire({ leaseId: first })).toEqual({ kind: 'cancelled' });
      expect(await context.acquire({ leaseId: second })).toEqual({ kind: 'cancelled' });
    },
  },
  {
    name: 'replaces takes the place of a held lease in one step, with a greater token',
    needs: [],
    async run(context) {
      const old = await context.grant({ owner: { line: 'before', json: '{}' } });
      const floor = old.fencingToken + 5_000_000;
      const request = context.request({ replaces: old.leaseId, floor });
      const reply = await context.store.acquire(request, context.call);
      expect(reply).toMatchObject({ kind: 'granted', again: false });
      const { fencingToken } = reply as { fencingToken: number };
      expect(fencingToken).toBeGreaterThan(floor);
      expect(await context.extend(old.leaseId)).toEqual({ verdict: 'lost', reason: 'superseded' });
      expect(await context.acquire()).toMatchObject({ kind: 'busy', holder: { fencingToken } });
      expect(await context.store.acquire(request, context.call)).toMatchObject({
        kind: 'granted',
        again: true,
        fencingToken,
      });
      expect((await context.record()).previous).toMatchObject({ owner: 'before', fencingToken: old.fencingToken });
    },
  },
  {
    name: 'replaces does not wait for those in the queue',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const waiter = newLeaseId();
      expect(await context.acquire({ leaseId: waiter, mode: 'wait' })).toMatchObject({ kind: 'queued', position: 0 });
      const { leaseId } = await context.grant({ replaces: old.leaseId });
      expect(await context.acquire({ leaseId: waiter, mode: 'wait' })).toMatchObject({ kind: 'queued', position: 0 });
      await context.release(leaseId);
      await context.grant({ leaseId: waiter, mode: 'wait' });
    },
  },
  {
    name: 'replaces counts for nothing once its lease is not held',
    needs: [],
    async run(context) {
      const old = await context.grant({ ttlMs: 300 });
      await context.expired();
      const successor = await context.grant();
      expect(await context.acquire({ replaces: old.leaseId })).toMatchObject({ kind: 'busy', reason: 'held' });
      expect(await context.extend(successor.leaseId)).toMatchObject({ verdict: 'extended' });
      await context.release(successor.leaseId);
      await context.grant({ replaces: old.leaseId });
    },
  },
  {
    name: 'replaces of a lease that ran out, with others in the queue, is an acquire like any other',
    needs: [],
    async run(context) {
      const old = await context.grant({ ttlMs: 300 });
      const waiter = newLeaseId();
      await context.acquire({ leaseId: waiter, mode: 'wait' });
      await context.expired();
      expect(await context.acquire({ replaces: old.leaseId })).toMatchObject({ kind: 'busy', reason: 'turn' });
      await context.grant({ leaseId: waiter, mode: 'wait' });
    },
  },
];
