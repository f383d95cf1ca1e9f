import { currentLease, MemoryFence, type Lease } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { describe, expect, test, vi } from 'vitest';

import type { CronRun } from '../src/index.ts';
import { Bench, eventsOf, gate, quiet, START_MS, storeBehind } from './support/bench.ts';

const EVERY_SECOND = '* * * * * *';
const bench = new Bench();

test('a tick runs with a lease, its tick and its context', async () => {
  const { cron } = bench.process();
  const seen: { run: CronRun; current: Lease | undefined; held: boolean }[] = [];
  const task = cron.schedule(
    EVERY_SECOND,
    (run) => {
      seen.push({ run, current: currentLease(), held: run.lease.isHeld() });
      return 'value';
    },
    { name: 'job' },
  );
  const events = eventsOf(task);
  await bench.pass(600);
  expect(seen).toHaveLength(1);
  const [{ run, current, held } = {} as never] = seen;
  expect(current).toBe(run.lease);
  expect(held).toBe(true);
  expect(run.lease.isHeld()).toBe(false);
  expect(run).toMatchObject({
    tick: new Date(START_MS + 1000),
    date: new Date(START_MS + 1000),
    trigger: 'schedule',
    task,
    execution: { reason: 'scheduled' },
  });
  expect(run.lease.resource).toBe('job');
  expect(run.fencingToken).toBe(run.lease.fencingToken);
  expect(run.signal).toBe(run.lease.signal);
  expect(events).toEqual(['started', 'finished']);
  expect(task.lastRun()?.result).toBe('value');
});

test('a fleet runs each tick once, with growing tokens; who does not says so', async () => {
  const fleet = [bench.process(), bench.process(), bench.process()];
  const ticks: number[] = [];
  const tokens: number[] = [];
  const events = fleet.map(({ cron }) =>
    eventsOf(
      cron.schedule(
        EVERY_SECOND,
        ({ tick, fencingToken }) => {
          ticks.push(Number(tick));
          tokens.push(fencingToken);
        },
        { name: 'job' },
      ),
    ),
  );
  await bench.pass(10_000);
  expect(ticks).toEqual(Array.from({ length: 10 }, (_, index) => START_MS + 1000 * (index + 1)));
  expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
  expect(events.flat().filter((event) => event === 'finished')).toHaveLength(10);
  expect(events.flat().filter((event) => event === 'skipped not-elected')).toHaveLength(20);
});

test('a run longer than the period is never doubled, here or elsewhere', async () => {
  let running = 0;
  let most = 0;
  const ticks: number[] = [];
  for (const { cron } of [bench.process({ ttl: '2s' }), bench.process({ ttl: '2s' })]) {
    cron.schedule(
      EVERY_SECOND,
      async ({ tick }) => {
        most = Math.max(most, ++running);
        ticks.push((Number(tick) - START_MS) / 1000);
        await new Promise((resolve) => setTimeout(resolve, 3500));
        running--;
      },
      { name: 'long', logger: quiet },
    );
  }
  await bench.pass(9000);
  expect(most).toBe(1);
  expect(ticks).toEqual([1, 5, 9]);
});

test.each([undefined, true] as const)(
  'a tick that waits for the store to get there does not cost those after it (noOverlap %s)',
  async (noOverlap) => {
    const ticks: number[] = [];
    const { cron } = bench.process({ store: storeBehind(3000) });
    const options = { name: 'job', ...(noOverlap === true && { noOverlap }) };
    cron.schedule(EVERY_SECOND, ({ tick }) => void ticks.push((Number(tick) - START_MS) / 1000), options);
    await bench.pass(7600);
    expect(ticks).toEqual([1, 2, 3, 4, 5]);
  },
);

test('skips do not count as executions', async () => {
  const [first, second] = [bench.process(), bench.process()];
  first.cron.schedule(EVERY_SECOND, () => {}, { name: 'job' });
  const limited = second.cron.schedule(EVERY_SECOND, () => {}, { name: 'job', maxExecutions: 2 });
  await bench.pass(3000);
  expect(limited.runsLeft()).toBe(2);
});

test('an error of the task fails the execution; the next tick runs', async () => {
  const { cron } = bench.process();
  let runs = 0;
  const task = cron.schedule(
    EVERY_SECOND,
    () => {
      if (++runs === 1) throw new RangeError('no');
    },
    { name: 'job', logger: quiet },
  );
  const events = eventsOf(task);
  await bench.pass(2000);
  expect(events).toEqual(['started', 'failed RangeError', 'started', 'finished']);
});

describe('loss', () => {
  test('aborts the signal, fails the execution once the task has ended, and lets no second copy begin here', async () => {
    const { cron } = bench.process({ ttl: '2s' });
    const ends = gate();
    const runs: CronRun[] = [];
    const task = cron.schedule(
      EVERY_SECOND,
      async (run) => {
        runs.push(run);
        await ends.promise;
        return 'too late';
      },
      { name: 'job', logger: quiet },
    );
    const events = eventsOf(task);
    await bench.pass(600);
    const signal = runs[0]!.signal;
    expect(signal.aborted).toBe(false);
    bench.store.flush();
    await bench.pass(1000);
    expect(signal.reason).toMatchObject({ name: 'LeaseLostError', reason: 'missing' });
    // The resource is free, and yet: the first copy goes on.
    await bench.pass(2000);
    expect(runs).toHaveLength(1);
    expect(events.filter((event) => event !== 'skipped not-elected' && event !== 'overlap')).toEqual(['started']);
    await expect(task.execute()).rejects.toMatchObject({
      code: 'RESOURCE_BUSY',
      holder: { owner: expect.stringContaining('lost its lease') },
    });
    ends.open();
    await bench.pass(0);
    expect(events.at(-1)).toBe('failed LeaseLostError');
    expect(task.lastRun()?.error).toMatchObject({ settled: { value: 'too late' } });
    await bench.pass(1000);
    expect(runs).toHaveLength(2);
  });

  test('elsewhere the next tick runs while the loser still does', async () => {
    const [first, second] = [bench.process({ ttl: '2s' }), bench.process({ ttl: '2s' })];
    const ends = gate();
    const tokens: number[] = [];
    const options = { name: 'job', logger: quiet };
    first.cron.schedule(EVERY_SECOND, ({ fencingToken }) => (tokens.push(fencingToken), ends.promise), options);
    await bench.pass(600);
    second.cron.schedule(EVERY_SECOND, ({ fencingToken }) => void tokens.push(fencingToken), options);
    bench.store.flush();
    await bench.pass(1000);
    expect(tokens).toHaveLength(2);
    expect(tokens[1]).toBeGreaterThan(tokens[0]!);
    ends.open();
  });
});

describe('execute()', () => {
  test('takes the lease without a tick, and leaves the schedule as it is', async () => {
    const { cron } = bench.process();
    const seen: (Date | null)[] = [];
    const task = cron.schedule(
      EVERY_SECOND,
      ({ tick, trigger, lease }) => {
        seen.push(tick);
        expect(trigger).toBe(tick === null ? 'manual' : 'schedule');
        expect(lease.isHeld()).toBe(true);
        return 'done';
      },
      { name: 'job' },
    );
    const value = task.execute();
    await bench.pass(0);
    expect(await value).toBe('done');
    // Not even an older tick is superseded by it.
    const { manager: other } = bench.process();
    await other.run('job', { tick: { job: 'job', at: START_MS } }, () => {});
    await bench.pass(600);
    expect(seen).toEqual([null, new Date(START_MS + 1000)]);
  });

  test('is busy while another process runs, and makes ticks busy', async () => {
    const [first, second] = [bench.process(), bench.process()];
    const ends = gate();
    const task = first.cron.createTask(EVERY_SECOND, () => ends.promise, { name: 'job' });
    const other = second.cron.schedule(EVERY_SECOND, () => 'ran', { name: 'job', logger: quiet });
    const events = eventsOf(other);
    const manual = task.execute();
    await bench.pass(1000);
    expect(events).toEqual(['skipped not-elected']);
    await expect(other.execute()).rejects.toMatchObject({ code: 'RESOURCE_BUSY' });
    ends.open();
    await manual;
    await bench.pass(1000);
    expect(events.at(-1)).toBe('finished');
  });
});

describe('a random delay', () => {
  test('passes with the lease held', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.9);
    const { cron, manager } = bench.process({ ttl: '2s' });
    const began: number[] = [];
    cron.schedule('0 * * * * *', () => void began.push(Date.now()), { name: 'job', maxRandomDelay: 20_000 });
    await bench.pass(60_000);
    expect(began).toEqual([]);
    expect(await manager.inspect('job')).toMatchObject({ state: 'held' });
    await bench.pass(20_000);
    expect(began).toEqual([START_MS + 60_000 + 18_000]);
  });

  test('that stop() ends gives the lease and the tick back', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.9);
    const { cron, manager } = bench.process();
    const task = cron.schedule('0 * * * * *', () => expect.unreachable(), { name: 'job', maxRandomDelay: 20_000 });
    await bench.pass(60_000);
    expect(await manager.inspect('job')).toMatchObject({ state: 'held' });
    void task.stop();
    await bench.pass(0);
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
    const { manager: other } = bench.process();
    await using again = await other.tryAcquire('job', { tick: { job: 'job', at: START_MS + 60_000 } });
    expect(again.acquired).toBe(true);
  });

  test('that begins although it was stopped asks again', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.9);
    const { cron } = bench.process();
    let runs = 0;
    const task = cron.schedule('0 * * * * *', () => void runs++, { name: 'job', maxRandomDelay: 20_000 });
    // Too early for node-cron to cancel its timer, which it sets after this.
    task.on('execution:started', () => void task.stop());
    const events = eventsOf(task);
    await bench.pass(80_000);
    expect(runs).toBe(1);
    expect(events).toEqual(['started', 'finished']);
  });
});

test('a lease that is lost during the random delay is taken again when the run begins', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.9);
  const { cron } = bench.process({ ttl: '2s' });
  const tokens: number[] = [];
  const task = cron.schedule('0 * * * * *', ({ fencingToken }) => tokens.push(fencingToken), {
    name: 'job',
    maxRandomDelay: 10_000,
  });
  const events = eventsOf(task);
  await bench.pass(60_000);
  const { fencingToken: first } = (await cron.manager.inspect('job'))!;
  await bench.pass(8499);
  // The wall clock says so first; no timer has.
  vi.setSystemTime(Date.now() + 5000);
  await bench.pass(1);
  expect(events).toEqual(['started', 'finished']);
  expect(tokens).toEqual([expect.toSatisfy((token: number) => token > first)]);
});

describe('fences', () => {
  test('are open to the run', async () => {
    const fence = new MemoryFence();
    const { cron } = bench.process();
    const written: number[] = [];
    const write = async (run: CronRun): Promise<void> => {
      await fence.write(run.lease, () => void written.push(run.fencingToken));
    };
    const task = cron.schedule(EVERY_SECOND, write, { name: 'job', lease: { resource: 'reports', fences: [fence] } });
    const events = eventsOf(task);
    await bench.pass(1600);
    expect(events).toEqual(['started', 'finished', 'started', 'finished']);
    expect(written).toHaveLength(2);
  });

  test('that give no answer are a coordinator-error, and the tick is given back', async () => {
    const fence = new MemoryFence();
    vi.spyOn(fence, 'activate').mockRejectedValue(new Error('down'));
    const { cron } = bench.process();
    const options = { name: 'job', logger: quiet, lease: { fences: [fence] } };
    const task = cron.schedule('0 * * * * *', () => expect.unreachable(), options);
    const events = eventsOf(task);
    await bench.pass(60_000);
    expect(events).toEqual(['skipped coordinator-error']);
    const { manager: other } = bench.process();
    await using again = await other.tryAcquire('job', { tick: { job: 'job', at: START_MS + 60_000 } });
    expect(again.acquired).toBe(true);
  });
});

describe('the store', () => {
  test('that cannot be asked is a coordinator-error; the next tick runs', async () => {
    const faulty = new FaultyStore(bench.store.beside());
    const { cron } = bench.process({ store: faulty, callTimeout: 200 });
    const task = cron.schedule(EVERY_SECOND, () => {}, { name: 'job', logger: quiet });
    const events = eventsOf(task);
    faulty.partition();
    await bench.pass(1000);
    expect(events).toEqual(['skipped coordinator-error']);
    faulty.heal();
    await bench.pass(1000);
    expect(events.slice(1)).toEqual(['started', 'finished']);
  });

  test('that answers too late for the tick starts nothing and keeps nothing', async () => {
    const faulty = new FaultyStore(bench.store.beside());
    const { cron, manager } = bench.process({ store: faulty, callTimeout: 2000 });
    const options = { name: 'job', startingDeadline: '1s', logger: quiet } as const;
    const task = cron.schedule('0 * * * * *', () => expect.unreachable(), options);
    const events = eventsOf(task);
    faulty.once('acquire', { reply: 1500 });
    await bench.pass(62_000);
    expect(events).toEqual(['skipped not-elected']);
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
  });
});

describe('shutdown of a manager that is not ours', () => {
  test('waits for what runs, cancels nothing, and ends the tasks of this object only', async () => {
    const { cron, manager } = bench.process();
    const other = bench.process();
    const ends = gate();
    let signal: AbortSignal | undefined;
    const task = cron.schedule(EVERY_SECOND, (run) => ((signal = run.signal), ends.promise), { name: 'job' });
    const neighbour = other.cron.schedule(EVERY_SECOND, () => {}, { name: 'other' });
    const events = eventsOf(task);
    await bench.pass(600);
    let over = false;
    const shutdown = cron.shutdown('10s').then(() => (over = true));
    await bench.pass(5000);
    expect(over).toBe(false);
    ends.open();
    await bench.pass(0);
    await shutdown;
    expect(signal?.aborted).toBe(false);
    expect(events).toEqual(['started', 'finished']);
    expect(task.getStatus()).toBe('destroyed');
    expect(neighbour.getStatus()).not.toBe('destroyed');
    await expect(manager.run('still open', () => 1)).resolves.toBe(1);
  });

  test('gives back what was elected and has not begun', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.9);
    const { cron, manager } = bench.process();
    cron.schedule(EVERY_SECOND, () => expect.unreachable(), { name: 'job', maxRandomDelay: 10_000 });
    await bench.pass(600);
    expect(await manager.inspect('job')).toMatchObject({ state: 'held' });
    const shutdown = cron.shutdown();
    await bench.pass(0);
    await shutdown;
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
  });

  test('cancels what runs after its timeout, and is over after another, whatever runs', async () => {
    const { cron, manager } = bench.process();
    const ends = gate();
    let run: CronRun | undefined;
    cron.schedule(EVERY_SECOND, (given) => ((run = given), ends.promise), { name: 'job', logger: quiet });
    await bench.pass(600);
    let over = false;
    void cron.shutdown(1000).then(() => (over = true));
    await bench.pass(999);
    expect(run?.signal.aborted).toBe(false);
    await bench.pass(1);
    expect(run?.signal.reason).toMatchObject({ code: 'RUN_CANCELLED', reason: 'shutdown' });
    // It goes on, and its lease is extended as long as it does.
    await bench.pass(999);
    expect(over).toBe(false);
    await bench.pass(30_001);
    expect(over).toBe(true);
    expect(run?.lease.isHeld()).toBe(true);
    ends.open();
    await bench.pass(0);
    expect(await manager.inspect('job')).toMatchObject({ state: 'free' });
  });
});
