import { describe, expect, inject, test, vi } from 'vitest';

import { connectRedis } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { Fleet, inSeconds, order, report, SECOND_MS, trueNow, until, type Run } from './fixtures/cron-proof-fleet.ts';

// Each test is three processes, which want to be started in time.
vi.setConfig({ testTimeout: 120_000, maxConcurrency: 3 });

const ledgerUrl = inject('redisUrl');
const TTL_MS = 1500;

/** What is written outlives a kill. */
const args = ['--appendonly', 'yes', '--appendfsync', 'always'];

interface Outage {
  readonly what: string;
  /** A third of the ttl or so is what calls are waited for. */
  readonly ttl: number;
  readonly goes: (redis: RedisServer) => Promise<void>;
  readonly comesBack: (redis: RedisServer) => Promise<void>;
}
const silence = {
  goes: (redis: RedisServer) => redis.pause(),
  comesBack: async (redis: RedisServer) => redis.resume(),
};
const death = { goes: (redis: RedisServer) => redis.kill(), comesBack: (redis: RedisServer) => redis.restart() };

describe.concurrent('a Redis that is gone for two ticks', () => {
  test.each<Outage>([
    { what: 'silent, found out before it is back', ttl: TTL_MS, ...silence },
    { what: 'silent, not found out before it is back', ttl: 10_000, ...silence },
    { what: 'down', ttl: TTL_MS, ...death },
  ])('($what) is followed by no burst of stale runs', async ({ what, ttl, goes, comesBack }) => {
    await using redis = await startRedis({ args, scope: 'file' });
    await using fleet = new Fleet({ url: redis.url, ledgerUrl, ttl });
    const members = await fleet.startAll({}, {}, {});
    await fleet.schedule({ name: 'often', body: { for: 20 } });
    // Who has never been connected waits for that first, and for longer than for an answer.
    for (const member of members) await fleet.decides(member, 'often', 1);
    const { expression, ticks } = inSeconds(3, 5, 6);
    const [first, older, newest] = ticks as [number, number, number];
    await fleet.schedule({ name: 'rarely', expression, catchUp: 'latest', body: { for: 20 } });
    await fleet.find('finished', ({ job, tick }) => job === 'rarely' && tick === first);
    await until(older - 100);
    await goes(redis);
    await until(newest + 900);
    await comesBack(redis);
    const back = trueNow();
    const { run: caughtUp } = await fleet.run(({ job, at }) => job === 'rarely' && at > older);
    // Whoever else asks is refused, and the schedule goes on.
    await until(Math.max(caughtUp.at, back) + 2.5 * SECOND_MS);
    await fleet.run(({ job, tick }) => job === 'often' && tick > back + 2 * SECOND_MS);
    await fleet.shutDown();

    const runs = fleet.runs('often');
    const ran = runs.map(({ tick }) => tick);
    expect(ran).toEqual([...new Set(ran)].toSorted((a, b) => a - b));
    const late = runs.filter(({ at }) => at > back);
    // Each begins in the second that it is for, but for one that was asked about all the while.
    expect(late.filter(({ at, tick }) => at - tick >= SECOND_MS).length).toBeLessThanOrEqual(1);

    // One run for both: of the newest, unless the question for the older one has arrived after all.
    const rare = fleet.runs('rarely').map(({ tick }) => tick);
    expect(rare).toHaveLength(2);
    expect(rare[0]).toBe(first);
    expect(ttl === TTL_MS ? [newest] : [older, newest]).toContain(rare[1]);
    report(`Redis ${what}`, {
      often: {
        firstRunAfterMs: Math.round((late[0]?.at ?? NaN) - back),
        lateMs: late.map(({ at, tick }) => Math.round(at - tick)),
      },
      rarely: { trigger: caughtUp.trigger, afterMs: Math.round(caughtUp.at - back) },
      unavailableAfterMs: fleet.said('unavailable').map(({ at, tick }) => Math.round(at - tick)),
    });
  });
});

describe.concurrent('listeners', () => {
  test('that fail, at once or later, break no run, leave no lease and nothing unhandled', async () => {
    await using fleet = new Fleet({
      url: ledgerUrl,
      ledgerUrl,
      ttl: 30_000,
      jobs: [{ name: 'job', body: { for: 20 } }],
    });
    const members = await fleet.startAll({ badListeners: true }, { badListeners: true }, { badListeners: true });
    const { run: first } = await fleet.run(() => true);
    await fleet.run(({ tick }) => tick >= first.tick + 3 * SECOND_MS);
    await fleet.shutDown();
    const ticks = fleet.runs('job').map(({ tick }) => tick);
    expect(ticks).toEqual(ticks.map((_tick, index) => first.tick + index * SECOND_MS));
    expect(fleet.said('finished').every(({ outcome }) => outcome === 'done')).toBe(true);
    expect(fleet.said('skipped').length).toBeGreaterThan(0);
    // They did fail.
    const output = members.map((member) => member.output).join('\n');
    expect(output).toMatch(/a listener of 'started' failed: Error: a bad listener of started/);
    expect(output).toMatch(/a listener of 'skipped' failed: Error: a bad listener of skipped, later/);
    await using redis = await connectRedis(ledgerUrl);
    expect(await redis.hget(`${fleet.prefix}:{job}`, 'owner')).toBe('');
  });
});

describe.concurrent('SIGTERM', () => {
  const options = { url: ledgerUrl, ledgerUrl, ttl: 30_000 };

  test('stops the schedule, waits, aborts, waits again and releases; the next tick runs elsewhere at once', async () => {
    await using fleet = new Fleet(options);
    // It needs a while to wind up.
    const body = { untilAborted: 400 };
    const ending = await fleet.start({ graceMs: 1300, jobs: [{ name: 'job', body }] });
    const { run } = await fleet.run(() => true);
    const other = await fleet.start({ jobs: [{ name: 'job', body: { for: 20 } }] });
    await fleet.find('skipped', ({ reason }) => reason === 'held');
    ending.kill('SIGTERM');
    const told = trueNow();
    expect(await ending.exit).toEqual({ code: 0, signal: null });
    const gone = trueNow();
    const said = ending.unread.filter(({ type }) => ['aborted', 'end', 'finished', 'down'].includes(type));
    expect(said.map(({ type }) => type)).toEqual(['aborted', 'end', 'finished', 'down']);
    const [aborted, end] = said as unknown as Run[];
    expect(aborted).toMatchObject({ name: 'RunCancelledError', reason: 'shutdown' });
    expect((aborted as Run).at - told).toBeGreaterThan(1250);
    expect((aborted as Run).at - told).toBeLessThan(2300);
    expect(fleet.runs('job', [ending])).toEqual([run]);
    // Nor was any later tick asked about: its signal may have come a little after `told`.
    const asked = [...fleet.said('skipped', [ending]), ...fleet.said('unavailable', [ending])];
    expect(asked.filter(({ tick }) => tick > told + 100)).toEqual([]);
    expect(fleet.said('written', [ending])).toHaveLength(1);
    const { run: next } = await fleet.run((_run, member) => member === other);
    expect(next.at).toBeGreaterThan((end as Run).at);
    expect(next.at - (end as Run).at).toBeLessThan(2 * SECOND_MS);
    await fleet.shutDown([other]);
    report('SIGTERM', {
      abortedAfterMs: Math.round((aborted as Run).at - told),
      settledAfterMs: Math.round((end as Run).at - told),
      exitAfterMs: Math.round(gone - told),
      nextRunAfterSettledMs: Math.round(next.at - (end as Run).at),
      ttl: options.ttl,
    });
  });

  test('twice ends the process at once', async () => {
    await using fleet = new Fleet(options);
    const ending = await fleet.start({ graceMs: 60_000, jobs: [{ name: 'job', body: 'until-told' }] });
    await fleet.run(() => true);
    ending.kill('SIGTERM');
    // It goes on meanwhile.
    order(ending, { op: 'go', end: false });
    await fleet.find('written', () => true);
    ending.kill('SIGTERM');
    const told = trueNow();
    expect(await ending.exit).toEqual({ code: null, signal: 'SIGTERM' });
    expect(fleet.runs('job')).toHaveLength(1);
    report('SIGTERM twice', { exitAfterMs: Math.round(trueNow() - told) });
  });
});
