import { expect, test } from 'vitest';

import { argumentsOf } from './arguments.ts';
import { argumentsFor, nemesesNamed, type Plan } from './plan.ts';

const of = (text: string) => argumentsOf(text.split(' ').filter((word) => word !== ''));

test('what is not said is the usual', () => {
  expect(of('')).toMatchObject({ parallel: 2, strikeMs: 8000, forMs: null, only: [], pairs: false });
  expect(of('--minutes 0.5 --seed 7 --seconds 2.5')).toMatchObject({ forMs: 30_000, seed: 7, strikeMs: 2500 });
  expect(of('--help')).toBeNull();
});

test.each([8000, 2500])('an episode of %i ms is played again as it is printed', (strikeMs) => {
  const nemeses = nemesesNamed(['kill', 'pause']);
  const plan: Plan = { seed: 12, workload: 'cron', nemeses, ttlMs: 950, seats: 3, strikeMs };
  expect(of(argumentsFor(plan))).toMatchObject({
    episode: { seed: 12, ttlMs: 950 },
    ...{ only: ['kill', 'pause'], workloads: ['cron'], strikeMs },
  });
});

test.each([
  ['--only nosuch', /^--only nosuch: there is no such fault; there are kill, /],
  ['--only ,', '--only names nothing'],
  ['--workload queue', '--workload queue: it must be one of core, cron, bullmq'],
  ['--minutes 0', '--minutes is 0: it must be a number above 0'],
  ['--seconds 0.5', '--seconds is 0.5: it must be a number from 1'],
  ['--parallel 1.5', '--parallel is 1.5: it must be a whole number from 1'],
  ['--parallel 0', '--parallel is 0: it must be a whole number from 1'],
  ['--seed 1.5', '--seed is 1.5: it must be a whole number from 0'],
  ['--ttl 800', '--ttl 800: it belongs to --episode'],
  ['--episode 7', /^--episode needs --ttl/],
  ['--episode 7 --ttl 800 --workload core --only kill --pairs', '--episode plays one episode: --pairs is for many'],
  ['--bogus', /^Unknown option '--bogus'/],
])('%s is refused', (text, why) => {
  expect(() => of(text)).toThrow(why);
});
