import { expect } from 'vitest';

import type { TickReason } from '../../errors.ts';
import type { Outcome } from '../../store/store.ts';
import type { ScheduledTick } from '../../store/tick-request.ts';
import type { StoreCase, StoreContext } from './context.ts';

const MINUTE_MS = 60_000;

/** Claims the tick and ends the run with this outcome. */
async function runTick(context: StoreContext, tick: ScheduledTick, outcome: Outcome): Promise<void> {
  const { leaseId } = await context.grant({ tick });
  expect(await context.release(leaseId, { job: tick.job, outcome })).toEqual({ kind: 'released' });
}

async function refusedAs(context: StoreContext, tick: ScheduledTick, reason: TickReason): Promise<void> {
  await context.refusedTick(reason, { tick });
}

function minutesEarlier(tick: ScheduledTick, minutes: number): ScheduledTick {
  return { ...tick, at: tick.at - minutes * MINUTE_MS };
}

export const tickCases: readonly StoreCase[] = [
  {
    name: 'a tick is claimed once, whatever became of the run',
    needs: [],
    async run(context) {
      for (const outcome of ['done', 'failed', 'aborted'] as const) {
        const tick = await context.tick(`job-${outcome}`);
        const { leaseId } = await context.grant({ tick });
        await refusedAs(context, tick, 'already-ran');
        await context.release(leaseId, { job: tick.job, outcome });
        await refusedAs(context, tick, 'already-ran');
      }
    },
  },
  {
    name: 'a claimed tick counts as run, though its owner never came back',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      await context.grant({ tick, ttlMs: 120 });
      await context.expired();
      await refusedAs(context, tick, 'already-ran');
      await context.grant();
    },
  },
  {
    name: 'many instances at one tick: one runs',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const replies = await Promise.all(Array.from({ length: 10 }, () => context.acquire({ tick })));
      expect(replies.filter((reply) => reply.kind === 'granted')).toHaveLength(1);
    },
  },
  {
    name: 'a tick before one that was claimed is superseded; the next one runs',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      await runTick(context, minutesEarlier(tick, 1), 'done');
      await refusedAs(context, minutesEarlier(tick, 2), 'superseded');
      await runTick(context, tick, 'done');
      await refusedAs(context, minutesEarlier(tick, 1), 'superseded');
    },
  },
  {
    name: 'too late is by the store’s clock, and changes nothing',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const late = minutesEarlier(tick, 10);
      await refusedAs(context, late, 'too-late');
      expect(await context.read()).toBeNull();
      await runTick(context, { ...late, startingDeadlineMs: 15 * MINUTE_MS }, 'done');
    },
  },
  {
    name: 'a tick ahead of the store’s clock is early, not done with',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const ahead = minutesEarlier(tick, -1);
      const reply = await context.acquire({ tick: ahead });
      expect(reply).toMatchObject({ kind: 'tick', reason: 'clock-ahead' });
      const { aheadMs } = reply as { aheadMs: number };
      expect(aheadMs).toBeGreaterThan(MINUTE_MS - 10_000);
      expect(aheadMs).toBeLessThanOrEqual(MINUTE_MS);
      expect(await context.read()).toBeNull();
      await runTick(context, { ...ahead, maxAheadMs: 2 * MINUTE_MS }, 'done');
    },
  },
  {
    name: 'two jobs on one resource have ticks of their own',
    needs: [],
    async run(context) {
      const nightly = await context.tick('nightly');
      const hourly = { ...nightly, job: 'hourly' };
      await runTick(context, nightly, 'done');
      await runTick(context, hourly, 'failed');
      await runTick(context, { ...hourly, at: hourly.at + 500 }, 'done');
      await refusedAs(context, nightly, 'already-ran');
    },
  },
  {
    name: 'not-started gives the tick back, and the one before it',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const before = minutesEarlier(tick, 1);
      await runTick(context, before, 'done');
      await runTick(context, tick, 'not-started');
      await refusedAs(context, { ...before, retry: 5 }, 'already-ran');
      await runTick(context, tick, 'done');
      await refusedAs(context, tick, 'already-ran');
    },
  },
  {
    name: 'not-started of the first tick leaves none',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      await runTick(context, tick, 'not-started');
      await runTick(context, minutesEarlier(tick, 1), 'done');
      await runTick(context, tick, 'done');
    },
  },
  {
    name: 'cancel gives the tick back, sent twice as well as once',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      await runTick(context, minutesEarlier(tick, 1), 'done');
      const { leaseId } = await context.grant({ tick });
      expect(await context.cancel(leaseId, { job: tick.job, tombstoneMs: MINUTE_MS })).toEqual({ kind: 'ended' });
      await context.cancel(leaseId, { job: tick.job, tombstoneMs: MINUTE_MS });
      await refusedAs(context, minutesEarlier(tick, 2), 'superseded');
      await runTick(context, tick, 'done');
    },
  },
  {
    name: 'a retry claims what did not succeed, never what did',
    needs: [],
    async run(context) {
      const first = await context.tick('job', { retry: 5 });
      await context.grant({ tick: first, ttlMs: 400 });
      expect(await context.acquire({ tick: first })).toMatchObject({ kind: 'busy', reason: 'held' });
      await context.expired();
      await runTick(context, first, 'failed');
      await refusedAs(context, { ...first, retry: 0 }, 'already-ran');
      await runTick(context, first, 'aborted');
      await runTick(context, first, 'done');
      await refusedAs(context, first, 'already-ran');
    },
  },
  {
    name: 'a retry that was not started leaves the tick as it was',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 5 });
      await runTick(context, tick, 'failed');
      await runTick(context, tick, 'not-started');
      await refusedAs(context, { ...tick, retry: 0 }, 'already-ran');
      await runTick(context, tick, 'done');
    },
  },
  {
    name: 'an outcome is written though the lease was lost',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 5 });
      const { leaseId } = await context.grant({ tick, ttlMs: 120 });
      await context.expired();
      const other = await context.grant();
      expect(await context.release(leaseId, { job: tick.job, outcome: 'done' })).toEqual({
        kind: 'lost',
        reason: 'superseded',
      });
      await refusedAs(context, tick, 'already-ran');
      expect(await context.extend(other.leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'an outcome of an earlier claim leaves a later one alone',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 5 });
      const old = await context.grant({ tick, ttlMs: 120 });
      await context.expired();
      const next = await context.grant({ tick });
      await context.release(old.leaseId, { job: tick.job, outcome: 'done' });
      await context.cancel(old.leaseId, { job: tick.job });
      await context.release(next.leaseId, { job: tick.job, outcome: 'failed' });
      await refusedAs(context, { ...tick, retry: 0 }, 'already-ran');
      await runTick(context, tick, 'done');
    },
  },
  {
    name: 'an acquire sent again with its tick answers the same grant',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const request = context.request({ tick });
      const first = await context.store.acquire(request, context.call);
      expect(first).toMatchObject({ kind: 'granted', again: false });
      expect(await context.store.acquire(request, context.call)).toMatchObject({ kind: 'granted', again: true });
      await context.release(request.leaseId, { job: tick.job, outcome: 'not-started' });
      await runTick(context, tick, 'done');
    },
  },
  {
    name: 'replaces keeps the tick, and what stood there before it',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const before = minutesEarlier(tick, 1);
      await runTick(context, before, 'done');
      const old = await context.grant({ tick });
      const next = await context.grant({ tick, replaces: old.leaseId });
      await refusedAs(context, tick, 'already-ran');
      await context.release(old.leaseId, { job: tick.job, outcome: 'done' });
      expect(await context.release(next.leaseId, { job: tick.job, outcome: 'not-started' })).toEqual({
        kind: 'released',
      });
      await refusedAs(context, { ...before, retry: 5 }, 'already-ran');
      await runTick(context, tick, 'done');
    },
  },
  {
    name: 'replaces carries no tick that its lease has not claimed',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      await runTick(context, tick, 'done');
      const old = await context.grant();
      expect(await context.acquire({ tick, replaces: old.leaseId })).toMatchObject({
        kind: 'tick',
        reason: 'already-ran',
      });
      expect(await context.extend(old.leaseId)).toMatchObject({ verdict: 'extended' });
    },
  },
  {
    name: 'an outcome is written once',
    needs: [],
    async run(context) {
      const tick = await context.tick('job', { retry: 5 });
      const { leaseId } = await context.grant({ tick });
      await context.release(leaseId, { job: tick.job, outcome: 'done' });
      for (const outcome of ['not-started', 'failed'] as const)
        await context.release(leaseId, { job: tick.job, outcome });
      await context.cancel(leaseId, { job: tick.job, outcome: 'not-started' });
      await refusedAs(context, tick, 'already-ran');
    },
  },
  {
    name: 'a tick is claimed when its lease is granted, not while it waits',
    needs: [],
    async run(context) {
      const holder = await context.grant();
      const request = context.request({ mode: 'wait', tick: await context.tick('job') });
      expect(await context.store.acquire(request, context.call)).toMatchObject({ kind: 'queued', position: 0 });
      await context.release(holder.leaseId);
      expect(await context.store.acquire(request, context.call)).toMatchObject({ kind: 'granted' });
      expect(await context.acquire({ tick: request.tick })).toMatchObject({ kind: 'tick', reason: 'already-ran' });
    },
  },
];
