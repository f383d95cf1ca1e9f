import type { LeaseManager } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import nodeCron, { type RunCoordinator, type TaskOptions } from 'node-cron';
import { beforeEach, describe, expect, test, vi } from 'vitest';

import { leaseCoordinator } from '../src/index.ts';
import { Bench, eventsOf, gate, quiet, START_MS, storeBehind } from './support/bench.ts';

const EVERY_SECOND = '* * * * * *';
const TTL = 10_000;
const bench = new Bench();
const warnings: string[] = [];

beforeEach(() => {
  warnings.length = 0;
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => void warnings.push(String(warning)));
});

const keyOf = (afterMs: number, name = 'job'): string => `${name}:${new Date(START_MS + afterMs).toISOString()}`;

function distributed(runCoordinator: RunCoordinator, options: TaskOptions = {}): TaskOptions {
  return { name: 'job', distributed: true, runCoordinator, logger: quiet, ...options };
}

/** Settled after so long, or 'pending'. */
async function after<T>(ms: number, promise: Promise<T>): Promise<T | 'pending'> {
  promise.catch(() => {});
  await bench.pass(ms);
  return Promise.race([promise, Promise.resolve('pending' as const)]);
}

async function stateOf(manager: LeaseManager, resource = 'job'): Promise<string | undefined> {
  return (await manager.inspect(resource))?.state;
}

describe('of all processes one runs each tick', () => {
  test('of tasks with the coordinator', async () => {
    const ticks: number[] = [];
    const tasks = [0, 1, 2].map(() =>
      nodeCron.schedule(
        EVERY_SECOND,
        ({ date }) => void ticks.push((date.getTime() - START_MS) / 1000),
        distributed(leaseCoordinator(bench.process().manager)),
      ),
    );
    await bench.pass(3600);
    for (const task of tasks) void task.destroy();
    expect(ticks).toEqual([1, 2, 3, 4]);
  });

  test('and of those with leasedCron', async () => {
    const ticks: number[] = [];
    const work = ({ date }: { readonly date: Date }): void => void ticks.push((date.getTime() - START_MS) / 1000);
    const { cron, manager } = bench.process();
    cron.schedule(EVERY_SECOND, work, { name: 'job' });
    const task = nodeCron.schedule(EVERY_SECOND, work, distributed(leaseCoordinator(bench.process().manager)));
    await bench.pass(3600);
    void task.destroy();
    expect(ticks).toEqual([1, 2, 3, 4]);
    expect(await manager.runs('job')).toMatchObject([{ status: 'done' }, { status: 'done' }]);
  });

  test('and not while the run before it goes on, in whatever process', async () => {
    const ends = gate();
    let runs = 0;
    const tasks = [0, 1].map(() =>
      nodeCron.schedule(
        EVERY_SECOND,
        () => (runs++, ends.promise),
        distributed(leaseCoordinator(bench.process().manager)),
      ),
    );
    const seen = tasks.flatMap(eventsOf);
    await bench.pass(3600);
    expect(runs).toBe(1);
    ends.open();
    await bench.pass(1000);
    for (const task of tasks) void task.destroy();
    expect(runs).toBe(2);
    expect(seen.filter((event) => event === 'failed')).toEqual([]);
  });
});

describe('the lease', () => {
  test('is released when the run is complete, and its tick is done', async () => {
    const { manager } = bench.process();
    const coordinator = leaseCoordinator(manager);
    expect(await coordinator.shouldRun(keyOf(0), TTL)).toBe(true);
    expect(await manager.inspect('job')).toMatchObject({ state: 'held', ttlMs: TTL });
    await coordinator.onComplete(keyOf(0));
    expect(await stateOf(manager)).toBe('free');
    expect(await manager.runs('job')).toMatchObject([{ tick: new Date(START_MS), status: 'done' }]);
  });

  test("of a run that is never complete lasts as long as the task's distributedLease, and no longer", async () => {
    const { manager } = bench.process();
    expect(await leaseCoordinator(manager).shouldRun(keyOf(0), TTL)).toBe(true);
    // A holder stops believing a little before the store does.
    await bench.pass(TTL - 700);
    expect(await stateOf(manager)).toBe('held');
    await bench.pass(701);
    expect(await stateOf(manager)).not.toBe('held');
    expect(await bench.process().manager.run('job', () => 'free')).toBe('free');
  });

  test('is extended until maxHold, and ends within another ttl', async () => {
    const { manager } = bench.process();
    expect(await leaseCoordinator(manager, { maxHold: '60s' }).shouldRun(keyOf(0), TTL)).toBe(true);
    await bench.pass(60_000);
    expect(await stateOf(manager)).toBe('held');
    await bench.pass(TTL);
    expect(await stateOf(manager)).not.toBe('held');
  });

  test('is released by a run that is complete after maxHold and before its end', async () => {
    const { manager } = bench.process();
    const coordinator = leaseCoordinator(manager, { maxHold: '20s' });
    await coordinator.shouldRun(keyOf(0), TTL);
    await bench.pass(20_100);
    await coordinator.onComplete(keyOf(0));
    expect(await stateOf(manager)).toBe('free');
    expect(warnings).toHaveLength(1);
  });

  test('of a task that is stopped in its random delay ends by itself', async () => {
    const { manager } = bench.process();
    vi.spyOn(Math, 'random').mockReturnValue(0.9);
    let runs = 0;
    const options = { distributedLease: TTL, maxRandomDelay: 5000 };
    const task = nodeCron.schedule(EVERY_SECOND, () => ++runs, distributed(leaseCoordinator(manager), options));
    await bench.pass(600);
    expect(await stateOf(manager)).toBe('held');
    void task.destroy();
    await bench.pass(TTL);
    expect(runs).toBe(0);
    expect(await stateOf(manager)).not.toBe('held');
  });

  test('is of the resource that is named', async () => {
    const { manager } = bench.process();
    const coordinator = leaseCoordinator(manager, { resource: (name) => `cron/${name}` });
    await coordinator.shouldRun(keyOf(0), TTL);
    expect(await stateOf(manager, 'cron/job')).toBe('held');
    await coordinator.onComplete(keyOf(0));
  });

  test('has at least the ttl that the manager can keep, whatever distributedLease says', async () => {
    const { manager } = bench.process({ safetyMargin: '400ms', callTimeout: '100ms' });
    const coordinator = leaseCoordinator(manager);
    expect(() => manager.checkOptions({ ttl: 500 })).toThrow(/ttl/);
    expect(await coordinator.shouldRun(keyOf(0), 0)).toBe(true);
    const ttlMs = (await manager.inspect('job'))?.ttlMs ?? 0;
    expect(ttlMs).toBeGreaterThan(500);
    expect(ttlMs).toBeLessThan(2000);
    await coordinator.onComplete(keyOf(0));
  });

  test('keeps a manager that is closed no longer than its ttl, and does not outlast that', async () => {
    const { manager } = bench.process();
    await leaseCoordinator(manager, { maxHold: '1h' }).shouldRun(keyOf(0), TTL);
    const closed = manager.close({ grace: 1000 });
    expect(await after(1000 + TTL + 100, closed)).not.toBe('pending');
    expect(await stateOf(bench.process().manager)).not.toBe('held');
  });
});

describe('onComplete', () => {
  test('is a promise that never rejects: twice, for what was not granted, and for what is no key', async () => {
    const coordinator = leaseCoordinator(bench.process().manager);
    await coordinator.shouldRun(keyOf(0), TTL);
    for (const key of [keyOf(0), keyOf(0), keyOf(1000), '', 'no key']) {
      await expect(coordinator.onComplete(key)).resolves.toBeUndefined();
    }
  });

  test('does not reject when the store cannot be asked', async () => {
    const store = new FaultyStore(bench.store.beside());
    const { manager } = bench.process({ store });
    const coordinator = leaseCoordinator(manager);
    await coordinator.shouldRun(keyOf(0), TTL);
    store.partition();
    const complete = coordinator.onComplete(keyOf(0));
    expect(await after(TTL + 5000, complete)).toBeUndefined();
  });

  test('of a run that has outlived its lease is warned of, once for a task', async () => {
    const { manager } = bench.process();
    const coordinator = leaseCoordinator(manager);
    for (const afterMs of [0, 20_000]) {
      vi.setSystemTime(START_MS + afterMs);
      expect(await coordinator.shouldRun(keyOf(afterMs), TTL)).toBe(true);
      await bench.pass(TTL + 100);
      await coordinator.onComplete(keyOf(afterMs));
    }
    expect(warnings.filter((warning) => warning.includes('outlived its lease, and'))).toHaveLength(1);
  });
});

describe('shouldRun', () => {
  test('waits for a store whose clock is a little behind', async () => {
    const coordinator = leaseCoordinator(bench.process({ store: storeBehind(3000) }).manager);
    vi.setSystemTime(START_MS);
    const answer = coordinator.shouldRun(keyOf(0), TTL);
    expect(await after(2900, answer)).toBe('pending');
    expect(await after(200, answer)).toBe(true);
    await coordinator.onComplete(keyOf(0));
  });

  test('says no within 4 s to a clock that is wrong, and warns once', async () => {
    const coordinator = leaseCoordinator(bench.process({ store: storeBehind(30_000) }).manager);
    for (const afterMs of [0, 10_000]) {
      vi.setSystemTime(START_MS + afterMs);
      expect(await after(4000, coordinator.shouldRun(keyOf(afterMs), TTL))).toBe(false);
    }
    expect(warnings.filter((warning) => warning.includes('ahead of the store'))).toHaveLength(1);
  });

  test('waits up to 4 s for a resource that another job has, and leaves nobody in the queue', async () => {
    const ends = gate();
    const other = bench.process().manager;
    const held = other.run('shared', () => ends.promise);
    const coordinator = leaseCoordinator(bench.process().manager, { resource: () => 'shared' });
    vi.setSystemTime(START_MS);
    const answer = coordinator.shouldRun(keyOf(0), TTL);
    expect(await after(3900, answer)).toBe('pending');
    expect(await after(200, answer)).toBe(false);
    expect(await other.inspect('shared')).toMatchObject({ state: 'held', waiting: 0 });
    ends.open();
    await held;
  });

  test('gives back what is granted too late to be begun, with its tick', async () => {
    const store = new FaultyStore(bench.store.beside());
    const { manager } = bench.process({ store });
    const coordinator = leaseCoordinator(manager, { startingDeadline: '1s' });
    vi.setSystemTime(START_MS + 900);
    store.once('acquire', { reply: 500 });
    expect(await after(600, coordinator.shouldRun(keyOf(0), TTL))).toBe(false);
    expect(await stateOf(manager)).toBe('free');
    expect(await manager.runs('job')).toEqual([]);
  });

  test('gives back what is granted after the 4 s that a background process waits at most', async () => {
    const store = new FaultyStore(bench.store.beside());
    const ends = gate();
    const other = bench.process().manager;
    const held = other.run('shared', () => ends.promise);
    const { manager } = bench.process({ store });
    const coordinator = leaseCoordinator(manager, { resource: () => 'shared' });
    vi.setSystemTime(START_MS);
    const answer = coordinator.shouldRun(keyOf(0), TTL);
    await bench.pass(3900);
    store.set('acquire', { reply: 300 });
    ends.open();
    expect(await after(90, answer)).toBe('pending');
    expect(await other.inspect('shared')).toMatchObject({ state: 'held', identity: { pid: process.pid } });
    expect(await after(1000, answer)).toBe(false);
    await held;
    expect(await stateOf(manager, 'shared')).toBe('free');
    expect(await manager.runs('job', { resource: 'shared' })).toEqual([]);
  });

  test('rejects when the store cannot be asked, within its time-outs', async () => {
    const store = new FaultyStore(bench.store.beside());
    const coordinator = leaseCoordinator(bench.process({ store }).manager);
    store.partition();
    const answer = coordinator.shouldRun(keyOf(0), TTL);
    answer.catch(() => {});
    await bench.pass(8000);
    await expect(answer).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' });
  });

  test.each(['my job', '', 'ä', 'a'.repeat(129)])('refuses the name %j with the rule', async (name) => {
    const coordinator = leaseCoordinator(bench.process().manager);
    const answer = coordinator.shouldRun(keyOf(0, name), TTL);
    await expect(answer).rejects.toMatchObject({
      option: 'name',
      message: expect.stringContaining('1 to 128 of A-Z a-z 0-9') as string,
    });
  });

  test('takes names with colons', async () => {
    const { manager } = bench.process();
    const coordinator = leaseCoordinator(manager);
    expect(await coordinator.shouldRun(keyOf(0, 'a:b'), TTL)).toBe(true);
    await coordinator.onComplete(keyOf(0, 'a:b'));
    expect(await manager.runs('a:b')).toHaveLength(1);
  });

  test('refuses a resource that is none', async () => {
    const coordinator = leaseCoordinator(bench.process().manager, { resource: () => '' });
    await expect(coordinator.shouldRun(keyOf(0), TTL)).rejects.toMatchObject({ code: 'CONFIG' });
  });
});

test('says once what it cannot do', async () => {
  const coordinator = leaseCoordinator(bench.process().manager);
  await coordinator.shouldRun(keyOf(0), TTL);
  await coordinator.onComplete(keyOf(0));
  expect(warnings).toEqual([expect.stringContaining('no signal and no fencing token')]);
  expect(process.emitWarning).toHaveBeenCalledWith(expect.anything(), { type: 'LeaseholdWarning' });
});

test.each([
  ['maxHold that never ends', { maxHold: Infinity }, 'maxHold'],
  ['a startingDeadline of nothing', { startingDeadline: 0 }, 'startingDeadline'],
  ['a resource that is no function', { resource: 'job' }, 'resource'],
  ['an unknown option', { ttl: 1000 }, 'ttl'],
])('refuses %s', (_, options, option) => {
  expect(() => leaseCoordinator(bench.process().manager, options as never)).toThrow(
    expect.objectContaining({ code: 'CONFIG', option }),
  );
});

test('refuses what is no manager', () => {
  expect(() => leaseCoordinator({} as never)).toThrow(expect.objectContaining({ option: 'manager' }));
});
