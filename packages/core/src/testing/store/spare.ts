import { expect } from 'vitest';

import { newLeaseId } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';
import { queueUp } from './waiting.ts';

const SPARE = 10;

async function lastToken(context: StoreContext): Promise<number> {
  return (await context.record()).fencingToken;
}

export const spareCases: readonly StoreCase[] = [
  {
    name: 'spare tokens lie above the one that is granted, and the record has the last of them',
    needs: [],
    async run(context) {
      const first = await context.grant({ spareTokens: SPARE, history: 'all' });
      expect(first).toMatchObject({ again: false, spareTokens: SPARE });
      const last = first.fencingToken + SPARE;
      expect(await lastToken(context)).toBe(last);
      expect(await context.acquire()).toMatchObject({ kind: 'busy', holder: { fencingToken: last } });
      expect(await context.history()).toMatchObject([{ event: 'acquired', fencingToken: last }]);
      await context.release(first.leaseId);
      const floor = last + 100_000_000;
      const second = await context.grant({ spareTokens: SPARE, floor });
      expect(second.fencingToken).toBeGreaterThan(floor);
      expect(await lastToken(context)).toBe(second.fencingToken + SPARE);
    },
  },
  {
    name: 'whoever comes after a lease with spare tokens is above the last of them',
    needs: [],
    async run(context) {
      // More than the clock goes on by meanwhile.
      const spareTokens = 100_000_000;
      let last = 0;
      const isAbove = (token: number): void => {
        expect(token).toBeGreaterThan(last);
        last = token + spareTokens;
      };
      const released = await context.grant({ spareTokens });
      isAbove(released.fencingToken);
      await context.release(released.leaseId);
      const expiring = await context.grant({ spareTokens, ttlMs: 120 });
      isAbove(expiring.fencingToken);
      await context.expired();
      const replaced = await context.grant({ spareTokens });
      isAbove(replaced.fencingToken);
      const replacing = await context.grant({ spareTokens, replaces: replaced.leaseId });
      isAbove(replacing.fencingToken);
      const adopted = await context.adopt(replacing.leaseId);
      expect(adopted).toMatchObject({ kind: 'granted' });
      expect(adopted).not.toHaveProperty('spareTokens');
      if (adopted.kind === 'granted') expect(adopted.fencingToken).toBeGreaterThan(last);
    },
  },
  {
    name: 'a repeated grant has no spare tokens: its token is the last of them',
    needs: [],
    async run(context) {
      const { leaseId, fencingToken } = await context.grant({ spareTokens: SPARE });
      const again = await context.acquire({ leaseId, spareTokens: SPARE });
      expect(again).toMatchObject({ kind: 'granted', again: true, fencingToken: fencingToken + SPARE });
      expect(again).not.toHaveProperty('spareTokens');
      expect(await lastToken(context)).toBe(fencingToken + SPARE);
    },
  },
  {
    name: 'with a tick there are no spare tokens',
    needs: [],
    async run(context) {
      const { leaseId, ...granted } = await context.grant({
        spareTokens: SPARE,
        tick: await context.tick('nightly'),
      });
      expect(granted).not.toHaveProperty('spareTokens');
      expect(await lastToken(context)).toBe(granted.fencingToken);
      await context.release(leaseId);
    },
  },
  {
    name: 'there are no spare tokens when others wait or are parked; who waited alone has some',
    needs: [],
    async run(context) {
      const none = async (reply: unknown): Promise<void> => {
        expect(reply).toMatchObject({ kind: 'granted', again: false });
        expect(reply).not.toHaveProperty('spareTokens');
        expect(await lastToken(context)).toBe((reply as { fencingToken: number }).fencingToken);
      };
      const wish = { spareTokens: SPARE };
      const [holder, first, second] = await queueUp(context, wish, [wish, wish]);
      await context.release(holder);
      await none(await first?.ask());
      const replacing = newLeaseId();
      await none(await context.acquire({ ...wish, leaseId: replacing, replaces: first?.leaseId ?? '' }));
      await context.release(replacing);
      expect(await second?.ask()).toMatchObject({ kind: 'granted', spareTokens: SPARE });
      // For both of them the resource is held; one is told when it is free, the other is still parked.
      for (const channel of ['one', 'other']) await context.acquire({ mode: 'park', channel });
      await context.release(second?.leaseId ?? '');
      await none(await context.grant(wish));
    },
  },
  {
    name: 'an owner with spare tokens is told whenever its lease is refused to somebody, however that one asks',
    needs: ['messages'],
    async run(context) {
      const { channel, heard } = await context.listen();
      const { leaseId } = await context.grant({ spareTokens: SPARE, channel });
      const told = { kind: 'wanted', resource: context.resource, leaseId, afterMs: 0 };
      let times = 0;
      const isTold = async (ask: () => Promise<unknown>): Promise<void> => {
        await ask();
        times++;
        await context.until('the message', () => heard[times - 1]);
        expect(heard).toEqual(Array.from({ length: times }, () => told));
      };
      const waiting = newLeaseId();
      await isTold(() => context.acquire());
      await isTold(() => context.acquire({ mode: 'park', channel: 'elsewhere' }));
      await isTold(() => context.acquire({ mode: 'wait', leaseId: waiting }));
      await isTold(() => context.acquire({ mode: 'wait', leaseId: waiting }));
      await context.extend(leaseId);
      await isTold(() => context.acquire());
    },
  },
  {
    name: 'an owner without spare tokens is not told that others ask, nor one who asks for its own',
    needs: ['messages'],
    async run(context) {
      const { channel, heard } = await context.listen();
      const refused = async (): Promise<void> => {
        expect(await context.acquire()).toMatchObject({ kind: 'busy', reason: 'held' });
      };
      const before = await context.grant({ spareTokens: SPARE, channel });
      await context.acquire({ leaseId: before.leaseId, spareTokens: SPARE, channel });
      await context.release(before.leaseId);
      const plain = await context.grant({ channel });
      await refused();
      await context.release(plain.leaseId);
      const ticking = await context.grant({ spareTokens: SPARE, tick: await context.tick('nightly'), channel });
      await refused();
      await context.release(ticking.leaseId);
      const handedOver = await context.grant({ spareTokens: SPARE, channel });
      await context.adopt(handedOver.leaseId, { channel });
      await refused();
      await context.pass(50);
      expect(heard).toEqual([]);
    },
  },
];
