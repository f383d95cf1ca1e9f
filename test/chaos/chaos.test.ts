import { describe, expect, inject, test } from 'vitest';

import { playEpisode, type Episode } from './episode.ts';
import { nemesesNamed, titleOf, type Plan } from './plan.ts';

/** Of what `npm run chaos` does, so much that every change meets it: all workloads, each with several faults at a time. */
const seed = Number(process.env['LEASEHOLD_SEED'] ?? Date.now() % 2 ** 31);

function plan(workload: Plan['workload'], names: readonly string[]): Plan {
  return { seed, workload, nemeses: nemesesNamed(names), ttlMs: 1000, seats: 3, strikeMs: 6000, attempts: 1 };
}

function play(its: Plan): Promise<Episode> {
  return playEpisode(its, { postgresUrl: inject('postgresUrl'), queueUrl: inject('redisUrl') });
}

/** Nothing was broken, each fault met somebody, and work went from owner to owner. */
function expectHeld({ plan: its, breaches, faults, counts }: Episode): void {
  expect(breaches, titleOf(its)).toEqual([]);
  const met = new Set(faults.filter(({ effect }) => effect > 0).map(({ nemesis }) => nemesis));
  expect([...met].toSorted()).toEqual(its.nemeses.map(({ name }) => name).toSorted());
  // A tick whose owner was killed may be over before its lease has run out: then nobody takes over.
  if (its.workload !== 'cron') expect(counts.takeovers).toBeGreaterThan(0);
  expect(counts.acquisitions).toBeGreaterThan(3);
  expect(counts.acceptedWrites).toBeGreaterThan(10);
}

describe.concurrent(
  `three processes under several faults at a time (LEASEHOLD_SEED=${seed})`,
  { timeout: 180_000 },
  () => {
    test('that want the same leases keep every rule', async () => {
      const names = ['kill', 'partition', 'store-flush', 'commit-reply-lost', 'revoke'];
      expectHeld(await play(plan('core', names)));
    });

    test('with the same schedule run no tick twice, and keep every rule', async () => {
      expectHeld(await play(plan('cron', ['kill', 'pause', 'requests-lost', 'fence-refused', 'store-client-kill'])));
    });

    test('that work on one queue lose no job, use no attempt for a loss, and keep every rule', async () => {
      expectHeld(await play(plan('bullmq', ['kill', 'pause', 'late-packet'])));
    });
  },
);
