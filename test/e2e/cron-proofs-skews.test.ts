import { describe, expect, inject, test, vi } from 'vitest';

import { startChild, type Child } from '../support/child.ts';
import { FakeTime } from '../support/faketime.ts';
import { testNeeding } from '../support/needing.ts';
import { uniqueName } from '../support/redis-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { Fleet, IS_LONG, report, SECOND_MS, ticksBetween, type Run } from './fixtures/cron-proof-fleet.ts';
import type { ProofJob } from './fixtures/cron-proof-worker.ts';

// Each test is three processes, which want to be started in time.
vi.setConfig({ testTimeout: 120_000, maxConcurrency: 3 });

const url = inject('redisUrl');
const TICKS = IS_LONG ? 30 : 5;
const JOBS: readonly ProofJob[] = [
  { name: 'idle', body: { for: 0 } },
  { name: 'half', body: { for: 500 }, noOverlap: true },
  { name: 'long', expression: '*/2 * * * * *', body: { for: IS_LONG ? 1500 : 1200 } },
];
const PERIODS = { idle: SECOND_MS, half: SECOND_MS, long: 2 * SECOND_MS };

/** Each tick has one run, from the first to the last of which all these processes have decided. How many these are. */
function checkTicks(fleet: Fleet, members: readonly Child[], job: keyof typeof PERIODS): number {
  const asked = members.map((member) => fleet.decided(member, job));
  const first = Math.max(...asked.map((ticks) => Math.min(...ticks)));
  const last = Math.min(...asked.map((ticks) => Math.max(...ticks)));
  const runs = fleet.runs(job);
  const ran = runs.map(({ tick }) => tick);
  const all = ticksBetween(first, last, PERIODS[job]);
  expect(
    ran.filter((tick) => tick >= first && tick <= last),
    `${job}, in the order of the tokens`,
  ).toEqual(all);
  // Before and after these, too, none is run twice, and later ones have larger tokens.
  expect(ran).toEqual([...new Set(ran)].toSorted((a, b) => a - b));
  expect(new Set(runs.map(({ fencingToken }) => fencingToken)).size).toBe(runs.length);
  return all.length;
}

function checkFleet(fleet: Fleet, members: readonly Child[]): Record<string, number> {
  const jobs = ['idle', 'half', 'long'] as const;
  return Object.fromEntries(jobs.map((job) => [job, checkTicks(fleet, members, job)]));
}

function reasons(fleet: Fleet, member: Child): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { reason = '' } of fleet.said('skipped', [member])) counts[reason] = (counts[reason] ?? 0) + 1;
  return counts;
}

/** The ticks of a rival, the first left out, until one is not before the last of interest. */
async function ranUpTo(member: Child, last: number): Promise<number[]> {
  const ticks: number[] = [];
  while (!ticks.some((tick) => tick >= last)) ticks.push((await member.next('run')).tick as number);
  return ticks;
}

describe.concurrent('three processes run each tick once, with growing tokens', () => {
  test.each([
    ...(IS_LONG
      ? ([
          ['clocks that agree', [0, 0, 0]],
          ['two clocks 20 ms ahead', [0, 20, 20]],
          ['a clock 300 ms ahead', [0, 0, 300]],
          ['clocks 300 ms ahead and behind', [0, 300, -300]],
          ['two clocks 1.5 s behind', [0, -1500, -1500]],
        ] as const)
      : ([['clocks 20 ms ahead and 300 ms behind', [0, 20, -300]]] as const)),
    ['a clock 1.5 s ahead', [0, 0, 1500]] as const,
  ])('%s', async (clocks, skews) => {
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: 3000, jobs: JOBS });
    const members = await fleet.startAll(...skews.map((skewMs) => ({ skewMs })));
    for (const member of members) await fleet.decides(member, 'idle', TICKS);
    await fleet.shutDown();
    const ticks = checkFleet(fleet, members);
    expect(fleet.said('unavailable')).toEqual([]);
    expect(fleet.said('refused')).toEqual([]);
    expect(new Set(members.flatMap((member) => Object.keys(reasons(fleet, member))))).not.toContain('clock-ahead');
    report(clocks, { ticks });
  });

  test('a clock 10 s ahead waits and one 10 s behind comes too late, and neither harms the third', async () => {
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: 3000, jobs: JOBS });
    const one = await fleet.start();
    // As long as nobody has run a newer tick, whoever is behind runs older ones, late.
    for (const { name } of JOBS) await fleet.run(({ job }) => job === name);
    const [ahead, behind] = (await fleet.startAll({ skewMs: 10_000 }, { skewMs: -10_000 })) as [Child, Child];
    await fleet.decides(behind, 'idle', TICKS);
    // What was waited for comes ten seconds later.
    await fleet.decides(ahead, 'idle', IS_LONG ? 20 : 2);
    await fleet.shutDown();
    const ticks = checkFleet(fleet, [one]);
    const waits = fleet.said('waiting', [ahead]);
    expect(waits.length).toBeGreaterThanOrEqual(TICKS);
    for (const { reason, aheadMs } of waits) {
      expect(reason).toBe('clock-ahead');
      expect(aheadMs).toBeGreaterThan(9000);
      expect(aheadMs).toBeLessThanOrEqual(10_010);
    }
    for (const reason of Object.keys(reasons(fleet, ahead))) {
      expect(['already-ran', 'superseded', 'held', 'running-here', 'stopped']).toContain(reason);
    }
    expect(fleet.said<Run>('run', [behind])).toEqual([]);
    for (const reason of Object.keys(reasons(fleet, behind))) expect(['superseded', 'already-ran']).toContain(reason);
    report('clocks 10 s ahead and behind', {
      ticks,
      ahead: { waited: waits.length, ran: fleet.said('run', [ahead]).length, ...reasons(fleet, ahead) },
      behind: reasons(fleet, behind),
    });
  });

  test('a key for each tick that is deleted after the run does not: 300 ms double the ticks', async () => {
    const prefix = uniqueName('rival');
    const members = [0, 300].map((skewMs) =>
      startChild(new URL('fixtures/cron-rival.ts', import.meta.url), {
        env: { REDIS_URL: url, PREFIX: prefix, SKEW_MS: `${skewMs}` },
        scope: 'file',
      }),
    );
    try {
      for (const member of members) await member.next('ready', { timeoutMs: 60_000 });
      const firsts = await Promise.all(members.map(async (member) => (await member.next('run')).tick as number));
      const common = ticksBetween(Math.max(...firsts) + SECOND_MS, Math.max(...firsts) + 3 * SECOND_MS);
      const ran = await Promise.all(members.map((member) => ranUpTo(member, common.at(-1) as number)));
      const both = common.filter((tick) => ran.every((ticks) => ticks.includes(tick)));
      expect(both.length).toBeGreaterThanOrEqual(2);
      report('a key for each tick, 300 ms', { doubled: `${both.length} of ${common.length}` });
    } finally {
      for (const member of members) await member.kill9();
    }
  });
});

describe('with clocks that libfaketime moves', () => {
  // Side by side within one test, because a clock belongs to one.
  testNeeding(
    'libfaketime',
    'each tick runs once by a store that is behind everybody (the long form: and by a process that is ahead)',
    async () => {
      const [process, early, late] = await Promise.all([IS_LONG ? aheadBy(300) : null, behindBy(400), behindBy(3000)]);
      // A clock may be ahead by half a period before it is waited for.
      expect(early.lateMs[0]).toBeGreaterThanOrEqual(0);
      expect(early.lateMs[1]).toBeLessThan(1500);
      expect(late.lateMs[0]).toBeGreaterThanOrEqual(3000);
      expect(late.lateMs[1]).toBeLessThan(4500);
      if (process !== null) report('a process 300 ms ahead', { ticks: process });
      report('a store 400 ms behind', early);
      report('a store 3 s behind', late);
    },
  );

  async function aheadBy(ms: number): Promise<Record<string, number>> {
    using time = new FakeTime();
    time.step(ms);
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: 3000, jobs: JOBS });
    const members = await fleet.startAll({}, {}, { env: time.env });
    for (const member of members) await fleet.decides(member, 'idle', TICKS);
    await fleet.shutDown();
    return checkFleet(fleet, members);
  }

  /** The least and the most that ticks were late. */
  async function behindBy(storeMs: number): Promise<{ ticks: Record<string, number>; lateMs: [number, number] }> {
    using time = new FakeTime();
    time.step(-storeMs);
    await using store = await startRedis({ faketime: time });
    await using fleet = new Fleet({ url: store.url, ledgerUrl: url, ttl: 3000, jobs: JOBS });
    const members = await fleet.startAll({}, {}, {});
    for (const member of members) await fleet.decides(member, 'idle', TICKS);
    await fleet.shutDown();
    const ticks = checkFleet(fleet, members);
    const late = fleet.runs('idle').map(({ at, tick }) => Math.round(at - tick));
    return { ticks, lateMs: [Math.min(...late), Math.max(...late)] };
  }
});
