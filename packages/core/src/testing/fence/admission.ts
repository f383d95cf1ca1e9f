import { expect } from 'vitest';

import { ConfigError } from '../../errors.ts';
import type { Grant } from '../../fence/fence.ts';
import { newLeaseId } from '../unique.ts';
import type { FenceCase } from './context.ts';

/** What is no qualified name. Halves of surrogate pairs all become the same bytes. */
const NO_NAMES = ['', 'x', '/', '/x', 'x/', '../x', ' a/x', 'a/\n', 'a/\0', 'a/\ud800', `a/${'x'.repeat(257)}`];

/** Who is let in: the rule of token and leaseId, and seals. */
export const admissionCases: readonly FenceCase[] = [
  {
    name: 'a fence that has seen nothing admits any grant, and knows it from then on',
    needs: [],
    async run(context) {
      expect(await context.fence.highest(context.resource)).toBeNull();
      const grant = await context.grant();
      await context.fence.activate(grant);
      const { fencingToken, leaseId } = grant;
      expect(await context.fence.highest(context.resource)).toEqual({ fencingToken, leaseId });
      expect(await context.entries()).toEqual([]);
    },
  },
  {
    name: 'the same grant is admitted again and again',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      for (const entry of ['one', 'two', 'three']) {
        await context.fence.activate(grant);
        await context.append(grant, entry);
      }
      expect(await context.entries()).toEqual(['one', 'two', 'three']);
    },
  },
  {
    name: 'a later grant shuts out an earlier one, from its activation on',
    needs: [],
    async run(context) {
      const [earlier, later] = [await context.grant(), await context.grant()];
      await context.fence.activate(earlier);
      await context.append(earlier, 'earlier');
      await context.fence.activate(later);
      await context.stale(context.fence.activate(earlier), later);
      await context.stale(context.append(earlier, 'too late'), later);
      await context.append(later, 'later');
      await context.stale(context.append(earlier, 'too late'), later);
      expect(await context.entries()).toEqual(['earlier', 'later']);
      expect(await context.fence.highest(context.resource)).toMatchObject({ leaseId: later.leaseId });
    },
  },
  {
    name: 'what a grant read after its activation is still so when it writes: no earlier grant writes in between',
    needs: [],
    async run(context) {
      const [earlier, later] = [await context.grant(), await context.grant()];
      await context.fence.activate(earlier);
      await context.append(earlier, '1');
      const seenEarlier = (await context.entries()).length;
      // The later one has written nothing yet; its activation alone must shut the other out.
      await context.fence.activate(later);
      const seenLater = (await context.entries()).length;
      await context.stale(context.append(earlier, String(seenEarlier + 1)), later);
      expect(await context.entries()).toHaveLength(seenLater);
      await context.append(later, String(seenLater + 1));
      expect(await context.entries()).toEqual(['1', '2']);
    },
  },
  {
    name: 'a write admits like an activation: it shuts out every earlier grant',
    needs: [],
    async run(context) {
      const [earlier, later] = [await context.grant(), await context.grant()];
      await context.append(later, 'later');
      await context.stale(context.append(earlier, 'too late'), later);
      await context.stale(context.fence.activate(earlier), later);
      expect(await context.entries()).toEqual(['later']);
    },
  },
  {
    name: 'the same token of another lease is refused: the number alone proves nothing',
    needs: [],
    async run(context) {
      const first = await context.grant();
      const twin = { ...first, leaseId: newLeaseId() };
      await context.fence.activate(first);
      await context.stale(context.fence.activate(twin), first);
      await context.stale(context.append(twin, 'twin'), first);
      await context.append(first, 'first');
      expect(await context.entries()).toEqual(['first']);
    },
  },
  {
    name: 'a refusal changes nothing',
    needs: [],
    async run(context) {
      const [first, second, third] = [await context.grant(), await context.grant(), await context.grant()];
      await context.fence.activate(third);
      for (const old of [first, second]) {
        await context.stale(context.fence.activate(old), third);
        await context.stale(context.append(old, 'old'), third);
      }
      const { fencingToken, leaseId } = third;
      expect(await context.fence.highest(context.resource)).toEqual({ fencingToken, leaseId });
      await context.append(third, 'third');
      expect(await context.entries()).toEqual(['third']);
    },
  },
  {
    name: 'a seal shuts out every grant up to it, and admits nobody',
    needs: [],
    async run(context) {
      const [before, sealed, after] = [await context.grant(), await context.grant(), await context.grant()];
      await context.fence.activate(sealed);
      await context.fence.seal(context.resource, sealed.fencingToken);
      const highest = { fencingToken: sealed.fencingToken, leaseId: null };
      expect(await context.fence.highest(context.resource)).toEqual(highest);
      await context.stale(context.append(before, 'before'), highest);
      await context.stale(context.append(sealed, 'sealed'), highest);
      await context.stale(context.fence.activate(sealed), highest);
      await context.append(after, 'after');
      expect(await context.entries()).toEqual(['after']);
    },
  },
  {
    name: 'a seal below the highest changes nothing',
    needs: [],
    async run(context) {
      const [lower, higher] = [await context.grant(), await context.grant()];
      await context.fence.activate(higher);
      await context.fence.seal(context.resource, lower.fencingToken);
      const { fencingToken, leaseId } = higher;
      expect(await context.fence.highest(context.resource)).toEqual({ fencingToken, leaseId });
      await context.append(higher, 'higher');
      expect(await context.entries()).toEqual(['higher']);
    },
  },
  {
    name: 'a seal before anything else is remembered',
    needs: [],
    async run(context) {
      const [lower, higher] = [await context.grant(), await context.grant()];
      await context.fence.seal(context.resource, lower.fencingToken);
      await context.stale(context.fence.activate(lower), { fencingToken: lower.fencingToken, leaseId: null });
      await context.fence.activate(higher);
    },
  },
  {
    name: 'what is neither a lease nor a grant is refused',
    needs: [],
    async run(context) {
      const grant = await context.grant();
      const wrong = [
        ...[grant.fencingToken, String(grant.fencingToken), null, undefined],
        ...[
          { ...grant, leaseId: '' },
          { ...grant, fencingToken: 0 },
          { ...grant, fencingToken: 1.5 },
        ],
        { ...grant, fencingToken: String(grant.fencingToken) },
        ...NO_NAMES.map((resource) => ({ ...grant, resource })),
        ...['x'.repeat(257), 'a\nb', 'a\ud800'].map((leaseId) => ({ ...grant, leaseId })),
      ];
      for (const each of wrong) {
        const calls = [
          () => context.fence.activate(each as Grant),
          () => context.fence.write(each as Grant, () => 'done'),
        ];
        for (const call of calls) expect(await context.refused('CONFIG', call())).toBeInstanceOf(ConfigError);
      }
      for (const name of NO_NAMES) {
        await context.refused('CONFIG', context.fence.highest(name));
        await context.refused('CONFIG', context.fence.seal(name, grant.fencingToken));
      }
      expect(await context.fence.highest(context.resource)).toBeNull();
    },
  },
];
