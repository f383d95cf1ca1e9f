import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase } from './context.ts';

const HOUR_US = 3_600_000_000;
const MINUTE_MS = 60_000;

export const handoverCases: readonly StoreCase[] = [
  {
    name: 'adopt makes the lease another’s, with a new leaseId and a greater token',
    needs: [],
    async run(context) {
      const old = await context.grant({ ttlMs: 5_000, owner: { line: 'giver', json: '{}' } });
      await context.extend(old.leaseId, 5_000);
      const leaseId = newLeaseId();
      const reply = await context.adopt(old.leaseId, { leaseId, ttlMs: 20_000 });
      expect(reply).toMatchObject({ kind: 'granted', again: false });
      const { fencingToken, remainingMs } = reply as { fencingToken: number; remainingMs: number };
      expect(fencingToken).toBeGreaterThan(old.fencingToken);
      expect(remainingMs).toBeGreaterThan(19_000);
      expect(remainingMs).toBeLessThanOrEqual(20_000);
      const record = await context.record();
      expect(record).toMatchObject({ state: 'held', owner: 'adopter', leaseId, fencingToken, ttlMs: 20_000 });
      expect(record).toMatchObject({ ownerJson: '{"host":"adopter"}', extensions: 0, revoked: false });
      expect(record.expiresUs - record.acquiredUs).toBe(20_000_000);
      expect(record.previous).toMatchObject({ owner: 'giver', fencingToken: old.fencingToken });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      expect(await context.release(leaseId)).toEqual({ kind: 'released' });
      expect((await context.grant()).fencingToken).toBeGreaterThan(fencingToken);
    },
  },
  {
    name: 'after adopt, nothing that the old leaseId sends touches the new one',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const leaseId = newLeaseId();
      await context.adopt(old.leaseId, { leaseId });
      const before = await context.record();
      expect(await context.extend(old.leaseId)).toEqual({ verdict: 'lost', reason: 'superseded' });
      expect(await context.release(old.leaseId)).toEqual({ kind: 'lost', reason: 'superseded' });
      expect(await context.cancel(old.leaseId)).toEqual({ kind: 'nothing' });
      expect(await context.acquire({ leaseId: old.leaseId })).toMatchObject({ kind: 'busy', reason: 'held' });
      expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
    },
  },
  {
    name: 'the second to adopt is superseded',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const leaseIds = Array.from({ length: 10 }, newLeaseId);
      const replies = await Promise.all(leaseIds.map((leaseId) => context.adopt(old.leaseId, { leaseId })));
      expect(replies.filter(({ kind }) => kind === 'granted')).toHaveLength(1);
      const others = replies.filter(({ kind }) => kind !== 'granted');
      for (const reply of others) expect(reply).toEqual({ kind: 'lost', reason: 'superseded' });
      const winner = leaseIds[replies.findIndex(({ kind }) => kind === 'granted')];
      expect(await context.record()).toMatchObject({ state: 'held', leaseId: winner });
      expect(await context.adopt(old.leaseId)).toEqual({ kind: 'lost', reason: 'superseded' });
      expect(await context.record()).toMatchObject({ state: 'held', leaseId: winner });
    },
  },
  {
    name: 'adopt sent again answers the same grant and does not move the expiry',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const leaseId = newLeaseId();
      const first = await context.adopt(old.leaseId, { leaseId, ttlMs: 20_000 });
      const before = await context.record();
      await context.pass(50);
      const again = await context.adopt(old.leaseId, { leaseId, ttlMs: 20_000 });
      const { fencingToken } = first as { fencingToken: number };
      expect(again).toMatchObject({ kind: 'granted', again: true, fencingToken });
      expect((again as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(19_950);
      expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
      await context.release(leaseId);
      expect(await context.adopt(old.leaseId, { leaseId })).toEqual({ kind: 'spent' });
    },
  },
  {
    name: 'a lease that is not held cannot be adopted',
    needs: [],
    async run(context) {
      expect(await context.adopt(newLeaseId())).toEqual({ kind: 'lost', reason: 'missing' });
      expect(await context.read()).toBeNull();
      const old = await context.grant({ ttlMs: 120 });
      await context.expired();
      expect(await context.adopt(old.leaseId)).toEqual({ kind: 'lost', reason: 'expired' });
      expect((await context.record()).state).toBe('expired');
      await context.release(old.leaseId);
      expect(await context.adopt(old.leaseId)).toEqual({ kind: 'lost', reason: 'released' });
      expect(await context.adopt(newLeaseId())).toEqual({ kind: 'lost', reason: 'superseded' });
      expect((await context.record()).state).toBe('free');
    },
  },
  {
    name: 'a revoked lease cannot be adopted, an adopted one can be revoked',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const leaseId = newLeaseId();
      await context.adopt(old.leaseId, { leaseId });
      expect(await context.revoke(old.leaseId)).toEqual({ kind: 'lost', reason: 'superseded' });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      expect(await context.revoke(leaseId)).toMatchObject({ kind: 'revoked' });
      expect(await context.adopt(leaseId)).toEqual({ kind: 'lost', reason: 'revoked' });
      expect(await context.record()).toMatchObject({ state: 'held', leaseId, revoked: true });
    },
  },
  {
    name: 'a cancelled adoption never comes about',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const leaseId = newLeaseId();
      await context.cancel(leaseId, { tombstoneMs: MINUTE_MS });
      expect(await context.adopt(old.leaseId, { leaseId })).toEqual({ kind: 'cancelled' });
      expect(await context.extend(old.leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'adopt obeys its floor',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const floor = (await context.nowUs()) + HOUR_US;
      expect(await context.adopt(old.leaseId, { floor: floor + 47 * HOUR_US })).toMatchObject({ kind: 'out-of-range' });
      expect(await context.extend(old.leaseId)).toMatchObject({ verdict: 'extended' });
      expect(await context.adopt(old.leaseId, { floor })).toMatchObject({ kind: 'granted', fencingToken: floor + 1 });
    },
  },
  {
    name: 'the tick goes over: its claim, its outcome, and what stood there before',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const before = { ...tick, at: tick.at - MINUTE_MS };
      await context.release((await context.grant({ tick: before })).leaseId, { job: 'job' });
      const old = await context.grant({ tick });
      const leaseId = newLeaseId();
      const reply = await context.adopt(old.leaseId, { leaseId, job: 'job' });
      const { fencingToken } = reply as { fencingToken: number };
      expect(await context.acquire({ tick })).toMatchObject({ kind: 'tick', reason: 'already-ran' });
      // The old one no longer has a say in it.
      await context.release(old.leaseId, { job: 'job', outcome: 'not-started' });
      expect(await context.store.ticks(context.resource, 'job', context.call)).toMatchObject([
        { at: tick.at, status: 'claimed', fencingToken, owner: 'adopter' },
        { at: before.at, status: 'done', owner: 'suite' },
      ]);
      await context.release(leaseId, { job: 'job', outcome: 'failed' });
      expect(await context.store.ticks(context.resource, 'job', context.call)).toMatchObject([
        { at: tick.at, status: 'failed' },
        { at: before.at, status: 'done' },
      ]);
    },
  },
  {
    name: 'adopt without a job, or of another’s job, takes no tick',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 5 });
      const old = await context.grant({ tick });
      const leaseId = newLeaseId();
      await context.adopt(old.leaseId, { leaseId });
      const next = newLeaseId();
      await context.adopt(leaseId, { leaseId: next, job: 'job' });
      await context.release(next, { job: 'job', outcome: 'failed' });
      expect(await context.store.ticks(context.resource, 'job', context.call)).toMatchObject([{ status: 'claimed' }]);
      await context.release(old.leaseId, { job: 'job', outcome: 'done' });
      expect(await context.store.ticks(context.resource, 'job', context.call)).toMatchObject([{ status: 'done' }]);
    },
  },
  {
    name: 'adopt does not wait for those in the queue, and they keep their places',
    needs: [],
    async run(context) {
      const old = await context.grant();
      const waiter = newLeaseId();
      await context.acquire({ leaseId: waiter, mode: 'wait' });
      const leaseId = newLeaseId();
      expect(await context.adopt(old.leaseId, { leaseId })).toMatchObject({ kind: 'granted' });
      expect(await context.acquire({ leaseId: waiter, mode: 'wait' })).toMatchObject({ kind: 'queued', position: 0 });
      await context.release(leaseId);
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      await context.grant({ leaseId: waiter, mode: 'wait' });
    },
  },
];
