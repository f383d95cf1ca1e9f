import { LeaseManager, systemClock } from '@leasehold/core';
import { describe, expect, test, vi } from 'vitest';

import { Claimant } from '../src/claimant.ts';
import { Elector } from '../src/elector.ts';
import type { Announce } from '../src/events.ts';
import { Job } from '../src/job.ts';
import { parseScheduleOptions, type ScheduleOptions } from '../src/options.ts';
import { Schedule } from '../src/slots.ts';
import { Bench, START_MS, storeBehind } from './support/bench.ts';

const bench = new Bench();
const keyOf = (name: string, tick: number): string => `${name}:${new Date(tick).toISOString()}`;

interface Ours {
  readonly shouldRun: Elector['shouldRun'];
  readonly onComplete: Elector['onComplete'];
  readonly take: Elector['take'];
  readonly stop: Elector['stop'];
  /** What was announced, as `<event> <reason>`. */
  readonly said: readonly string[];
}

function elector(
  manager: LeaseManager,
  options: Partial<ScheduleOptions> = {},
  isRunningHere = (): boolean => false,
  schedule?: Schedule,
): Ours {
  const { job: settings, maxRandomDelayMs } = parseScheduleOptions({ name: 'job', ...options });
  const said: string[] = [];
  const announce: Announce = (event, payload) => {
    const { reason = '', aheadMs = null } = payload as { reason?: string; aheadMs?: number | null };
    said.push(`${event} ${reason}${aheadMs === null ? '' : ` ${Math.round(aheadMs)}`}`.trim());
  };
  const job = new Job({ manager, clock: systemClock, announce }, () => {}, settings);
  vi.spyOn(job, 'isRunningHere', 'get').mockImplementation(isRunningHere);
  const ignored = { skipped: () => {}, unavailable: () => {} };
  const ours = new Elector(job, new Claimant(job, maxRandomDelayMs, schedule), ignored, maxRandomDelayMs > 0);
  return {
    shouldRun: (key) => ours.shouldRun(key),
    onComplete: (key) => ours.onComplete(key),
    take: (tick) => ours.take(tick),
    stop: () => ours.stop(),
    said,
  };
}

/** The answer, if it has come without time passing. */
async function nowOf<T>(promise: Promise<T>): Promise<T | 'pending'> {
  await bench.pass(0);
  return Promise.race([promise, Promise.resolve('pending' as const)]);
}

describe('a claim', () => {
  test('is run once by the tick it was made for', async () => {
    const { manager } = bench.process();
    const ours = elector(manager);
    expect(await ours.shouldRun(keyOf('job', START_MS))).toBe(true);
    expect(ours.take(new Date(START_MS + 1000))).toBeUndefined();
    expect(await ours.take(new Date(START_MS))?.begin((lease) => lease.resource)).toBe('job');
    expect(ours.take(new Date(START_MS))).toBeUndefined();
    await ours.onComplete(keyOf('job', START_MS));
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
  });

  test('that nobody takes is given back after the delay and a second, with its tick', async () => {
    const { manager } = bench.process({ ttl: '2s' });
    const ours = elector(manager, { maxRandomDelay: 10_000 });
    expect(await ours.shouldRun(keyOf('job', START_MS))).toBe(true);
    await bench.pass(10_900);
    expect(await manager.inspect('job')).toMatchObject({ state: 'held' });
    await bench.pass(100);
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
    expect(ours.take(new Date(START_MS))?.isOpen).toBe(false);
    expect(await elector(bench.process().manager).shouldRun(keyOf('job', START_MS))).toBe(true);
  });

  test('that node-cron reports complete without having begun it is given back at once', async () => {
    const { manager } = bench.process();
    const ours = elector(manager);
    await ours.shouldRun(keyOf('job', START_MS));
    await ours.onComplete(keyOf('job', START_MS));
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
  });

  test('that is cancelled while it waits is given back', async () => {
    const { manager } = bench.process();
    const ours = elector(manager, { maxRandomDelay: 10_000 });
    await ours.shouldRun(keyOf('job', START_MS));
    const closed = manager.close({ grace: 500 });
    await bench.pass(500);
    expect(await closed).toEqual({ unsettled: [] });
    expect(ours.take(new Date(START_MS))?.isOpen).toBe(false);
  });

  test('that is lost while it waits leaves the tick to whoever asks', async () => {
    const { manager } = bench.process({ ttl: '2s' });
    const ours = elector(manager, { maxRandomDelay: 10_000 });
    await ours.shouldRun(keyOf('job', START_MS));
    bench.store.edit('job', { leaseId: 'f'.repeat(32) });
    await bench.pass(1000);
    expect(ours.take(new Date(START_MS))?.isOpen).toBe(false);
  });
});

test('a claim is closed as soon as its lease is over, before any timer has noticed', async () => {
  const { manager } = bench.process({ ttl: '2s' });
  const ours = elector(manager, { maxRandomDelay: 10_000 });
  await ours.shouldRun(keyOf('job', START_MS));
  const claim = ours.take(new Date(START_MS));
  expect(claim?.isOpen).toBe(true);
  vi.setSystemTime(Date.now() + 3000);
  expect(claim?.isOpen).toBe(false);
  await claim?.giveBack();
  expect(await elector(bench.process().manager).shouldRun(keyOf('job', START_MS))).toBe(true);
});

describe('a clock ahead of the store', () => {
  test('waits for the store to get there, and runs', async () => {
    const manager = new LeaseManager({ store: storeBehind(5000) });
    const ours = elector(manager);
    const answer = ours.shouldRun(keyOf('job', START_MS));
    expect(await nowOf(answer)).toBe('pending');
    await bench.pass(4400);
    expect(await nowOf(answer)).toBe('pending');
    await bench.pass(100);
    expect(await nowOf(answer)).toBe(true);
    await ours.onComplete(keyOf('job', START_MS));
  });

  test.each([
    ['* * * * * *', 500],
    ['*/2 * * * * *', 1000],
    ['*/3 * * * * *', 1500],
    ['*/10 * * * * *', 2000],
    ['0 * * * *', 2000],
  ])(
    'of %s asks at most %i ms too early, so that the tick before has been due for as long',
    async (expression, aheadMs) => {
      const schedule = new Schedule(expression, 'UTC');
      for (const [early, answer] of [
        [aheadMs, true],
        [aheadMs + 1, 'pending'],
      ] as const) {
        // It is half a second past the start.
        const manager = new LeaseManager({ store: storeBehind(500 + early) });
        const ours = elector(manager, {}, () => false, schedule);
        expect(await nowOf(ours.shouldRun(keyOf('job', START_MS)))).toBe(answer);
        await ours.stop();
        await ours.onComplete(keyOf('job', START_MS));
      }
    },
  );

  test('by more than a period shuts out no tick that is still to come', async () => {
    const schedule = new Schedule('* * * * * *', 'UTC');
    const ahead = elector(bench.process().manager, {}, () => false, schedule);
    const other = elector(bench.process().manager, {}, () => false, schedule);
    // It is 500 ms past the start, and by its clock two seconds.
    const second = ahead.shouldRun(keyOf('job', START_MS + 2000));
    await bench.pass(500);
    expect(await nowOf(other.shouldRun(keyOf('job', START_MS + 1000)))).toBe(true);
    await other.onComplete(keyOf('job', START_MS + 1000));
    await bench.pass(1000);
    expect(await nowOf(second)).toBe(true);
    await ahead.onComplete(keyOf('job', START_MS + 2000));
  });

  test('by more than can be waited for runs nothing here, and says so once', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const ours = elector(new LeaseManager({ store: storeBehind(3_600_000) }), { startingDeadline: '2h' });
    expect(await nowOf(ours.shouldRun(keyOf('job', START_MS)))).toBe(false);
    expect(await nowOf(ours.shouldRun(keyOf('job', START_MS + 1000)))).toBe(false);
    expect(warn).toHaveBeenCalledTimes(1);
    expect(warn.mock.calls[0]?.[0]).toMatch(/3599500 ms ahead of the store's/);
  });

  test('waits no longer than the task may be late', async () => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const ours = elector(new LeaseManager({ store: storeBehind(5000) }), { startingDeadline: '3s' });
    expect(await nowOf(ours.shouldRun(keyOf('job', START_MS)))).toBe(false);
  });

  test('stops waiting when the task is stopped', async () => {
    const ours = elector(new LeaseManager({ store: storeBehind(5000) }));
    const answer = ours.shouldRun(keyOf('job', START_MS));
    expect(await nowOf(answer)).toBe('pending');
    await ours.stop();
    expect(await nowOf(answer)).toBe(false);
  });
});

describe('a resource held by another job', () => {
  const options = { lease: { resource: 'shared' } };

  test('is waited for', async () => {
    const { manager } = bench.process();
    const lease = await manager.acquire('shared');
    const answer = elector(manager, options).shouldRun(keyOf('job', START_MS));
    await bench.pass(20_000);
    expect(await nowOf(answer)).toBe('pending');
    await lease.release();
    await bench.pass(500);
    expect(await nowOf(answer)).toBe(true);
  });

  test('is waited for until startingDeadline', async () => {
    const { manager } = bench.process();
    await manager.acquire('shared');
    const answer = elector(manager, { ...options, startingDeadline: '5s' }).shouldRun(keyOf('job', START_MS));
    await bench.pass(4400);
    expect(await nowOf(answer)).toBe('pending');
    await bench.pass(200);
    expect(await nowOf(answer)).toBe(false);
  });

  test('is waited for by the newest tick alone', async () => {
    const { manager } = bench.process();
    const lease = await manager.acquire('shared');
    const ours = elector(manager, options);
    const older = ours.shouldRun(keyOf('job', START_MS));
    await bench.pass(1000);
    const newer = ours.shouldRun(keyOf('job', START_MS + 1000));
    expect(await nowOf(older)).toBe(false);
    await lease.release();
    await bench.pass(500);
    expect(await nowOf(newer)).toBe(true);
  });

  test('does not hold up a tick whose job runs here: that is its own doing', async () => {
    const { manager } = bench.process();
    await manager.acquire('shared');
    expect(await nowOf(elector(manager, options, () => true).shouldRun(keyOf('job', START_MS)))).toBe(false);
  });
});

test.each([
  ['already-ran', START_MS],
  ['superseded', START_MS - 1000],
  ['too-late', START_MS - 400_000],
])('a tick that is %s is not for us', async (_, tick) => {
  const { manager } = bench.process();
  const ours = elector(manager);
  if (tick > START_MS - 400_000) {
    await ours.shouldRun(keyOf('job', START_MS));
    await ours.take(new Date(START_MS))?.begin(() => {});
  }
  expect(await ours.shouldRun(keyOf('job', tick))).toBe(false);
});

test('names may contain colons', async () => {
  const { manager } = bench.process();
  const ours = elector(manager, { name: 'shop:nightly' });
  expect(await ours.shouldRun(keyOf('shop:nightly', START_MS))).toBe(true);
  expect(await ours.take(new Date(START_MS))?.begin(({ resource }) => resource)).toBe('shop:nightly');
});
