import { expect } from 'vitest';

import { newLeaseId, unique } from '../unique.ts';
import type { StoreCase, StoreContext } from './context.ts';

/** What an owner says of itself with its extensions, and what it is told. */
export const ownerWordCases: readonly StoreCase[] = [
  {
    name: 'extend writes what is given of the owner to the leases it is given for, and to no other',
    needs: [],
    async run(context) {
      const words = ['{"pid":1}', undefined, '{"pid":"2\\n é 漢 , 1"}', '{"pid":1}', 'no JSON\nat all', ''];
      const contexts = words.map(() => context.at(unique('words')));
      const leases = await Promise.all(contexts.map((each) => each.grant()));
      const items = contexts.map(({ resource }, index) => ({
        ...{ resource, leaseId: leases[index]?.leaseId ?? '', ttlMs: 30_000, ownerJson: words[index] },
      }));
      const before = await Promise.all(contexts.map((each) => each.record()));
      const verdicts = await context.store.extend(items, context.call);
      expect(verdicts.map(({ verdict }) => verdict)).toEqual(words.map(() => 'extended'));
      for (const [index, each] of contexts.entries()) {
        const old = before[index];
        expect(await each.record()).toEqual({
          ...old,
          ownerJson: words[index] ?? old?.ownerJson,
          ...{ extendedUs: expect.any(Number), expiresUs: expect.any(Number), nowUs: expect.any(Number) },
          extensions: 1,
        });
      }
      const first = contexts[0] as StoreContext;
      await first.extend(leases[0]?.leaseId ?? '');
      expect(await first.record()).toMatchObject({ ownerJson: words[0], extensions: 2 });
    },
  },
  {
    name: 'extend of a lease that is not extended writes nothing of its owner',
    needs: [],
    async run(context) {
      const ownerJson = '{"pid":"of somebody else"}';
      const mute = async (leaseId: string): Promise<void> => {
        const before = await context.record();
        const item = { resource: context.resource, leaseId, ttlMs: 30_000, ownerJson };
        const [verdict] = await context.store.extend([item], context.call);
        expect(verdict?.verdict).not.toBe('extended');
        expect(await context.record()).toEqual({ ...before, nowUs: expect.any(Number) });
      };
      const first = await context.grant({ ttlMs: 120 });
      await context.expired();
      await mute(first.leaseId);
      const { leaseId } = await context.grant();
      await mute(first.leaseId);
      await mute(newLeaseId());
      await context.revoke(leaseId);
      await mute(leaseId);
      await context.release(leaseId);
      await mute(leaseId);
      await context.grant();
      expect((await context.record()).ownerJson).not.toBe(ownerJson);
    },
  },
  {
    name: 'the time that an extend is told of, if it is, is the time at which it was carried out',
    needs: [],
    async run(context) {
      const { leaseId } = await context.grant();
      const told: number[] = [];
      const call = { ...context.call, told: (nowUs: number) => told.push(nowUs) };
      await context.store.extend([{ resource: context.resource, leaseId, ttlMs: 30_000 }], call);
      const { extendedUs, nowUs } = await context.record();
      for (const us of told) {
        expect(us).toBeGreaterThanOrEqual(extendedUs - 1000);
        expect(us).toBeLessThanOrEqual(nowUs);
      }
    },
  },
];
