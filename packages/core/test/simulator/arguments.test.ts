import { expect, test } from 'vitest';
import { argumentsOf } from './arguments.ts';
import { partsOf, planOf } from './plan.ts';
import { describeFailure } from './report.ts';
import { simulate } from './run.ts';

const of = (text: string) => argumentsOf(text.split(' ').filter((word) => word !== ''));

test('many seeds, or one', () => {
  expect(of('')).toMatchObject({ from: 0, seeds: 10_000, minutes: Infinity });
  expect(of('--minutes 0.5 --from 7 --workers 1')).toEqual({ from: 7, seeds: Infinity, minutes: 0.5, workers: 1 });
  expect(of('--seed 5 --without a,f0')).toEqual({ seed: 5, without: ['a', 'f0'] });
  expect(of('--help --seeds 5')).toBeNull();
});

test.each([
  ['--seeds 0', '--seeds is 0: it must be a whole number from 1'],
  ['--seeds many', '--seeds is many: it must be a whole number from 1'],
  ['--workers 0', '--workers is 0: it must be a whole number from 1'],
  ['--minutes 0', '--minutes is 0: it must be a number above 0'],
  ['--from 1.5', '--from is 1.5: it must be a whole number from 0'],
  ['--seed 5 --seeds 5', '--seed plays one seed: --seeds is for many'],
  ['--seed 5 --minutes 1', '--seed plays one seed: --minutes is for many'],
  ['--seed 5 --from 1', '--seed plays one seed: --from is for many'],
  ['--without a', '--without a: of which --seed?'],
  ['--seed 5 --without zz', `--without zz: seed 5 has no such part; it has ${partsOf(planOf(5)).join(', ')}`],
  [`--seed 5 --without a,b,c,d`, /^--without (a,b,c,d: seed 5 has no process then|[b-d]: seed 5 has no such part)/],
  ['--sed 5', /^Unknown option '--sed'/],
])('%s is refused', (text, why) => {
  expect(() => of(text)).toThrow(why);
});

test('a seed is called smaller only where it was made smaller', async () => {
  const run = await simulate(planOf(5));
  const first = (removed: readonly string[], tries: number) =>
    describeFailure(5, { run, removed, tries }).split('\n', 1)[0];
  expect(first([], 1)).not.toContain('smaller');
  expect(first(['a'], 1)).not.toContain('smaller');
  expect(first(['a'], 9)).toContain('(smaller by 1 parts after 9 runs)');
});
