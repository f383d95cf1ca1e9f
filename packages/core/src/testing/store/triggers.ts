import { expect } from 'vitest';

import type { StoreCase } from './context.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

export const triggerCases: readonly StoreCase[] = [
  {
    name: 'a run without a schedule begins at the store’s now, and the next one not before its time is up',
    needs: [],
    async run(context) {
      const tick = context.trigger('job', { minHoldMs: 400 });
      const before = await context.nowUs();
      const first = await context.grant({ tick });
      const after = await context.nowUs();
      const at = first.tick?.at ?? 0;
      expect(Number.isInteger(at)).toBe(true);
      expect(at * 1000).toBeGreaterThan(before - 1000);
      expect(at * 1000).toBeLessThanOrEqual(after);
      expect(await context.ticks('job')).toMatchObject([{ at, status: 'claimed', attempt: 1 }]);
      await context.release(first.leaseId, { job: 'job' });
      const { aheadMs, remainingMs } = await context.refusedTick('already-ran', { tick });
      expect(aheadMs).toBeLessThanOrEqual(0);
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(400);
      expect(remainingMs - aheadMs).toBeCloseTo(400, 2);
      const next = await context.until('the time is up', async () => {
        const reply = await context.acquire({ tick });
        return reply.kind === 'granted' ? reply : undefined;
      });
      expect((next.tick?.at ?? 0) - at).toBeGreaterThanOrEqual(400);
      expect(next.tick?.attempt).toBe(1);
    },
  },
  {
    name: 'a run without a schedule keeps its distance whatever became of the one before',
    needs: [],
    async run(context) {
      for (const outcome of ['done', 'failed', 'aborted'] as const) {
        const tick = context.trigger(`job-${outcome}`);
        const { leaseId } = await context.grant({ tick });
        await context.refusedTick('already-ran', { tick });
        await context.release(leaseId, { job: tick.job, outcome });
        await context.refusedTick('already-ran', { tick });
      }
      const tick = context.trigger('job');
      await context.grant({ tick, ttlMs: 120 });
      await context.expired();
      await context.refusedTick('already-ran', { tick });
      await context.grant({ tick: context.trigger('another') });
    },
  },
  {
    name: 'while the last run without a schedule goes on after its time, the answer is held',
    needs: [],
    async run(context) {
      const tick = context.trigger('job', { minHoldMs: 1 });
      await context.grant({ tick });
      await context.pass(20);
      expect(await context.acquire({ tick })).toMatchObject({ kind: 'busy', reason: 'held', holder: { job: 'job' } });
    },
  },
  {
    name: 'a further attempt keeps its distance to nobody, everybody to it',
    needs: [],
    async run(context) {
      const tick = context.trigger('job', { minHoldMs: 600, retry: 1 });
      const first = await context.grant({ tick });
      await context.release(first.leaseId, { job: 'job', outcome: 'failed' });
      await context.pass(100);
      const second = await context.grant({ tick });
      const since = (second.tick?.at ?? 0) - (first.tick?.at ?? 0);
      expect(since).toBeGreaterThanOrEqual(99);
      await context.release(second.leaseId, { job: 'job', outcome: 'failed' });
      expect((await context.refusedTick('already-ran', { tick })).remainingMs).toBeGreaterThan(600 - since);
    },
  },
  {
    name: 'a run without a schedule that was not started leaves no distance',
    needs: [],
    async run(context) {
      const tick = context.trigger('job');
      const first = await context.grant({ tick });
      await context.release(first.leaseId, { job: 'job', outcome: 'not-started' });
      const second = await context.grant({ tick });
      await context.release(second.leaseId, { job: 'job' });
      await context.refusedTick('already-ran', { tick });
    },
  },
  {
    name: 'a last run ahead of a clock that was set back keeps nobody out for longer than its time',
    needs: ['stepClock'],
    async run(context) {
      const tick = context.trigger('job', { minHoldMs: 600 });
      await context.release((await context.grant({ tick })).leaseId, { job: 'job' });
      await context.hook('stepClock')(-HOUR_MS);
      const { remainingMs, aheadMs } = await context.refusedTick('already-ran', { tick });
      expect(remainingMs).toBeLessThanOrEqual(600);
      expect(aheadMs).toBeLessThanOrEqual(0);
      await context.until('the time is up', async () => {
        const reply = await context.acquire({ tick });
        return reply.kind === 'granted' ? reply : undefined;
      });
    },
  },
];
