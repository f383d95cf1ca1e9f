import { describe, expect, inject, test, vi } from 'vitest';

import type { Child } from '../support/child.ts';
import { connectRedis } from '../support/redis-client.ts';
import {
  Fleet,
  inSeconds,
  IS_LONG,
  order,
  report,
  SECOND_MS,
  trueNow,
  until,
  type Run,
} from './fixtures/cron-proof-fleet.ts';

// Each test is three processes, which want to be started in time.
vi.setConfig({ testTimeout: 120_000, maxConcurrency: 3 });

const url = inject('redisUrl');
const TTL_MS = 1500;
/** For a busy machine. */
const SLACK_MS = 1500;

/** The first run has written that it begins. */
async function begun(fleet: Fleet): Promise<void> {
  await vi.waitFor(async () => expect(await fleet.ledger('job')).toHaveLength(1), 10_000);
}

describe.concurrent('a process that is killed in mid-run', () => {
  test('loses its tick, and the next one runs elsewhere within ttl and period', async () => {
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: TTL_MS, jobs: [{ name: 'job', body: 'until-told' }] });
    await fleet.startAll({}, {}, {});
    const took: number[] = [];
    let last = 0;
    for (let deaths = 0; deaths < (IS_LONG ? 10 : 1); deaths++) {
      if (deaths > 0) await fleet.start();
      const { run: lost, member: victim } = await fleet.run(({ tick }) => tick > last);
      await victim.kill9();
      const killed = trueNow();
      const { run: next, member } = await fleet.run(({ tick }) => tick > lost.tick);
      expect(member).not.toBe(victim);
      expect(next.fencingToken).toBeGreaterThan(lost.fencingToken);
      took.push(Math.round(next.at - killed));
      last = lost.tick;
    }
    expect(Math.max(...took)).toBeLessThan(TTL_MS + SECOND_MS + SLACK_MS);
    const ticks = fleet.runs('job').map(({ tick }) => tick);
    expect(ticks).toEqual([...new Set(ticks)]);
    report('killed in mid-run, no retry', { ttl: TTL_MS, nextRunAfterMs: took });
  });

  test('with retry: another one runs the same tick, within the ttl and a second', async () => {
    const took: number[] = [];
    for (let deaths = 0; deaths < (IS_LONG ? 5 : 1); deaths++) {
      await using fleet = new Fleet({ url, ledgerUrl: url, ttl: TTL_MS });
      await fleet.startAll({}, {}, {});
      const { expression, ticks } = inSeconds(3);
      await fleet.schedule({ name: 'job', expression, retry: 1, body: 'until-told' });
      const { run: first, member: victim } = await fleet.run(({ attempt }) => attempt === 1);
      await victim.kill9();
      const killed = trueNow();
      const { run: second, member } = await fleet.run(({ attempt }) => attempt === 2);
      took.push(Math.round(second.at - killed));
      expect(second).toMatchObject({ tick: ticks[0], attempt: 2, trigger: 'retry' });
      expect(first).toMatchObject({ tick: ticks[0], attempt: 1, trigger: 'schedule' });
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
      order(member, { op: 'go', end: true });
      await fleet.find('finished', ({ outcome }) => outcome === 'done');
      await fleet.shutDown(fleet.members.filter((its) => its !== victim));
      expect(fleet.runs('job')).toHaveLength(2);
    }
    expect(Math.max(...took)).toBeLessThan(TTL_MS + SECOND_MS + SLACK_MS);
    report('killed in mid-run, retry: 1', { ttl: TTL_MS, sameTickAfterMs: took });
  });

  test('50 ms before a tick, having run the one before it, does not take it along', async () => {
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: 30_000, jobs: [{ name: 'job', body: { for: 1 } }] });
    const alive = new Set(await fleet.startAll({}, {}, {}));
    const late: number[] = [];
    while (late.length < (IS_LONG ? 10 : 1)) {
      if (alive.size < 3) alive.add(await fleet.start());
      const now = trueNow();
      const { run, member: victim } = await fleet.run(({ tick }) => tick > now);
      await until(run.tick + SECOND_MS - 50);
      const isInTime = trueNow() < run.tick + SECOND_MS - 10;
      await victim.kill9();
      alive.delete(victim);
      // This process was asleep, and another moment was hit.
      if (!isInTime) continue;
      const { run: next, member } = await fleet.run(({ tick }) => tick === run.tick + SECOND_MS);
      expect(member).not.toBe(victim);
      late.push(Math.round(next.at - next.tick));
    }
    await fleet.shutDown([...alive]);
    const ticks = fleet.runs('job').map(({ tick }) => tick);
    expect(ticks).toEqual([...new Set(ticks)].toSorted((a, b) => a - b));
    report('killed 50 ms before a tick', { lateMs: late });
  });
});

describe.concurrent('a run that has lost its lease', () => {
  /** The write of the run was refused; what it had admitted lies before the runs that came after it. */
  async function checkRefused(fleet: Fleet, victim: Child, lost: Run): Promise<void> {
    const { said } = await fleet.find('refused', (_said, member) => member === victim);
    expect(said).toMatchObject({ tick: lost.tick, fencingToken: lost.fencingToken, code: 'STALE_TOKEN' });
    const ledger = await fleet.ledger('job');
    const tokens = ledger.map(({ fencingToken }) => fencingToken);
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    expect(ledger.filter(({ fencingToken }) => fencingToken === lost.fencingToken)).toMatchObject([{ what: 'begin' }]);
  }

  function elsewhere(fleet: Fleet, victim: Child, lost: Run): Run[] {
    return fleet
      .runs(
        'job',
        fleet.members.filter((member) => member !== victim),
      )
      .filter(({ fencingToken }) => fencingToken > lost.fencingToken);
  }

  /** Others run ticks meanwhile: theirs end by themselves. */
  async function startFleet(): Promise<{ fleet: Fleet; victim: Child; lost: Run }> {
    const fleet = new Fleet({
      url,
      ledgerUrl: url,
      ttl: TTL_MS,
      jobs: [{ name: 'job', body: 'until-told' }],
    });
    const victim = await fleet.start();
    const { run: lost } = await fleet.run(() => true);
    const others = { body: { for: 50 } } as const;
    await fleet.startAll({ jobs: [{ name: 'job', ...others }] }, { jobs: [{ name: 'job', ...others }] });
    return { fleet, victim, lost };
  }

  test('because its process stood still, writes nothing, fails, and has no second copy beside it', async () => {
    const { fleet, victim, lost } = await startFleet();
    await using _fleet = fleet;
    await begun(fleet);
    await victim.stop();
    // The order lies there when it wakes up.
    order(victim, { op: 'go', end: false });
    await vi.waitFor(() => expect(elsewhere(fleet, victim, lost).length).toBeGreaterThanOrEqual(2), 30_000);
    victim.cont();
    await checkRefused(fleet, victim, lost);
    const { said: aborted } = await fleet.find('aborted', (_said, member) => member === victim);
    expect(aborted).toMatchObject({ name: 'LeaseLostError', fencingToken: lost.fencingToken });
    const ran = elsewhere(fleet, victim, lost).length;
    await vi.waitFor(() => expect(elsewhere(fleet, victim, lost).length).toBeGreaterThanOrEqual(ran + 3), 30_000);
    expect(fleet.runs('job', [victim])).toEqual([lost]);
    expect(fleet.said('skipped', [victim]).some(({ reason }) => reason === 'running-here')).toBe(true);
    order(victim, { op: 'go', end: true });
    const { said: failed } = await fleet.find('failed', (_said, member) => member === victim);
    expect(failed).toMatchObject({ tick: lost.tick, code: 'LEASE_LOST' });
    await fleet.shutDown();
    report('stopped past its lease', {
      ranElsewhere: elsewhere(fleet, victim, lost).length,
      refusals: fleet.said('refused', [victim]).map(({ code }) => code),
    });
  });

  test('and ignores it, keeps the next ticks from its own process, not from others, and writes nothing', async () => {
    const { fleet, victim, lost } = await startFleet();
    await using _fleet = fleet;
    await begun(fleet);
    await using redis = await connectRedis(url);
    expect(await redis.del(`${fleet.prefix}:{job}`)).toBe(1);
    const { said: aborted } = await fleet.find('aborted', (_said, member) => member === victim);
    expect(aborted).toMatchObject({ name: 'LeaseLostError', fencingToken: lost.fencingToken });
    await vi.waitFor(() => expect(elsewhere(fleet, victim, lost).length).toBeGreaterThanOrEqual(3), 30_000);
    const here = fleet.said('skipped', [victim]).filter(({ reason }) => reason === 'running-here');
    expect(here.length).toBeGreaterThanOrEqual(2);
    expect(fleet.runs('job', [victim])).toEqual([lost]);
    order(victim, { op: 'go', end: true });
    await checkRefused(fleet, victim, lost);
    const { said: failed } = await fleet.find('failed', (_said, member) => member === victim);
    expect(failed).toMatchObject({ tick: lost.tick, code: 'LEASE_LOST' });
    await fleet.shutDown();
    report('ignores its signal', { skippedHere: here.length, ranElsewhere: elsewhere(fleet, victim, lost).length });
  });
});

describe.concurrent('the only process, started again after it was killed,', () => {
  test('begins again the tick it died in, with retry', async () => {
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: TTL_MS });
    const first = await fleet.start();
    const { expression, ticks } = inSeconds(3);
    await fleet.schedule({ name: 'job', expression, retry: 1, body: 'until-told' });
    await fleet.run(() => true);
    await begun(fleet);
    await first.kill9();
    const killed = trueNow();
    const second = await fleet.start();
    const ready = trueNow();
    const { run } = await fleet.run(({ attempt }) => attempt === 2);
    expect(run).toMatchObject({ tick: ticks[0], trigger: 'retry' });
    order(second, { op: 'go', end: true });
    await fleet.find('finished', () => true);
    await fleet.shutDown([second]);
    expect((await fleet.ledger('job')).map(({ attempt, what }) => `${attempt} ${what}`)).toEqual([
      '1 begin',
      '2 begin',
      '2 end',
    ]);
    report('restarted, retry: 1', {
      ttl: TTL_MS,
      afterDeathMs: Math.round(run.at - killed),
      afterReadyMs: Math.round(run.at - ready),
    });
  });

  test('runs the newest tick that it was not there for, with catchUp', async () => {
    await using fleet = new Fleet({ url, ledgerUrl: url, ttl: TTL_MS });
    const first = await fleet.start();
    const { expression, ticks } = inSeconds(3, 5, 6);
    await fleet.schedule({ name: 'job', expression, catchUp: 'latest', body: { for: 1 } });
    await fleet.find('finished', ({ tick }) => tick === ticks[0]);
    await first.kill9();
    await until((ticks[2] as number) + SECOND_MS / 2);
    const restarted = trueNow();
    const second = await fleet.start();
    const ready = trueNow();
    const { run } = await fleet.run(({ trigger }) => trigger === 'catch-up');
    await fleet.shutDown([second]);
    expect(fleet.runs('job').map(({ tick, trigger }) => [tick, trigger])).toEqual([
      [ticks[0], 'schedule'],
      [ticks[2], 'catch-up'],
    ]);
    report("restarted, catchUp: 'latest'", {
      afterStartMs: Math.round(run.at - restarted),
      afterReadyMs: Math.round(run.at - ready),
    });
  });
});
