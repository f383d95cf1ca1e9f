import type { LeaseManager } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import nodeCron, { type TaskContext } from 'node-cron';
import { beforeEach, describe, expect, test, vi } from 'vitest';

import { leasedTask, type CronEvents, type CronRun, type LeasedTask, type LeasedTaskOptions } from '../src/index.ts';
import { Bench, eventsOf, gate, quiet, START_MS, storeBehind } from './support/bench.ts';

type Skipped = CronEvents['skipped'][0];

const EVERY_MINUTE = '* * * * *';
const bench = new Bench();
const warnings: string[] = [];

beforeEach(() => {
  warnings.length = 0;
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void warnings.push(String(warning)));
});

/** A task of one process, with what it says of calls that begin nothing. */
function member<T>(
  handler: (run: CronRun) => T,
  options: Partial<LeasedTaskOptions> = {},
  manager: LeaseManager = bench.process().manager,
): { readonly task: LeasedTask<Awaited<T>>; readonly skipped: Skipped[]; readonly manager: LeaseManager } {
  const skipped: Skipped[] = [];
  const onSkipped = (skip: Skipped): void => void skipped.push(skip);
  const task = leasedTask(handler, { name: 'job', manager, onSkipped, ...options });
  return { task, skipped, manager };
}

function reasonsOf(skipped: readonly Skipped[]): string[] {
  return skipped.map(({ reason }) => reason);
}

/** What node-cron calls a task with, so far after `START_MS`. */
function context(afterMs: number, reason: 'scheduled' | 'invoked' = 'scheduled'): TaskContext {
  const date = new Date(START_MS + afterMs);
  return { date, dateLocalIso: 'local', triggeredAt: new Date(), execution: { id: 'x', reason } };
}

async function at<T>(afterMs: number, call: () => Promise<T>): Promise<T> {
  vi.setSystemTime(START_MS + afterMs);
  const result = call();
  result.catch(() => {});
  await bench.pass(0);
  return result;
}

describe('called by node-cron', () => {
  test('runs each tick once in the fleet, with the tick, the lease and the value', async () => {
    const runs: CronRun[] = [];
    const fleet = [0, 1].map(() => member((run) => (runs.push(run), 'value')));
    const tasks = fleet.map(({ task }) =>
      nodeCron.schedule('* * * * * *', (given) => task(given), { name: 'any', logger: quiet }),
    );
    const seen = tasks.map(eventsOf);
    await bench.pass(3600);
    for (const task of tasks) void task.destroy();
    expect(runs.map(({ tick }) => (Number(tick) - START_MS) / 1000)).toEqual([1, 2, 3, 4]);
    expect(
      runs.every(({ trigger, attempt, lease }) => trigger === 'schedule' && attempt === 1 && !lease.isHeld()),
    ).toBe(true);
    expect(fleet.flatMap(({ skipped }) => reasonsOf(skipped))).toEqual(Array(4).fill('already-ran'));
    expect(seen.flat().filter((event) => event.startsWith('failed'))).toEqual([]);
  });

  test('passes on its context and gives its value', async () => {
    const { task } = member((run) => run.dateLocalIso);
    expect(await at(0, () => task(context(0)))).toBe('local');
  });

  test('execute() takes the lease and no tick, and is refused while a run goes on', async () => {
    const ends = gate();
    const { task, manager } = member((run) => (run.trigger === 'manual' ? 'by hand' : ends.promise));
    expect(await at(0, () => task(context(0, 'invoked')))).toBe('by hand');
    expect(await manager.runs('job')).toEqual([]);
    vi.setSystemTime(START_MS);
    const run = task(context(0));
    await bench.pass(0);
    await expect(task(context(1, 'invoked'))).rejects.toMatchObject({ code: 'RESOURCE_BUSY' });
    ends.open();
    await run;
  });

  test.each([
    ['reject', { code: 'CONFIG', option: 'manual' }],
    ['bypass', { code: 'CONFIG', option: 'manual' }],
  ] as const)("manual: '%s' is heeded", async (manual, error) => {
    const { task } = member((run) => run.lease.resource, { manual });
    await expect(at(0, () => task(context(0, 'invoked')))).rejects.toMatchObject(error);
  });

  test('a tick that is a day old is too late', async () => {
    const { task, skipped } = member(() => 'ran');
    expect(await at(86_400_000, () => task(context(0)))).toBeUndefined();
    expect(reasonsOf(skipped)).toEqual(['too-late']);
  });

  test('minHold counts instead of the tick', async () => {
    const { task, skipped } = member((run) => run.tick, { minHold: '50s' });
    expect(await at(0, () => task(context(0)))).toBeNull();
    expect(await at(10_000, () => task(context(10_000)))).toBeUndefined();
    expect(await at(60_000, () => task(context(60_000)))).toBeNull();
    expect(reasonsOf(skipped)).toEqual(['already-ran']);
  });
});

describe('called by others', () => {
  test.each([
    ['on time', 0, 0],
    ['1 ms early', -1, 0],
    ['1.5 s early', -1500, 0],
    ['50 s late', 50_000, 0],
    ['1 s early, and not 59 s late', 59_000, 60_000],
  ])('%s the slot is that of the schedule', async (_, callMs, slotMs) => {
    const { task } = member((run) => run, { schedule: EVERY_MINUTE, timezone: 'Asia/Kolkata' });
    const run = await at(callMs, () => task({ any: 'thing' }, 'more'));
    expect(run?.tick).toEqual(new Date(START_MS + slotMs));
    expect(run?.date).toEqual(run?.tick);
    expect(run?.triggeredAt).toEqual(new Date(START_MS + callMs));
    expect(run?.dateLocalIso).toBe(`2026-01-15T08:3${slotMs / 60_000}:00.000+05:30`);
  });

  test.each([
    [870, 0],
    [880, 1000],
  ])('each second: %i ms after a slot it is that of %i', async (callMs, slotMs) => {
    const { task } = member((run) => run.tick, { schedule: '* * * * * *' });
    expect(await at(callMs, () => task())).toEqual(new Date(START_MS + slotMs));
  });

  test('in UTC the local time ends with Z, west of it with a minus', async () => {
    const { task } = member((run) => run.dateLocalIso, { schedule: EVERY_MINUTE, timezone: 'UTC' });
    expect(await at(0, () => task())).toBe('2026-01-15T03:00:00.000Z');
    const west = member((run) => run.dateLocalIso, { schedule: EVERY_MINUTE, timezone: 'America/New_York' });
    expect(await at(60_000, () => west.task())).toBe('2026-01-14T22:01:00.000-05:00');
  });

  test('each slot has one run in the fleet, however late and often it is called for', async () => {
    let runs = 0;
    const fleet = [0, 1, 2].map(() => member(() => ++runs, { schedule: EVERY_MINUTE }));
    for (const afterMs of [0, 300, 20_000]) for (const { task } of fleet) await at(afterMs, () => task());
    expect(runs).toBe(1);
    for (const { task } of fleet) await at(60_000, () => task());
    expect(runs).toBe(2);
  });

  test('at no time of the schedule nothing runs, which is told, and warned of once', async () => {
    let runs = 0;
    const { task, skipped } = member(() => ++runs, { schedule: '0 5 * * *', timezone: 'UTC' });
    expect(await at(0, () => task())).toBeUndefined();
    expect(await at(60_000, () => task())).toBeUndefined();
    expect(runs).toBe(0);
    const told = { job: 'job', tick: null, reason: 'no-slot', holder: null, aheadMs: null };
    expect(skipped).toEqual([told, told]);
    expect(warnings).toEqual([expect.stringContaining('no time of its schedule in UTC')]);
  });

  test('without schedule and minHold a call is refused, and nothing runs', async () => {
    let runs = 0;
    const { task } = member(() => ++runs);
    await expect(at(0, () => task())).rejects.toMatchObject({ code: 'CONFIG', option: 'schedule' });
    await expect(at(0, () => task({ date: new Date(), execution: { reason: 'scheduled' } }))).rejects.toMatchObject({
      code: 'CONFIG',
    });
    expect(runs).toBe(0);
  });

  test('minHold keeps the distance in the fleet, also after a crash', async () => {
    const beginnings: number[] = [];
    const handler = ({ tick, date }: CronRun): void => {
      expect(tick).toBeNull();
      beginnings.push(date.getTime() - START_MS);
    };
    const [one, two] = [member(handler, { minHold: '9s' }), member(handler, { minHold: '9s' })];
    for (const afterMs of [0, 5000, 10_000, 15_000, 20_000]) {
      await at(afterMs, () => one.task());
      await at(afterMs + 100, () => two.task());
    }
    expect(beginnings).toEqual([0, 10_000, 20_000]);
    expect(new Set(reasonsOf([...one.skipped, ...two.skipped]))).toEqual(new Set(['already-ran']));
  });
});

describe('what begins no run', () => {
  test('behind a run of this process', async () => {
    const ends = gate();
    const { task, skipped } = member(() => ends.promise, { schedule: EVERY_MINUTE });
    vi.setSystemTime(START_MS);
    const run = task();
    await bench.pass(60_000);
    expect(await task()).toBeUndefined();
    expect(reasonsOf(skipped)).toEqual(['running-here']);
    ends.open();
    await run;
  });

  test.each<[string, Partial<LeasedTaskOptions>]>([
    ['with a schedule', { schedule: EVERY_MINUTE }],
    ['with minHold', { minHold: '1s' }],
  ])('behind a run that has lost its lease and goes on, %s', async (_, options) => {
    const ends = gate();
    const { task, skipped } = member(() => ends.promise, options);
    vi.setSystemTime(START_MS);
    const run = task();
    run.catch(() => {});
    await bench.pass(0);
    bench.store.edit('job', { leaseId: 'f'.repeat(32), expiresUs: 0 });
    await bench.pass(60_000);
    expect(await task()).toBeUndefined();
    expect(reasonsOf(skipped)).toEqual(['running-here']);
    ends.open();
    await bench.pass(0);
    await expect(run).rejects.toMatchObject({ code: 'LEASE_LOST' });
    vi.setSystemTime(START_MS + 180_000);
    void task();
    await bench.pass(0);
    expect(skipped).toHaveLength(1);
  });

  test('while another job has the resource it waits, until the next tick', async () => {
    const ends = gate();
    const lease = { resource: 'shared' };
    const other = bench.process().manager;
    const { task, skipped } = member((run) => run.tick, { schedule: EVERY_MINUTE, lease });
    const held = other.run('shared', () => ends.promise);
    vi.setSystemTime(START_MS);
    const first = task();
    await bench.pass(60_000);
    const second = task();
    await bench.pass(0);
    expect(await first).toBeUndefined();
    ends.open();
    await bench.pass(1000);
    expect(await second).toEqual(new Date(START_MS + 60_000));
    await held;
    expect(reasonsOf(skipped)).toEqual(['newer-tick']);
  });

  test("waits for a store's clock that is behind", async () => {
    const manager = bench.process({ store: storeBehind(10_000) }).manager;
    const { task, skipped } = member((run) => run.tick, { schedule: EVERY_MINUTE }, manager);
    vi.setSystemTime(START_MS);
    const run = task();
    await bench.pass(9000);
    expect(await Promise.race([run, Promise.resolve('waits')])).toBe('waits');
    await bench.pass(1100);
    expect(await run).toEqual(new Date(START_MS));
    expect(skipped).toEqual([]);
  });

  test('an onSkipped that throws, or rejects, is a warning', async () => {
    const fail = (): never => {
      throw new Error('listener');
    };
    const sync = member(() => 'ran', { schedule: '0 5 * * *', onSkipped: fail });
    expect(await at(0, () => sync.task())).toBeUndefined();
    const late = member(() => 'ran', { schedule: '0 5 * * *', onSkipped: async () => fail() });
    expect(await at(0, () => late.task())).toBeUndefined();
    await bench.pass(0);
    expect(warnings.filter((warning) => warning.includes('Error: listener'))).toHaveLength(2);
  });
});

describe('rejects with', () => {
  test("the handler's own error", async () => {
    const { task } = member(() => Promise.reject(new Error('mine')), { schedule: EVERY_MINUTE });
    await expect(at(0, () => task())).rejects.toThrow('mine');
  });

  test('what is wrong with the store', async () => {
    const store = new FaultyStore(bench.store.beside());
    const manager = bench.process({ store }).manager;
    const { task, skipped } = member(() => 'ran', { schedule: EVERY_MINUTE }, manager);
    store.partition();
    vi.setSystemTime(START_MS);
    const run = task();
    run.catch(() => {});
    await bench.pass(10_000);
    await expect(run).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
    expect(skipped).toEqual([]);
  });
});

describe('close', () => {
  test('waits for what runs, cancels it after grace, and begins nothing more', async () => {
    const { task, skipped } = member(
      ({ signal }) =>
        new Promise<unknown>((resolve) =>
          signal.addEventListener('abort', () => resolve((signal.reason as { reason: string }).reason)),
        ),
      { schedule: EVERY_MINUTE },
    );
    vi.setSystemTime(START_MS);
    const run = task();
    await bench.pass(0);
    const closed = task.close('2s');
    await bench.pass(1900);
    expect(await Promise.race([run, Promise.resolve('runs')])).toBe('runs');
    await bench.pass(200);
    expect(await run).toBe('shutdown');
    await closed;
    expect(await task()).toBeUndefined();
    expect(reasonsOf(skipped)).toEqual(['stopped']);
    await expect(task(context(0, 'invoked'))).rejects.toMatchObject({ code: 'RUN_CANCELLED' });
  });

  test('ends what waits at once', async () => {
    const ends = gate();
    const other = bench.process().manager;
    const held = other.run('shared', () => ends.promise);
    const { task, skipped } = member(() => 'ran', { schedule: EVERY_MINUTE, lease: { resource: 'shared' } });
    vi.setSystemTime(START_MS);
    const run = task();
    await bench.pass(1000);
    const closed = task.close();
    await bench.pass(0);
    expect(await run).toBeUndefined();
    await closed;
    expect(reasonsOf(skipped)).toEqual(['stopped']);
    ends.open();
    await held;
  });

  test('does not wait for ever for a handler that ignores its signal', async () => {
    const ends = gate();
    const { task } = member(() => ends.promise, { schedule: EVERY_MINUTE });
    vi.setSystemTime(START_MS);
    const run = task();
    await bench.pass(0);
    const closed = task.close('1s');
    await bench.pass(2100);
    await closed;
    ends.open();
    await run;
  });

  test('leaves a manager alone that is not its own', async () => {
    const { task, manager } = member(() => 'ran', { schedule: EVERY_MINUTE });
    await task[Symbol.asyncDispose]();
    expect(await manager.run('other', () => 'ran')).toBe('ran');
  });
});

describe('refuses', () => {
  const manager = (): LeaseManager => bench.process().manager;
  test.each([
    ['no name', {}, 'name'],
    ['an unknown option', { name: 'job', shedule: '* * * * *' }, 'shedule'],
    ['retry', { name: 'job', retry: 1 }, 'retry'],
    ['an expression that cannot be read', { name: 'job', schedule: 'now' }, 'schedule'],
    ['a schedule and minHold', { name: 'job', schedule: '* * * * *', minHold: '1s' }, 'minHold'],
    ['a ttl that the manager cannot keep', { name: 'job', lease: { ttl: 1 } }, 'ttl'],
  ])('%s', (_, options, option) => {
    expect(() => leasedTask(() => {}, { ...options, manager: manager() } as never)).toThrow(
      expect.objectContaining({ code: 'CONFIG', option }),
    );
  });

  test.each([
    ['neither manager nor connection', { name: 'job' }, 'connection'],
    ['an option that neither has', { name: 'job', connection: 'redis://127.0.0.1:1', shedule: '' }, 'shedule'],
    ['nothing at all', undefined, 'options'],
  ])('%s', (_, options, option) => {
    expect(() => leasedTask(() => {}, options as never)).toThrow(expect.objectContaining({ code: 'CONFIG', option }));
  });

  test('what is no function', () => {
    expect(() => leasedTask('./file.ts' as never, { name: 'job', manager: manager() })).toThrow(
      expect.objectContaining({ option: 'handler' }),
    );
  });
});

describe('called after its manager was closed', () => {
  const times = { schedule: { schedule: '* * * * * *' }, minHold: { minHold: 1000 } };
  test.each(Object.entries(times))('with %s begins nothing and fails nothing', async (_, options) => {
    const { task, skipped, manager } = member(() => 'value', options);
    await manager.close();
    expect(await at(1000, () => task())).toBeUndefined();
    expect(reasonsOf(skipped)).toEqual(['stopped']);
  });

  test.each(Object.entries(times))('by its handler, with %s, tells what the handler did', async (_, options) => {
    const { task, skipped } = member(async ({ lease }) => {
      void manager.close();
      await manager.run('another', () => lease.fencingToken);
    }, options);
    const { manager } = task;
    await expect(at(1000, () => task())).rejects.toMatchObject({ code: 'MANAGER_CLOSED', resource: 'another' });
    expect(skipped).toEqual([]);
  });
});
