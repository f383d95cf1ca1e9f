import { expect } from 'vitest';

import { LeaseholdError } from '../../errors.ts';
import { yieldOnce } from '../unique.ts';
import type { FenceCase, FenceContext } from './context.ts';

/**
 * Workers that take over from one another all the time: each activates, reads what is there, lets others run, and writes
 * one more. Two that interleave would write the same number.
 */
async function countFenced(fences: readonly FenceContext<unknown>[]): Promise<void> {
  const [context] = fences;
  if (context === undefined) return;
  const workers = 8;
  const rounds = 5;
  const work = async (mine: FenceContext<unknown>): Promise<void> => {
    let refusals = 0;
    for (let done = 0; done < rounds;) {
      const grant = await context.grant();
      try {
        await mine.fence.activate(grant);
        const seen = (await mine.entries()).length;
        await yieldOnce();
        await mine.append(grant, String(seen + 1));
        done++;
        refusals = 0;
      } catch (error) {
        if (!LeaseholdError.is(error, 'STALE_TOKEN')) throw error;
        refusals++;
      }
      // Somebody gets through: whoever acts alone for a moment.
      for (let pause = Math.random() * 20 * 2 ** Math.min(refusals, 6); pause > 0; pause--) await yieldOnce();
    }
  };
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(fences[worker % fences.length] ?? context)));
  const expected = Array.from({ length: workers * rounds }, (_, index) => String(index + 1));
  expect(await context.entries()).toEqual(expected);
}

async function settledOrStale(write: Promise<unknown>): Promise<'written' | 'stale'> {
  try {
    await write;
    return 'written';
  } catch (error) {
    if (!LeaseholdError.is(error, 'STALE_TOKEN')) throw error;
    return 'stale';
  }
}

/** Check and data in one step, and how a fence speaks with the lease. */
export const atomicityCases: readonly FenceCase[] = [
  {
    name: 'owners that depose one another lose no update',
    needs: [],
    run: (context) => countFenced([context]),
  },
  {
    name: 'two fences before the same data are one',
    needs: ['second'],
    run: async (context) => countFenced([context, await context.second()]),
  },
  {
    name: 'nothing of an earlier grant is written after a later one was activated, not even by a write under way',
    needs: [],
    async run(context) {
      const [earlier, later] = [await context.grant(), await context.grant()];
      await context.fence.activate(earlier);
      let activation: Promise<void> | undefined;
      const write = settledOrStale(
        context.fence.write(earlier, async (tx) => {
          await context.subject.append(tx, context.resource, 'earlier');
          // Not awaited here: a fence may let it wait for this write, or refuse this write.
          activation = context.fence.activate(later);
          for (let pause = 0; pause < 5; pause++) await yieldOnce();
        }),
      );
      let atActivation: readonly string[] | undefined;
      while (activation === undefined) await yieldOnce();
      const activated = activation.then(async () => {
        atActivation = await context.entries();
      });
      const [outcome] = await Promise.all([write, activated]);
      expect(await context.entries()).toEqual(atActivation);
      expect(await context.entries()).toEqual(outcome === 'written' ? ['earlier'] : []);
      await context.append(later, 'later');
    },
  },
  {
    name: 'a write under way that is sealed out writes nothing',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      let seal: Promise<readonly string[]> | undefined;
      const write = settledOrStale(
        context.fence.write(grant, async (tx) => {
          await context.subject.append(tx, context.resource, 'before the seal');
          // Not awaited here: a fence may let it wait for this write, or refuse this write.
          seal = context.fence.seal(context.resource, grant.fencingToken).then(() => context.entries());
          for (let pause = 0; pause < 5; pause++) await yieldOnce();
        }),
      );
      while (seal === undefined) await yieldOnce();
      const [outcome, atSeal] = await Promise.all([write, seal]);
      const written = outcome === 'written' ? ['before the seal'] : [];
      expect(atSeal).toEqual(written);
      expect(await context.entries()).toEqual(written);
      await context.stale(context.append(grant, 'after the seal'), { fencingToken: grant.fencingToken, leaseId: null });
      expect(await context.entries()).toEqual(written);
    },
  },
  {
    name: 'write returns what its body returned',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      const { subject, resource } = context;
      const append = async (tx: unknown): Promise<void> => void (await subject.append(tx, resource, 'entry'));
      expect(await context.fence.write(grant, async (tx) => (await append(tx), 42))).toBe(42);
      expect(await context.fence.write(grant, async (tx) => (await append(tx), { rows: 1 }))).toEqual({ rows: 1 });
      expect(await context.fence.write(grant, append)).toBeUndefined();
    },
  },
  {
    name: 'a body that throws writes nothing, and its own error comes out',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      const own = new Error('the body’s own');
      const write = context.fence.write(grant, async (tx) => {
        await context.subject.append(tx, context.resource, 'half');
        throw own;
      });
      expect(await write.catch((error: unknown) => error)).toBe(own);
      expect(await context.entries()).toEqual([]);
      await context.append(grant, 'whole');
      expect(await context.entries()).toEqual(['whole']);
    },
  },
  {
    name: 'all of a write is written, or none',
    needs: [],
    async run(context) {
      const [earlier, later] = [await context.grant(), await context.grant()];
      const three = async (tx: unknown): Promise<void> => {
        for (const entry of ['1', '2', '3']) await context.subject.append(tx, context.resource, entry);
      };
      await context.fence.write(later, three);
      await context.stale(context.fence.write(earlier, three), later);
      expect(await context.entries()).toEqual(['1', '2', '3']);
    },
  },
  {
    name: 'writes of one grant at the same time all get in',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      await context.fence.activate(grant);
      const entries = Array.from({ length: 10 }, (_, index) => `entry ${index}`);
      await Promise.all(entries.map((entry) => context.append(grant, entry)));
      expect((await context.entries()).toSorted()).toEqual(entries);
    },
  },
  {
    name: 'bodies that read and write lose no update of their siblings',
    needs: ['count'],
    async run(context) {
      const grant = await context.grant();
      await context.fence.activate(grant);
      const one = (): Promise<void> =>
        context.fence.write(grant, async (tx) => {
          const seen = await context.count(tx);
          await yieldOnce();
          await context.subject.append(tx, context.resource, String(seen + 1));
        });
      await Promise.all(Array.from({ length: 10 }, one));
      expect(await context.entries()).toEqual(Array.from({ length: 10 }, (_, index) => String(index + 1)));
    },
  },
  {
    name: 'a lease is asked whether it is held before anything is written',
    needs: [],
    async run(context) {
      const lost = context.lease(await context.grant(), { held: false });
      await context.refused('LEASE_LOST', context.append(lost, 'lost'));
      expect(await context.entries()).toEqual([]);
      expect(lost.refusals).toEqual([]);
      const held = context.lease(await context.grant());
      await context.append(held, 'held');
      expect(await context.entries()).toEqual(['held']);
    },
  },
  {
    name: 'a lease that did not activate this fence does not write to it',
    needs: [],
    async run(context) {
      const lease = context.lease(await context.grant(), { activated: false });
      const error = await context.refused('FENCE_NOT_ACTIVATED', context.append(lease, 'blind'));
      expect(error).toMatchObject({ fence: context.fence.name });
      expect(await context.entries()).toEqual([]);
      expect(await context.fence.highest(context.resource)).toBeNull();
      await context.fence.activate(lease);
      const { fencingToken, leaseId } = lease.grant;
      expect(await context.fence.highest(context.resource)).toEqual({ fencingToken, leaseId });
    },
  },
  {
    name: 'a refusal is told to the lease',
    needs: [],
    async run(context) {
      const [first, second] = [context.lease(await context.grant()), context.lease(await context.grant())];
      const later = await context.grant();
      await context.append(second, 'second');
      expect(second.refusals).toEqual([]);
      await context.fence.activate(later);
      await context.stale(context.fence.activate(first), later);
      await context.stale(context.append(second, 'too late'), later);
      for (const { refusals, grant } of [first, second]) {
        expect(refusals).toHaveLength(1);
        expect(refusals[0]).toMatchObject({ code: 'STALE_TOKEN', fencingToken: grant.fencingToken });
      }
    },
  },
];
