import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';

const HOUR_US = 3_600_000_000;

/** Runs `loss` between two acquisitions: the second token must be greater all the same. */
async function growsAcross(context: StoreContext, loss: () => Promise<void>): Promise<void> {
  let last = 0;
  for (let round = 0; round < 5; round++) {
    const { leaseId, fencingToken } = await context.grant();
    expect(fencingToken).toBeGreaterThan(last);
    last = fencingToken;
    await loss();
    expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'missing' });
    expect(await context.release(leaseId)).toEqual({ kind: 'lost', reason: 'missing' });
  }
}

export const tokenCases: readonly StoreCase[] = [
  {
    name: 'tokens are safe integers: µs of the store’s clock',
    needs: [],
    async run(context) {
      const { fencingToken } = await context.grant();
      expect(Number.isSafeInteger(fencingToken)).toBe(true);
      const { nowUs } = await context.record();
      expect(Math.abs(nowUs - fencingToken)).toBeLessThan(60_000_000);
    },
  },
  {
    name: 'tokens grow across release and cancel',
    needs: [],
    async run(context) {
      let last = 0;
      for (let round = 0; round < 40; round++) {
        const { leaseId, fencingToken } = await context.grant();
        expect(fencingToken).toBeGreaterThan(last);
        last = fencingToken;
        if (round % 2 === 0) await context.release(leaseId);
        else await context.cancel(leaseId);
      }
    },
  },
  {
    name: 'tokens grow across expiry',
    needs: [],
    async run(context) {
      const first = await context.grant({ ttlMs: 120 });
      await context.expired();
      expect((await context.grant()).fencingToken).toBeGreaterThan(first.fencingToken);
    },
  },
  {
    name: 'tokens grow across the loss of all data',
    needs: ['flush'],
    run: (context) => growsAcross(context, () => context.hook('flush')()),
  },
  {
    name: 'tokens grow across an eviction',
    needs: ['evict'],
    run: (context) => growsAcross(context, () => context.hook('evict')(context.resource)),
  },
  {
    name: 'tokens grow across the promotion of a lagging replica',
    needs: ['promoteLaggingReplica'],
    async run(context) {
      const replicated = await context.grant();
      await context.release(replicated.leaseId);
      let lost = { leaseId: '', fencingToken: 0 };
      await context.hook('promoteLaggingReplica')(async () => {
        lost = await context.grant();
      });
      const reply = await context.until('the new server', () => context.acquire().catch(() => undefined));
      expect(reply).toMatchObject({ kind: 'granted' });
      const { fencingToken } = reply as { fencingToken: number };
      expect(lost.fencingToken).toBeGreaterThan(replicated.fencingToken);
      expect(fencingToken).toBeGreaterThan(lost.fencingToken);
      expect(await context.extend(lost.leaseId)).toEqual({ verdict: 'lost', reason: 'superseded' });
    },
  },
  {
    name: 'tokens grow though the clock is set back',
    needs: ['stepClock'],
    async run(context) {
      const first = await context.grant();
      await context.release(first.leaseId);
      await context.hook('stepClock')(-60_000);
      const second = await context.grant();
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    },
  },
  {
    name: 'a deadline of a clock that was set back is written back to its ttl',
    needs: ['stepClock'],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 5_000 });
      const { fencingToken } = await context.record();
      await context.hook('stepClock')(-60_000);
      const busy = await context.acquire();
      expect(busy).toMatchObject({ kind: 'busy', reason: 'held', holder: { fencingToken } });
      expect((busy as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(5_000);
      await context.hook('stepClock')(-60_000);
      const verdict = await context.extend(leaseId, 5_000);
      expect(verdict).toMatchObject({ verdict: 'extended' });
      expect((verdict as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(5_000);
      const record = await context.record();
      expect(record.expiresUs - record.nowUs).toBeLessThanOrEqual(5_000_000);
    },
  },
  {
    name: 'a clock set forward past the expiry ends the lease',
    needs: ['stepClock'],
    async run(context) {
      const { leaseId } = await context.grant({ ttlMs: 5_000 });
      await context.hook('stepClock')(60_000);
      expect(await context.extend(leaseId)).toEqual({ verdict: 'lost', reason: 'expired' });
      await context.grant();
    },
  },
  {
    name: 'a token is greater than its floor, and the next one greater still',
    needs: [],
    async run(context) {
      const floor = (await context.nowUs()) + HOUR_US;
      const first = await context.grant({ floor });
      expect(first.fencingToken).toBe(floor + 1);
      await context.release(first.leaseId);
      expect((await context.grant()).fencingToken).toBe(floor + 2);
    },
  },
  {
    name: 'release and cancel carry a floor into the record',
    needs: [],
    async run(context) {
      const floor = (await context.nowUs()) + HOUR_US;
      const first = await context.grant();
      await context.release(first.leaseId, { floor });
      expect((await context.record()).previous).toMatchObject({ fencingToken: first.fencingToken });
      const second = await context.grant();
      expect(second.fencingToken).toBe(floor + 1);
      await context.cancel(second.leaseId, { floor: floor + HOUR_US });
      const third = await context.grant();
      expect(third.fencingToken).toBe(floor + HOUR_US + 1);
      // A lower floor lowers nothing.
      await context.release(third.leaseId, { floor });
      expect((await context.grant()).fencingToken).toBe(floor + HOUR_US + 2);
    },
  },
  {
    name: 'a floor more than a day ahead is out of range, and shuts out nobody',
    needs: [],
    async run(context) {
      const floor = (await context.nowUs()) + 48 * HOUR_US;
      expect(await context.acquire({ floor })).toMatchObject({ kind: 'out-of-range' });
      expect(await context.acquire({ floor: Number.MAX_SAFE_INTEGER })).toMatchObject({ kind: 'out-of-range' });
      expect(await context.acquire({ floor, mode: 'wait' })).toMatchObject({ kind: 'out-of-range' });
      for (const end of ['release', 'cancel'] as const) {
        const { leaseId, fencingToken } = await context.grant();
        expect(fencingToken).toBeLessThan(floor);
        await context[end](leaseId, { floor });
      }
      const { fencingToken } = await context.grant();
      expect(fencingToken).toBeLessThan(floor);
    },
  },
  {
    name: 'a stored token more than a day ahead is out of range, not passed on',
    needs: ['setField'],
    async run(context) {
      const { leaseId } = await context.grant();
      const fencingToken = (await context.nowUs()) + 48 * HOUR_US;
      await context.hook('setField')(context.resource, 'fencingToken', fencingToken);
      await context.release(leaseId);
      const request = { leaseId: newLeaseId() };
      expect(await context.acquire(request)).toEqual({ kind: 'out-of-range', fencingToken });
      expect(await context.acquire(request)).toEqual({ kind: 'out-of-range', fencingToken });
    },
  },
];
