import { describe, expect, inject, test } from 'vitest';

import { playEpisode } from './episode.ts';
import type { BugName } from './owners/setup.ts';
import { nemesesNamed, type Plan } from './plan.ts';

/** A check that cannot fail is none: each of these is broken in its processes, and must be caught. */
describe.concurrent('real processes are caught', { timeout: 120_000 }, () => {
  test.each<[what: string, bug: BugName, workload: Plan['workload'], nemesis: string, rules: RegExp]>([
    ['whose fence admits everybody', 'open-fence', 'core', 'pause', /^S[13] /],
    ['that do not hear of the loss of their lease', 'deaf', 'core', 'pause', /^(S[67]|L6) /],
    ['for whose engine no lease is ever lost', 'immortal', 'core', 'store-delete', /^S9 /],
    ['whose scheduled runs write past the fence', 'no-fence', 'cron', 'pause', /^S[13] /],
    ['whose jobs write past the fence', 'no-fence', 'bullmq', 'pause', /^S[13] /],
  ])('%s', async (_, bug, workload, nemesis, rules) => {
    const plan = {
      seed: 2,
      workload,
      nemeses: nemesesNamed([nemesis]),
      ttlMs: 800,
      seats: 2,
      strikeMs: workload === 'cron' ? 6000 : 2500,
    };
    const { breaches } = await playEpisode(
      plan,
      { postgresUrl: inject('postgresUrl'), queueUrl: inject('redisUrl') },
      bug,
    );
    expect(breaches.filter((breach) => rules.test(breach)).length, breaches.join('\n')).toBeGreaterThan(0);
  });
});
