import { expect } from 'vitest';

import type { AcquireReply } from '../../store/store.ts';
import { newLeaseId, unique } from '../unique.ts';
import type { StoreCase, StoreContext, Wish } from './context.ts';

export interface Waiter {
  readonly leaseId: string;
  ask(): Promise<AcquireReply>;
}

/** A waiter that keeps its leaseId. */
function waiter(context: StoreContext, wish: Wish = {}): Waiter {
  const leaseId = newLeaseId();
  return { leaseId, ask: () => context.acquire({ leaseId, mode: 'wait', ...wish }) };
}

/** A held resource, and so many in the queue behind it, in this order. */
export async function queueUp(
  context: StoreContext,
  holder: Wish,
  wishes: readonly Wish[],
): Promise<[string, ...Waiter[]]> {
  const { leaseId } = await context.grant(holder);
  const waiters = wishes.map((wish) => waiter(context, wish));
  for (const [position, each] of waiters.entries()) {
    expect(await each.ask()).toMatchObject({ kind: 'queued', reason: 'held', position });
  }
  return [leaseId, ...waiters];
}

export const waitingCases: readonly StoreCase[] = [
  {
    name: 'the turn goes to the head of the queue; everybody else is told that it is taken',
    needs: [],
    async run(context) {
      const [holder, first, second] = await queueUp(context, {}, [{}, {}]);
      expect((await context.record()).waiting).toBe(2);
      await context.release(holder);
      const newcomer = await context.acquire();
      expect(newcomer).toMatchObject({ kind: 'busy', reason: 'turn', holder: null });
      const { remainingMs } = newcomer as { remainingMs: number };
      expect(remainingMs).toBeGreaterThan(0);
      expect(remainingMs).toBeLessThanOrEqual(500);
      expect(await second?.ask()).toMatchObject({ kind: 'queued', reason: 'turn', position: 1 });
      const third = waiter(context);
      expect(await third.ask()).toMatchObject({ kind: 'queued', reason: 'turn', position: 2 });
      expect(await first?.ask()).toMatchObject({ kind: 'granted', again: false });
      expect((await context.record()).waiting).toBe(2);
      expect(await second?.ask()).toMatchObject({ kind: 'queued', reason: 'held', position: 0 });
      await context.release(first?.leaseId ?? '');
      expect(await third.ask()).toMatchObject({ kind: 'queued', reason: 'turn', position: 1 });
      expect(await second?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a turn lasts a tenth of the lease, between 50 and 500 ms',
    needs: [],
    async run(context) {
      for (const [ttlMs, claimMs] of [
        [300, 50],
        [2_000, 200],
        [60_000, 500],
      ] as const) {
        await context.until('a moment in which the machine is quick', async () => {
          const each = context.at(unique('claim'));
          const [holder] = await queueUp(each, { ttlMs }, [{}]);
          const before = await each.record();
          await each.release(holder);
          const reply = await each.acquire();
          const passedMs = ((await each.record()).nowUs - before.nowUs) / 1000;
          if (passedMs >= claimMs) return undefined;
          expect(reply).toMatchObject({ kind: 'busy', reason: 'turn' });
          const { remainingMs } = reply as { remainingMs: number };
          expect(remainingMs).toBeLessThanOrEqual(claimMs);
          expect(remainingMs).toBeGreaterThanOrEqual(claimMs - passedMs);
          return true;
        });
      }
    },
  },
  {
    name: 'a turn is not made longer by a clock that is set back',
    needs: ['stepClock'],
    async run(context) {
      const [holder, first] = await queueUp(context, { ttlMs: 5_000 }, [{}]);
      await context.release(holder);
      await context.hook('stepClock')(-60_000);
      const reply = await context.acquire();
      expect(reply).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect((reply as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(500);
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a missed turn opens the resource to whoever asks, and its waiter goes to the end',
    needs: [],
    async run(context) {
      const [holder, first, second] = await queueUp(context, { ttlMs: 1_000 }, [{}, {}]);
      await context.release(holder);
      const newcomer = newLeaseId();
      const reply = await context.until('the end of the turn', async () => {
        const answer = await context.acquire({ leaseId: newcomer });
        return answer.kind === 'busy' ? undefined : answer;
      });
      expect(reply).toMatchObject({ kind: 'granted' });
      expect(await second?.ask()).toMatchObject({ kind: 'queued', reason: 'held', position: 0 });
      expect(await first?.ask()).toMatchObject({ kind: 'queued', reason: 'held', position: 1 });
      await context.release(newcomer);
      expect(await second?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a waiter that missed its turn and asks again gets another',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, { ttlMs: 500 }, [{}]);
      await context.release(holder);
      const newcomer = newLeaseId();
      await context.until('the end of the turn', async () => {
        const { kind } = await context.acquire({ leaseId: newcomer, ttlMs: 2_000 });
        return kind === 'granted' ? true : undefined;
      });
      expect(await first?.ask()).toMatchObject({ kind: 'queued', reason: 'held', position: 0 });
      await context.release(newcomer);
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a head that comes late, before anybody else, still gets the resource',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, { ttlMs: 500 }, [{}]);
      await context.release(holder);
      await context.pass(150);
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'after an expiry the first to ask opens the turn of the head',
    needs: [],
    async run(context) {
      for (const asks of ['a newcomer', 'the second'] as const) {
        const each = context.at(unique('expiry'));
        const [, first, second] = await queueUp(each, { ttlMs: 300 }, [{}, {}]);
        await each.expired();
        const reply = asks === 'the second' ? await second?.ask() : await each.acquire();
        expect(reply).toMatchObject(
          asks === 'the second'
            ? { kind: 'queued', reason: 'turn', position: 1 }
            : { kind: 'busy', reason: 'turn', holder: null },
        );
        expect(await first?.ask()).toMatchObject({ kind: 'granted' });
      }
    },
  },
  {
    name: 'a late release of the expired holder does not start the turn anew',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, { ttlMs: 1_000 }, [{}]);
      await context.expired();
      const opened = await context.acquire();
      expect(opened).toMatchObject({ kind: 'busy', reason: 'turn' });
      const before = await context.record();
      await context.pass(20);
      const passedMs = ((await context.record()).nowUs - before.nowUs) / 1000;
      expect(await context.release(holder)).toEqual({ kind: 'lost', reason: 'expired' });
      expect(await context.acquire()).toSatisfy(
        (later: AcquireReply) =>
          later.kind === 'granted' ||
          (later.kind === 'busy' && later.remainingMs <= (opened as { remainingMs: number }).remainingMs - passedMs),
      );
      expect((await first?.ask())?.kind).toMatch(/^(granted|queued)$/);
    },
  },
  {
    name: 'waiters that no longer ask are passed over',
    needs: [],
    async run(context) {
      const dead = { waitRefreshMs: 30 };
      const [holder, , , alive] = await queueUp(context, {}, [dead, dead, {}]);
      await context.pass(120);
      await context.release(holder);
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await alive?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'waiters that no longer ask are passed over after an expiry, too',
    needs: [],
    async run(context) {
      const dead = { waitRefreshMs: 30 };
      const [, , , alive] = await queueUp(context, { ttlMs: 300 }, [dead, dead, {}]);
      await context.expired();
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await alive?.ask()).toMatchObject({ kind: 'granted' });
      expect((await context.record()).waiting).toBe(0);
    },
  },
  {
    name: 'a queue of dead waiters keeps nobody out',
    needs: [],
    async run(context) {
      const dead = { waitRefreshMs: 30 };
      for (const end of ['release', 'expiry'] as const) {
        const each = context.at(unique(end));
        const [holder] = await queueUp(each, { ttlMs: 300 }, [dead, dead, dead]);
        if (end === 'expiry') {
          await each.expired();
        } else {
          await each.extend(holder);
          await each.pass(120);
          await each.release(holder);
        }
        await each.grant();
      }
    },
  },
  {
    name: 'a waiter keeps its place for three refreshes',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, {}, [{ waitRefreshMs: 300 }]);
      await context.pass(400);
      await context.release(holder);
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a waiter that asks again keeps its place and stays alive',
    needs: [],
    async run(context) {
      const short = { waitRefreshMs: 200 };
      const [holder, first, second] = await queueUp(context, {}, [short, {}]);
      for (let round = 0; round < 5; round++) {
        await context.pass(150);
        expect(await first?.ask()).toMatchObject({ kind: 'queued', position: 0 });
        expect(await second?.ask()).toMatchObject({ kind: 'queued', position: 1 });
      }
      expect((await context.record()).waiting).toBe(2);
      await context.release(holder);
      expect(await second?.ask()).toMatchObject({ kind: 'queued', reason: 'turn' });
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'a waiter that is cancelled leaves the queue, and its turn goes to the next',
    needs: [],
    async run(context) {
      const [holder, first, second, third] = await queueUp(context, {}, [{}, {}, {}]);
      expect(await context.cancel(second?.leaseId ?? '', { tombstoneMs: 60_000 })).toEqual({ kind: 'nothing' });
      expect(await third?.ask()).toMatchObject({ kind: 'queued', position: 1 });
      await context.release(holder);
      expect(await context.cancel(first?.leaseId ?? '')).toEqual({ kind: 'nothing' });
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await third?.ask()).toMatchObject({ kind: 'granted' });
      expect((await context.record()).waiting).toBe(0);
    },
  },
  {
    name: 'cancel of the owner opens the turn of the head',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, {}, [{}]);
      expect(await context.cancel(holder, { tombstoneMs: 60_000 })).toEqual({ kind: 'ended' });
      expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'turn' });
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'cancel of an owner that ran out frees the resource for the head of the queue',
    needs: [],
    async run(context) {
      const [holder, first] = await queueUp(context, { ttlMs: 300 }, [{}]);
      await context.expired();
      await context.cancel(holder);
      expect(await context.record()).toMatchObject({ state: 'free', previous: { reason: 'expired' } });
      expect(await context.acquire({ leaseId: holder })).toEqual({ kind: 'spent' });
      expect(await first?.ask()).toMatchObject({ kind: 'granted' });
    },
  },
  {
    name: 'parking reserves nothing',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      const channel = unique('channel');
      expect(await context.acquire({ mode: 'park', channel })).toMatchObject({ kind: 'busy', reason: 'held' });
      expect((await context.record()).waiting).toBe(0);
      await context.release(leaseId);
      await context.grant();
    },
  },
  {
    name: 'a record that may be lost is kept from everybody until the caller says otherwise',
    needs: [],
    async run(context) {
      const busy = await context.acquire({ quarantineMs: 5_000 });
      expect(busy).toMatchObject({ kind: 'busy', reason: 'quarantine', holder: null });
      expect((busy as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(5_000);
      const each = waiter(context, { quarantineMs: 5_000 });
      expect(await each.ask()).toMatchObject({ kind: 'queued', reason: 'quarantine', position: 0 });
      expect(await context.acquire({ leaseId: each.leaseId, mode: 'wait' })).toMatchObject({ kind: 'granted' });
      await context.release(each.leaseId);
      // There is a record now, so nothing can have been lost.
      await context.grant({ quarantineMs: 5_000 });
    },
  },
];
