import { expect } from 'vitest';

import type { HistoryEvent, LeaseRecord } from '../../store/store.ts';
import { newLeaseId, unique } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';
import { HOSTILE_NAMES } from './trouble.ts';

const MINUTE_MS = 60_000;

/** Records by resource. Others may use the same data, and may come twice. */
async function listed(context: StoreContext): Promise<Map<string, LeaseRecord>> {
  const records = new Map<string, LeaseRecord>();
  for await (const { resource, record } of context.store.list(context.call)) records.set(resource, record);
  return records;
}

function names(log: readonly HistoryEvent[]): string[] {
  return log.map(({ event }) => event);
}

/** What can be read of a resource beside its record: the list, the log, the ticks. */
export const recordCases: readonly StoreCase[] = [
  {
    name: 'list gives each of many resources, with the record that read gives',
    needs: [],
    async run(context) {
      const contexts = Array.from({ length: 300 }, () => context.at(unique('listed')));
      const leases = await Promise.all(
        contexts.map((each) => each.grant({ owner: { line: each.resource, json: '{}' } })),
      );
      const records = await listed(context);
      for (const [index, each] of contexts.entries()) {
        expect(records.get(each.resource)).toMatchObject({
          state: 'held',
          owner: each.resource,
          leaseId: leases[index]?.leaseId,
          fencingToken: leases[index]?.fencingToken,
        });
      }
      const first = contexts[0] as StoreContext;
      expect(records.get(first.resource)).toEqual({ ...(await first.record()), nowUs: expect.any(Number) });
    },
  },
  {
    name: 'list gives hostile and look-alike names as they are',
    needs: [],
    async run(context) {
      const contexts = HOSTILE_NAMES.map((resource) => context.at(resource));
      const leaseIds: string[] = [];
      try {
        for (const each of contexts) leaseIds.push((await each.grant()).leaseId);
        const records = await listed(context);
        for (const [index, { resource }] of contexts.entries()) {
          expect([resource, records.get(resource)?.leaseId]).toEqual([resource, leaseIds[index]]);
        }
      } finally {
        for (const [index, leaseId] of leaseIds.entries()) await contexts[index]?.release(leaseId);
      }
    },
  },
  {
    name: 'list tells held, expired and free; what was never held is not in it',
    needs: [],
    async run(context) {
      const [held, expired, free, ticked, queued, never] = (
        ['held', 'expired', 'free', 'ticked', 'queued', 'never'] as const
      ).map((stem) => context.at(unique(stem))) as [StoreContext, ...StoreContext[]];
      await held.grant();
      await expired?.grant({ ttlMs: 120 });
      await free?.release((await free.grant()).leaseId);
      // Records of other kinds beside that of the lease: a tick, a queue, a parked process, a log.
      const tick = await context.tick('job');
      await ticked?.release((await ticked.grant({ tick, history: 'all' })).leaseId, { job: 'job', history: 'all' });
      await queued?.grant();
      await queued?.acquire({ mode: 'wait', channel: 'somewhere' });
      await queued?.acquire({ mode: 'park', channel: 'somewhere' });
      await never?.cancel(newLeaseId(), { tombstoneMs: MINUTE_MS });
      await expired?.expired();
      const records = await listed(context);
      const states = [held, expired, free, ticked, queued, never].map(
        (each) => records.get(each?.resource ?? '')?.state,
      );
      expect(states).toEqual(['held', 'expired', 'free', 'free', 'held', undefined]);
      expect(records.get(queued?.resource ?? '')?.waiting).toBe(1);
      const ours = [held, expired, free, ticked, queued, never].flatMap((each) => each?.resource ?? []);
      expect([...records.keys()].filter((name) => ours.some((resource) => name.includes(resource)))).toHaveLength(5);
    },
  },
  {
    name: 'list leaves out what is not ours',
    needs: ['foreign'],
    async run(context) {
      const ours = context.at(unique('ours'));
      await ours.grant();
      const [type, shape] = [context.at(unique('type')), context.at(unique('shape'))];
      const planted = [
        await context.hook('foreign')(type.resource, 'type'),
        await context.hook('foreign')(shape.resource, 'shape'),
      ];
      const records = await listed(context);
      expect(records.has(ours.resource)).toBe(true);
      expect(records.has(type.resource)).toBe(false);
      expect(records.has(shape.resource)).toBe(false);
      for (const each of planted) expect(await each.intact()).toBe(true);
    },
  },
  {
    name: 'a list may be left before its end',
    needs: [],
    async run(context) {
      await context.grant();
      await context.at(unique('other')).grant();
      let seen = 0;
      for await (const { resource } of context.store.list(context.call)) {
        expect(resource).not.toBe('');
        if (++seen === 1) break;
      }
      expect(seen).toBe(1);
      expect((await listed(context)).has(context.resource)).toBe(true);
    },
  },
  {
    name: 'the log of exceptions has what is out of the ordinary, the newest first',
    needs: [],
    async run(context) {
      expect(await context.history()).toEqual([]);
      const first = await context.grant({ owner: { line: 'first', json: '{}' } });
      await context.release(first.leaseId);
      expect(await context.history()).toEqual([]);
      const expired = await context.grant({ ttlMs: 120, owner: { line: 'slow', json: '{}' } });
      await context.expired();
      const refused = await context.grant({ owner: { line: 'refused', json: '{}' } });
      const given = await context.grant({ replaces: refused.leaseId, owner: { line: 'giver', json: '{}' } });
      const leaseId = newLeaseId();
      const adopted = await context.adopt(given.leaseId, { leaseId, ttlMs: 300 });
      await context.revoke(leaseId, 'alice', 'it must stop');
      await context.expired();
      expect(await context.release(leaseId, { outcome: 'aborted' })).toMatchObject({ kind: 'lost' });
      const { fencingToken } = adopted as { fencingToken: number };
      const log = await context.history();
      expect(log).toMatchObject([
        { event: 'lost', owner: 'adopter', fencingToken, detail: 'aborted' },
        { event: 'revoked', owner: 'adopter', fencingToken, detail: 'alice: it must stop' },
        { event: 'adopted', owner: 'adopter', fencingToken, detail: '' },
        { event: 'refused', owner: 'refused', fencingToken: refused.fencingToken, detail: '' },
        { event: 'expired', owner: 'slow', fencingToken: expired.fencingToken, detail: '' },
      ]);
      const { nowUs } = await context.record();
      for (const { atUs, job, tickAt } of log) {
        expect(Math.abs(nowUs - atUs)).toBeLessThan(60_000_000);
        expect([job, tickAt]).toEqual([null, null]);
      }
      expect(await context.history(2)).toEqual(log.slice(0, 2));
    },
  },
  {
    name: 'the log of all has acquisitions and releases, too, with job and tick',
    needs: [],
    async run(context) {
      const history = 'all';
      const tick = await context.tick('job');
      const first = await context.grant({ tick, history });
      await context.acquire({ history });
      await context.release(first.leaseId, { job: 'job', outcome: 'failed', history });
      const second = await context.grant({ history });
      await context.cancel(second.leaseId, { history });
      expect(await context.history()).toMatchObject([
        { event: 'released', fencingToken: second.fencingToken, detail: 'not-started', job: null, tickAt: null },
        { event: 'acquired', fencingToken: second.fencingToken, detail: '', job: null, tickAt: null },
        { event: 'released', fencingToken: first.fencingToken, detail: 'failed', job: 'job', tickAt: tick.at },
        { event: 'acquired', fencingToken: first.fencingToken, detail: '', job: 'job', tickAt: tick.at },
      ]);
    },
  },
  {
    name: 'the log keeps 16 exceptions, or 64 events of all kinds',
    needs: [],
    async run(context) {
      const exceptional = async (each: StoreContext, history: 'exceptions' | 'all'): Promise<void> => {
        const { leaseId } = await each.grant({ history });
        const next = await each.grant({ replaces: leaseId, history });
        await each.release(next.leaseId, { history });
      };
      const few = context.at(unique('exceptions'));
      for (let time = 0; time < 18; time++) await exceptional(few, 'exceptions');
      const log = await few.history();
      expect(names(log)).toEqual(Array.from({ length: 16 }, () => 'refused'));
      const tokens = log.map(({ fencingToken }) => fencingToken);
      expect(tokens).toEqual(tokens.toSorted((one, other) => other - one));
      const many = context.at(unique('all'));
      for (let time = 0; time < 17; time++) await exceptional(many, 'all');
      expect(names(await many.history()).slice(0, 4)).toEqual(['released', 'acquired', 'refused', 'acquired']);
      expect(await many.history()).toHaveLength(64);
      // Who revokes does not know what is to be kept.
      const { leaseId } = await many.grant({ history: 'all' });
      await many.revoke(leaseId);
      expect(await many.history()).toHaveLength(64);
      expect(names(await many.history(3))).toEqual(['revoked', 'acquired', 'released']);
    },
  },
  {
    name: 'what is sent again is in the log once',
    needs: [],
    async run(context) {
      const history = 'all';
      const request = context.request({ history });
      for (let time = 0; time < 3; time++) await context.store.acquire(request, context.call);
      const leaseId = newLeaseId();
      for (let time = 0; time < 3; time++) await context.adopt(request.leaseId, { leaseId, history });
      for (let time = 0; time < 3; time++) await context.revoke(leaseId);
      for (let time = 0; time < 3; time++) await context.release(leaseId, { history });
      for (let time = 0; time < 3; time++) await context.cancel(leaseId, { history });
      expect(names(await context.history())).toEqual(['released', 'revoked', 'adopted', 'acquired']);
    },
  },
  {
    name: 'ticks gives the last tick of a job and the one before it',
    needs: [],
    async run(context) {
      const ticks = (job = 'job') => context.store.ticks(context.resource, job, context.call);
      expect(await ticks()).toEqual([]);
      const third = await context.tick('job');
      const [first, second] = [2, 1].map((minutes) => ({ ...third, at: third.at - minutes * MINUTE_MS }));
      const one = await context.grant({ tick: first, owner: { line: 'one', json: '{}' } });
      const claimed = { at: first?.at, attempt: 1, status: 'claimed', fencingToken: one.fencingToken, owner: 'one' };
      expect(await ticks()).toEqual([claimed]);
      await context.release(one.leaseId, { job: 'job', outcome: 'done' });
      expect(await ticks()).toEqual([{ ...claimed, status: 'done' }]);
      const two = await context.grant({ tick: second, owner: { line: 'two', json: '{}' } });
      await context.release(two.leaseId, { job: 'job', outcome: 'failed' });
      const failed = { at: second?.at, attempt: 1, status: 'failed', fencingToken: two.fencingToken, owner: 'two' };
      expect(await ticks()).toEqual([failed, { ...claimed, status: 'done' }]);
      const three = await context.grant({ tick: third });
      expect(await ticks()).toMatchObject([{ at: third.at, status: 'claimed' }, failed]);
      await context.release(three.leaseId, { job: 'job', outcome: 'not-started' });
      expect((await ticks())[0]).toEqual(failed);
      expect(await ticks('other')).toEqual([]);
    },
  },
  {
    name: 'reading changes nothing',
    needs: [],
    async run(context) {
      const other = context.at(unique('never'));
      expect(await other.history()).toEqual([]);
      expect(await context.store.ticks(other.resource, 'job', context.call)).toEqual([]);
      expect(await other.read()).toBeNull();
      expect((await listed(context)).has(other.resource)).toBe(false);
    },
  },
];
