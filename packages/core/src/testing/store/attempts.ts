import { expect } from 'vitest';

import type { Outcome } from '../../store/store.ts';
import type { TickRequest } from '../../store/tick-request.ts';
import { newLeaseId } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';

const MINUTE_MS = 60_000;

/** Claims the tick, which must be this attempt at it, and ends the run with this outcome. */
async function attempt(context: StoreContext, tick: TickRequest, number: number, outcome: Outcome): Promise<void> {
  const granted = await context.grant({ tick });
  expect(granted.tick?.attempt).toBe(number);
  expect(await context.release(granted.leaseId, { job: tick.job, outcome })).toEqual({ kind: 'released' });
}

/** One tick of either kind. */
async function bothKinds(context: StoreContext, retry: number): Promise<readonly TickRequest[]> {
  return [await context.tick('scheduled', { retry }), context.trigger('triggered', { retry })];
}

export const attemptCases: readonly StoreCase[] = [
  {
    name: 'a tick is claimed again as often as the request says, and the claims are counted',
    needs: [],
    async run(context) {
      for (const tick of await bothKinds(context, 2)) {
        const outcomes = ['failed', 'aborted', 'failed'] as const;
        for (const [index, outcome] of outcomes.entries()) {
          await attempt(context, tick, index + 1, outcome);
          expect(await context.ticks(tick.job)).toMatchObject(
            [{ status: outcome, attempt: index + 1 }, {}].slice(0, index + 1),
          );
        }
        await context.refusedTick('already-ran', { tick });
        await attempt(context, { ...tick, retry: 3 }, 4, 'done');
        await context.refusedTick('already-ran', { tick: { ...tick, retry: 100 } });
      }
    },
  },
  {
    name: 'the next tick is a first attempt',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 1 });
      const before = { ...tick, at: tick.at - MINUTE_MS };
      await attempt(context, before, 1, 'failed');
      await attempt(context, before, 2, 'failed');
      await attempt(context, tick, 1, 'failed');
      expect(await context.ticks('job')).toMatchObject([
        { at: tick.at, attempt: 1 },
        { at: before.at, attempt: 2 },
      ]);
    },
  },
  {
    name: 'a claim that was given back is no attempt',
    needs: [],
    async run(context) {
      for (const tick of await bothKinds(context, 2)) {
        for (const number of [1, 2, 3]) {
          const { leaseId } = await context.grant({ tick });
          await context.cancel(leaseId, { job: tick.job });
          await attempt(context, tick, number, 'not-started');
          await attempt(context, tick, number, 'failed');
          expect((await context.ticks(tick.job))[0]).toMatchObject({ attempt: number, status: 'failed' });
        }
        await context.refusedTick('already-ran', { tick });
      }
    },
  },
  {
    name: 'a grant that is repeated says what it has claimed',
    needs: [],
    async run(context) {
      for (const tick of await bothKinds(context, 1)) {
        await attempt(context, tick, 1, 'failed');
        const request = context.request({ tick });
        const first = await context.store.acquire(request, context.call);
        expect(first).toMatchObject({ kind: 'granted', tick: { attempt: 2 } });
        if (tick.at !== null) expect(first).toMatchObject({ tick: { at: tick.at } });
        const again = await context.store.acquire(request, context.call);
        expect(again).toMatchObject({ kind: 'granted', again: true });
        expect(again).toHaveProperty('tick', (first as { tick: unknown }).tick);
        await context.release(request.leaseId, { job: tick.job });
      }
      expect((await context.grant()).tick).toBeNull();
    },
  },
  {
    name: 'replaces and adopt keep the attempt, and tell it',
    needs: [],
    async run(context) {
      for (const tick of await bothKinds(context, 1)) {
        await attempt(context, tick, 1, 'failed');
        const old = await context.grant({ tick });
        const next = await context.grant({ tick, replaces: old.leaseId });
        expect(next.tick).toEqual(old.tick);
        const leaseId = newLeaseId();
        const adopted = await context.adopt(next.leaseId, { leaseId, job: tick.job });
        expect(adopted).toHaveProperty('tick', old.tick);
        const again = await context.adopt(next.leaseId, { leaseId, job: tick.job });
        expect(again).toMatchObject({ kind: 'granted', again: true, tick: old.tick });
        await context.release(leaseId, { job: tick.job, outcome: 'failed' });
        expect(await context.ticks(tick.job)).toMatchObject([{ attempt: 2 }, { attempt: 1 }]);
        await context.refusedTick('already-ran', { tick });
      }
      const bare = await context.grant();
      expect(await context.adopt(bare.leaseId)).toMatchObject({ kind: 'granted', tick: null });
    },
  },
  {
    name: 'a waiter for the same tick gets the next attempt when the holder dies, and one only',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 1 });
      await context.grant({ tick, ttlMs: 300 });
      const waiter = context.request({ mode: 'wait', tick });
      const second = context.request({ mode: 'wait', tick });
      expect(await context.store.acquire(waiter, context.call)).toMatchObject({ kind: 'queued', position: 0 });
      expect(await context.store.acquire(second, context.call)).toMatchObject({ kind: 'queued', position: 1 });
      await context.expired();
      expect(await context.store.acquire(waiter, context.call)).toMatchObject({
        kind: 'granted',
        tick: { attempt: 2 },
      });
      const reply = await context.store.acquire(second, context.call);
      expect(reply).toMatchObject({ kind: 'tick', reason: 'already-ran' });
    },
  },
  {
    name: 'a waiter for the same tick gets the next attempt when the holder fails, and none when it is done',
    needs: [],
    async run(context) {
      for (const outcome of ['failed', 'aborted', 'done'] as const) {
        const tick = await context.tick(`job-${outcome}`, { retry: 1 });
        const holder = await context.grant({ tick });
        const waiter = context.request({ mode: 'wait', tick });
        expect(await context.store.acquire(waiter, context.call)).toMatchObject({ kind: 'queued', reason: 'held' });
        await context.release(holder.leaseId, { job: tick.job, outcome });
        const reply = await context.store.acquire(waiter, context.call);
        if (outcome === 'done') expect(reply).toMatchObject({ kind: 'tick', reason: 'already-ran' });
        else expect(reply).toMatchObject({ kind: 'granted', tick: { attempt: 2 } });
        await context.cancel(waiter.leaseId, { job: tick.job });
      }
    },
  },
  {
    name: 'who is refused because somebody holds the resource is told the job of that lease',
    needs: [],
    async run(context) {
      const busyWith = async (job: string | null): Promise<void> => {
        for (const mode of ['try', 'wait'] as const) {
          const leaseId = newLeaseId();
          expect(await context.acquire({ mode, leaseId })).toMatchObject({ reason: 'held', holder: { job } });
          await context.cancel(leaseId);
        }
      };
      const tick = await context.tick('nightly:2');
      const first = await context.grant({ tick });
      await busyWith('nightly:2');
      const second = newLeaseId();
      await context.adopt(first.leaseId, { leaseId: second, job: 'nightly:2' });
      await busyWith('nightly:2');
      const third = newLeaseId();
      await context.adopt(second, { leaseId: third });
      await busyWith(null);
      await context.release(third);
      await context.grant();
      await busyWith(null);
    },
  },
  {
    name: 'a refused tick tells how far it lies ahead of the store’s clock, or behind',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const about = async (reason: 'already-ran' | 'superseded' | 'too-late', minutes: number): Promise<void> => {
        const at = tick.at - minutes * MINUTE_MS;
        const { aheadMs, remainingMs } = await context.refusedTick(reason, { tick: { ...tick, at } });
        expect(remainingMs).toBe(0);
        expect(aheadMs).toBeLessThanOrEqual(at - tick.at);
        expect(aheadMs).toBeGreaterThan(at - tick.at - 10_000);
      };
      await about('too-late', 10);
      await context.release((await context.grant({ tick })).leaseId, { job: 'job' });
      await about('already-ran', 0);
      await about('superseded', 2);
      await about('superseded', 10);
      const ahead = await context.refusedTick('clock-ahead', { tick: { ...tick, at: tick.at + MINUTE_MS } });
      expect(ahead.aheadMs).toBeGreaterThan(MINUTE_MS - 10_000);
      expect(ahead.remainingMs).toBe(ahead.aheadMs);
    },
  },
];
