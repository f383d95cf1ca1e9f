import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase } from './context.ts';

export const forceReleaseCases: readonly StoreCase[] = [
  {
    name: 'a seal of the fences is kept in the log with operator and reason, and changes no record and needs none',
    needs: [],
    async run(context) {
      await context.noteSeal(7, 'ann', 'drill');
      expect(await context.read()).toBeNull();
      const { leaseId } = await context.grant();
      const before = { ...(await context.record()), nowUs: expect.any(Number) };
      const nowUs = await context.nowUs();
      await context.noteSeal(8);
      expect(await context.record()).toEqual(before);
      const sealed = { event: 'sealed', owner: '', job: null, tickAt: null, atUs: expect.any(Number) };
      const log = await context.history();
      expect(log).toEqual([
        { ...sealed, fencingToken: 8, detail: 'operator: because' },
        { ...sealed, fencingToken: 7, detail: 'ann: drill' },
      ]);
      expect(Math.abs((log[0]?.atUs ?? 0) - nowUs)).toBeLessThan(60_000_000);
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      // The ordinary course goes on, and keeps it.
      await context.release(leaseId);
      expect(await context.history()).toEqual(log);
    },
  },
  {
    name: 'a lease that is released by force is free, its owner learns so, and the log keeps operator and reason',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant({ ttlMs: 120 });
      await context.expired();
      expect(await context.forceRelease(leaseId, { elapsedMs: 0 })).toEqual({ kind: 'released' });
      expect(await context.record()).toMatchObject({
        state: 'free',
        owner: '',
        leaseId,
        fencingToken,
        previous: { owner: 'suite', fencingToken, reason: 'force-released' },
      });
      expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'force-released' });
      expect(await context.release(leaseId)).toEqual({ kind: 'lost', reason: 'force-released' });
      expect(await context.history()).toMatchObject([
        { event: 'forced', owner: 'suite', fencingToken, detail: 'operator: because' },
      ]);
      expect(await context.acquire({ leaseId })).toMatchObject({ kind: 'spent' });
      expect((await context.grant()).fencingToken).toBeGreaterThan(fencingToken);
    },
  },
  {
    name: 'what was decided on must still be there: leaseId, token, extensions',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant();
      const before = { ...(await context.record()), nowUs: expect.any(Number) };
      expect(await context.forceRelease(newLeaseId())).toEqual({ kind: 'lost', reason: 'superseded' });
      expect(await context.forceRelease(leaseId, { fencingToken: fencingToken - 1 })).toEqual({
        kind: 'lost',
        reason: 'superseded',
      });
      expect(await context.forceRelease(leaseId, { extensions: 1 })).toEqual({ kind: 'changed' });
      expect(await context.record()).toEqual(before);
      await context.extend(leaseId);
      expect(await context.forceRelease(leaseId, { extensions: 0 })).toEqual({ kind: 'changed' });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      expect(await context.history()).toEqual([]);
      const never = context.at(`${context.resource}:never`);
      expect(await never.forceRelease(leaseId)).toEqual({ kind: 'lost', reason: 'missing' });
      expect(await never.read()).toBeNull();
    },
  },
  {
    name: 'a lease that has not run out for so long is left alone',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 120 });
      const running = await context.forceRelease(leaseId, { elapsedMs: 60_000 });
      expect(running).toMatchObject({ kind: 'running' });
      const { remainingMs } = running as { remainingMs: number };
      expect(remainingMs).toBeGreaterThan(59_000);
      expect(remainingMs).toBeLessThanOrEqual(60_120);
      await context.expired();
      expect(await context.forceRelease(leaseId, { elapsedMs: 60_000 })).toMatchObject({ kind: 'running' });
      expect((await context.record()).state).toBe('expired');
    },
  },
  {
    name: 'of two operators only one releases',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant();
      const both = await Promise.all([context.forceRelease(leaseId), context.forceRelease(leaseId)]);
      expect(both.map(({ kind }) => kind).sort()).toEqual(['lost', 'released']);
      expect(both).toContainEqual({ kind: 'lost', reason: 'force-released' });
      const next = await context.grant();
      // Whoever comes with what was decided on before harms no successor.
      expect(await context.forceRelease(leaseId, { fencingToken, extensions: 0 })).toEqual({
        kind: 'lost',
        reason: 'superseded',
      });
      expect(await context.extend(next.leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'the token is raised to what the fences were sealed with, unless that is out of range',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant();
      const floor = fencingToken + 5_000_000;
      await context.forceRelease(leaseId, { floor });
      expect((await context.record()).fencingToken).toBe(floor);
      const next = await context.grant();
      expect(next.fencingToken).toBeGreaterThan(floor);
      await context.forceRelease(next.leaseId, { floor: next.fencingToken + 2 * 86_400_000_000 });
      expect((await context.record()).fencingToken).toBe(next.fencingToken);
    },
  },
  {
    name: 'the waiter at the head gets its turn, and owner and waiter are told',
    needs: ['messages'],
    async run(context) {
      const owner = await context.listen();
      const waiting = await context.listen();
      const { leaseId } = await context.grant({ channel: owner.channel });
      const waiter = newLeaseId();
      await context.acquire({ leaseId: waiter, mode: 'wait', channel: waiting.channel });
      await context.forceRelease(leaseId);
      await context.until('both messages', () =>
        owner.heard.length > 0 && waiting.heard.length > 0 ? true : undefined,
      );
      expect(owner.heard).toMatchObject([{ kind: 'revoked', leaseId, resource: context.resource }]);
      expect(waiting.heard).toMatchObject([{ kind: 'go', leaseId: waiter }]);
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      await context.grant({ leaseId: waiter, mode: 'wait' });
    },
  },
  {
    name: 'a forced release refuses what is not ours, and leaves it alone',
    needs: ['foreign'],
    async run(context) {
      for (const kind of ['type', 'shape'] as const) {
        const there = context.at(`${context.resource}:${kind}`);
        const foreign = await context.hook('foreign')(there.resource, kind);
        await context.refused(
          'FOREIGN_KEY',
          context.store.forceRelease(
            {
              resource: there.resource,
              leaseId: newLeaseId(),
              fencingToken: 1,
              extensions: 0,
              elapsedMs: null,
              floor: 0,
              operator: 'operator',
              reason: 'because',
            },
            context.call,
          ),
        );
        expect(await foreign.intact()).toBe(true);
      }
    },
  },
];
