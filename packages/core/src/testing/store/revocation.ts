import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase } from './context.ts';

export const revocationCases: readonly StoreCase[] = [
  {
    name: 'a revoked lease is told so at its next extend, not extended, and still held',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 20_000 });
      const granted = await context.record();
      const reply = await context.revoke(leaseId);
      expect(reply).toMatchObject({ kind: 'revoked' });
      expect((reply as { remainingMs: number }).remainingMs).toBeGreaterThan(10_000);
      expect((reply as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(20_000);
      const before = await context.record();
      expect(before).toEqual({ ...granted, revoked: true, nowUs: expect.any(Number) });
      const verdict = await context.extend(leaseId, 30_000);
      expect(verdict).toMatchObject({ verdict: 'revoked' });
      const { remainingMs } = verdict as { remainingMs: number };
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(20_000);
      expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'held' });
      expect(await context.release(leaseId)).toEqual({ kind: 'released' });
      expect((await context.record()).revoked).toBe(false);
    },
  },
  {
    name: 'revoke sent again changes nothing more',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      await context.revoke(leaseId, 'first');
      const before = await context.record();
      const log = await context.history();
      expect(await context.revoke(leaseId, 'second')).toMatchObject({ kind: 'revoked' });
      expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
      expect(await context.history()).toEqual(log);
      expect(log).toHaveLength(1);
    },
  },
  {
    name: 'revoke of a leaseId that is not held changes nothing, and tells why',
    needs: [],
    async run(context) {
      expect(await context.revoke(newLeaseId())).toEqual({ kind: 'lost', reason: 'missing' });
      expect(await context.read()).toBeNull();
      const old = await context.grant({ ttlMs: 120 });
      await context.expired();
      expect(await context.revoke(old.leaseId)).toEqual({ kind: 'lost', reason: 'expired' });
      const { leaseId } = await context.grant();
      expect(await context.revoke(old.leaseId)).toEqual({ kind: 'lost', reason: 'superseded' });
      expect(await context.revoke('')).toMatchObject({ kind: 'lost' });
      expect((await context.record()).revoked).toBe(false);
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      await context.release(leaseId);
      const free = await context.record();
      expect(await context.revoke(leaseId)).toEqual({ kind: 'lost', reason: 'released' });
      expect(await context.record()).toEqual({ ...free, nowUs: expect.any(Number) });
    },
  },
  {
    name: 'a revoked lease is not replaced',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      await context.revoke(leaseId);
      expect(await context.acquire({ replaces: leaseId })).toMatchObject({ kind: 'busy', reason: 'held' });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'revoked' });
    },
  },
  {
    name: 'a revocation ends with the tenure that it was meant for',
    needs: [],
    async run(context) {
      for (const end of ['release', 'expiry'] as const) {
        const { leaseId } = await context.grant({ ttlMs: 300 });
        await context.revoke(leaseId);
        if (end === 'release') {
          await context.release(leaseId);
        } else {
          await context.expired();
          expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'expired' });
        }
        const next = await context.grant();
        expect((await context.record()).revoked).toBe(false);
        expect(await context.extend(next.leaseId)).toMatchObject({ verdict: 'extended' });
        await context.release(next.leaseId);
      }
    },
  },
  {
    name: 'a mark of revocation that names another leaseId means nothing',
    needs: ['setField'],
    async run(context) {
      const { leaseId } = await context.grant();
      await context.hook('setField')(context.resource, 'revoked', newLeaseId());
      expect((await context.record()).revoked).toBe(false);
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'revoke opens the resource to nobody before release or expiry',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 400 });
      const waiter = newLeaseId();
      await context.acquire({ leaseId: waiter, mode: 'wait' });
      await context.revoke(leaseId);
      expect(await context.acquire({ leaseId: waiter, mode: 'wait' })).toMatchObject({
        kind: 'queued',
        reason: 'held',
      });
      await context.expired();
      await context.grant({ leaseId: waiter, mode: 'wait' });
    },
  },
];
