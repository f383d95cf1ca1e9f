import { expect } from 'vitest';

import { LeaseholdError, type FenceUnavailableError } from '../../errors.ts';
import { yieldOnce } from '../unique.ts';
import type { FenceCase, FenceContext } from './context.ts';

type Told = 'written' | 'not-written' | 'unknown';

/** What a write says of itself. Anything else would be no answer. */
async function toldBy(write: Promise<unknown>): Promise<Told> {
  try {
    await write;
    return 'written';
  } catch (error) {
    const own = LeaseholdError.of(error);
    // A refusal says that nothing was written.
    if (own?.code === 'STALE_TOKEN') return 'not-written';
    if (own?.code !== 'FENCE_UNAVAILABLE') throw error;
    return (own as FenceUnavailableError).outcome;
  }
}

/** What a write said must be so, and stay so, and its grant must be able to go on. */
async function mustBeTrue(context: FenceContext<unknown>, lose: () => Promise<void>): Promise<void> {
  const [grant, later] = [await context.grant(), await context.grant()];
  await context.fence.activate(grant);
  await context.append(grant, 'before');
  await lose();
  const told = await toldBy(context.append(grant, 'in doubt'));
  const copies = async (): Promise<number> => (await context.entries()).filter((entry) => entry === 'in doubt').length;
  const found = await copies();
  if (told === 'unknown') expect(context.subject.outcomeUnknown, 'outcome unknown, which it may not say').toBe(true);
  else expect(found, `told ${told}`).toBe(told === 'written' ? 1 : 0);
  await context.append(grant, 'after');
  await context.fence.activate(later);
  // From here on nothing of the first grant gets in any more, not even what was on its way.
  const settled = await copies();
  await context.append(later, 'later');
  const rest = (await context.entries()).filter((entry) => entry !== 'in doubt');
  expect(rest).toEqual(['before', 'after', 'later']);
  expect(await copies(), 'after a later grant was activated').toBe(settled);
  if (told === 'unknown') expect(settled).toBeLessThanOrEqual(1);
  else expect(settled, `told ${told}, and later`).toBe(found);
}

/** What is true when a connection breaks or a process dies at the worst moment. */
export const faultCases: readonly FenceCase[] = [
  {
    name: 'a write whose answer was lost tells the truth, and its grant goes on',
    needs: ['loseAnswer'],
    run: (context) => mustBeTrue(context, () => context.loseAnswer()),
  },
  {
    name: 'a write whose answer was lost, and that is refused when it asks again, does not say that nothing was written',
    needs: ['second', 'loseAnswer'],
    async run(context) {
      const other = await context.second();
      for (let round = 0; round < 4; round++) {
        const [grant, later] = [await context.grant(), await context.grant()];
        await context.fence.activate(grant);
        await context.append(grant, `before ${round}`);
        await context.loseAnswer();
        const write = toldBy(context.append(grant, `in doubt ${round}`));
        // Often after it was carried out, and before its answer is missed.
        for (let pause = 0; pause < 4 * round; pause++) await yieldOnce();
        await other.fence.activate(later);
        const told = await write;
        const isThere = (await context.entries()).includes(`in doubt ${round}`);
        if (told !== 'unknown') expect(isThere, `told ${told}`).toBe(told === 'written');
        await context.append(later, `later ${round}`);
        expect((await context.entries()).at(-1)).toBe(`later ${round}`);
      }
    },
  },
  {
    name: 'a write that never arrived tells the truth, and its grant goes on',
    needs: ['loseRequest'],
    run: (context) => mustBeTrue(context, () => context.loseRequest()),
  },
  {
    name: 'what dies between the guard and the commit leaves nothing, and a later grant gets in',
    needs: ['abandon'],
    async run(context) {
      const { abandonedMs = 5000 } = context.subject;
      const [grant, later] = [await context.grant(), await context.grant()];
      await context.fence.activate(grant);
      await context.append(grant, 'before');
      await context.abandon(grant, 'abandoned');
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<never>((_, reject) => {
        const error = new Error(`a later grant is not let in within ${abandonedMs} ms`);
        timer = setTimeout(() => reject(error), abandonedMs);
      });
      const getIn = context.fence.activate(later).then(() => context.append(later, 'later'));
      await Promise.race([getIn, late]).finally(() => clearTimeout(timer));
      await context.stale(context.fence.activate(grant), later);
      expect(await context.entries()).toEqual(['before', 'later']);
    },
  },
];
