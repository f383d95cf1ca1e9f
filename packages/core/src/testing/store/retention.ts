import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';

const MINUTE_MS = 60_000;

function forgotten(context: StoreContext): Promise<true> {
  return context.until('the resource is forgotten', async () => ((await context.read()) === null ? true : undefined));
}

export const retentionCases: readonly StoreCase[] = [
  {
    name: 'a resource that is released with a retention is forgotten when it is over, no other',
    needs: [],
    async run(context) {
      const other = context.at(`${context.resource} 2`);
      await other.release((await other.grant()).leaseId);
      for (const end of ['release', 'cancel'] as const) {
        const { leaseId } = await context.grant();
        await context[end](leaseId, { retentionMs: 300 });
        expect(await context.record()).toMatchObject({ state: 'free', leaseId });
        await forgotten(context);
      }
      expect(await other.record()).toMatchObject({ state: 'free' });
    },
  },
  {
    name: 'a resource is not forgotten while it is held',
    needs: [],
    async run(context) {
      const first = await context.grant();
      await context.release(first.leaseId, { retentionMs: 150 });
      const { leaseId, fencingToken } = await context.grant();
      await context.pass(250);
      expect(await context.record()).toMatchObject({ state: 'held', leaseId, fencingToken });
      expect(await context.extend(leaseId)).toMatchObject({ verdict: 'extended' });
      await context.release(leaseId);
      await context.pass(250);
      expect(await context.record()).toMatchObject({ state: 'free', leaseId });
    },
  },
  {
    name: 'a tick with a retention is forgotten that long after its claim, and after its end',
    needs: [],
    async run(context) {
      const retentionMs = 300;
      const gone = async (job: string): Promise<void> => {
        expect(await context.ticks(job)).toHaveLength(1);
        await context.until('the tick is forgotten', async () =>
          (await context.ticks(job)).length === 0 ? true : undefined,
        );
      };
      const dead = await context.tick('dead');
      await context.grant({ tick: dead, ttlMs: 120, retentionMs });
      await context.expired();
      await gone('dead');
      const done = await context.tick('done');
      const { leaseId } = await context.grant({ tick: done, retentionMs });
      await context.release(leaseId, { job: 'done', retentionMs: MINUTE_MS });
      await context.pass(retentionMs + 50);
      await context.refusedTick('already-ran', { tick: done });
      const last = await context.tick('last');
      const ended = await context.grant({ tick: last, retentionMs: MINUTE_MS });
      await context.release(ended.leaseId, { job: 'last', retentionMs });
      await gone('last');
      await forgotten(context);
    },
  },
  {
    name: 'a tick that is claimed without a retention stays, whatever the one before had',
    needs: [],
    async run(context) {
      const tick = await context.tick('job');
      const before = { ...tick, at: tick.at - MINUTE_MS };
      const first = await context.grant({ tick: before, retentionMs: 150 });
      await context.release(first.leaseId, { job: 'job', retentionMs: 150 });
      const { leaseId } = await context.grant({ tick });
      await context.pass(250);
      await context.release(leaseId, { job: 'job' });
      await context.refusedTick('already-ran', { tick });
      expect(await context.ticks('job')).toHaveLength(2);
    },
  },
  {
    name: 'a retention ends no tombstone',
    needs: [],
    async run(context) {
      const buried = newLeaseId();
      const [before, after] = [context, context.at(`${context.resource} 2`)];
      const bury = { tombstoneMs: MINUTE_MS, retentionMs: 100 };
      const { leaseId } = await before.grant();
      await before.cancel(buried, bury);
      await before.release(leaseId, { retentionMs: 100 });
      await after.release((await after.grant()).leaseId, { retentionMs: 100 });
      await after.cancel(buried, bury);
      await context.pass(200);
      for (const each of [before, after])
        expect(await each.acquire({ leaseId: buried })).toEqual({ kind: 'cancelled' });
    },
  },
];
