import { LeaseLostError } from '@leasehold/core';
import { FaultyStore } from '@leasehold/core/testing';
import { describe, expect, test, vi } from 'vitest';

import { Leased, type CronEvents, type CronRun, type LeasedNodeCron } from '../src/index.ts';
import { Bench, eventsOf, gate, quiet, START_MS, storeBehind } from './support/bench.ts';

const EVERY_SECOND = '* * * * * *';
const bench = new Bench();

/** What a LeasedNodeCron has said: `<event> <second> <detail>`. */
function said(cron: LeasedNodeCron): string[] {
  const lines: string[] = [];
  const names = ['skipped', 'waiting', 'started', 'finished', 'lost', 'stillRunning', 'unavailable'] as const;
  for (const name of names) {
    cron.on(name, (event: CronEvents[keyof CronEvents][0]) => {
      const { reason, outcome, trigger } = event as { reason?: string; outcome?: string; trigger?: string };
      const second = event.tick === null ? '-' : (event.tick.getTime() - START_MS) / 1000;
      lines.push(`${name} ${second} ${reason ?? outcome ?? trigger ?? ''}`.trim());
    });
  }
  return lines;
}

describe('overlap', () => {
  test("'allow' runs ticks of one job side by side, each once in the fleet, each with a lease of its own", async () => {
    const ends = gate();
    const runs: CronRun[] = [];
    const fleet = [bench.process(), bench.process()];
    for (const { cron } of fleet) {
      cron.schedule(EVERY_SECOND, (run) => (runs.push(run), ends.promise), { name: 'job', overlap: 'allow' });
    }
    await bench.pass(3600);
    expect(runs.map(({ tick }) => (Number(tick) - START_MS) / 1000)).toEqual([1, 2, 3, 4]);
    expect(runs.every(({ lease }) => lease.isHeld())).toBe(true);
    expect(runs.map(({ lease }) => lease.resource)).toEqual([1, 2, 3, 4].map((n) => `job@2026-01-15T03:00:0${n}.000Z`));
    ends.open();
    await bench.pass(100);
    const [tick] = await fleet[0]!.manager.runs('job', { resource: runs[0]!.lease.resource });
    expect(tick).toMatchObject({ status: 'done' });
  });

  test("'allow' lets execute() run beside it", async () => {
    const { cron } = bench.process();
    const ends = gate();
    const work = async (): Promise<string> => (await ends.promise, 'ran');
    const task = cron.schedule(EVERY_SECOND, work, { name: 'job', overlap: 'allow' });
    const both = Promise.all([task.execute(), task.execute()]);
    await bench.pass(1000);
    ends.open();
    await bench.pass(0);
    expect(await both).toEqual(['ran', 'ran']);
  });
});

describe('manual', () => {
  test("'reject' refuses execute() and leaves the schedule alone", async () => {
    const { cron } = bench.process();
    const task = cron.schedule(EVERY_SECOND, () => 'ran', { name: 'job', manual: 'reject', logger: quiet });
    await expect(task.execute()).rejects.toMatchObject({ code: 'CONFIG', option: 'manual' });
    const events = eventsOf(task);
    await bench.pass(600);
    expect(events).toEqual(['started', 'finished']);
  });

  test("'bypass' runs without a lease beside what runs, and cannot write through a fence", async () => {
    const { cron, manager } = bench.process();
    const ends = gate();
    const runs: CronRun[] = [];
    const work = (run: CronRun): Promise<void> => (runs.push(run), ends.promise);
    const task = cron.schedule(EVERY_SECOND, work, { name: 'job', manual: 'bypass' });
    await bench.pass(600);
    const manual = task.execute();
    await bench.pass(0);
    expect(runs.map(({ trigger }) => trigger)).toEqual(['schedule', 'manual']);
    const bypassed = runs[1]!;
    expect(() => bypassed.lease).toThrow("manual: is 'bypass'");
    expect(() => bypassed.fencingToken).toThrow("manual: is 'bypass'");
    expect({ ...bypassed }).toMatchObject({ tick: null, attempt: 1 });
    expect(bypassed.signal.aborted).toBe(false);
    expect(await manager.inspect('job')).toMatchObject({ fencingToken: runs[0]!.fencingToken });
    void cron.shutdown(0);
    await bench.pass(1);
    expect(bypassed.signal.reason).toMatchObject({ reason: 'shutdown' });
    ends.open();
    await manual;
  });
});

describe('two jobs that share a resource', () => {
  test('both run every tick, one after the other, in whatever process', async () => {
    const runs: string[] = [];
    let running = 0;
    for (const { cron } of [bench.process(), bench.process()]) {
      for (const name of ['invoices', 'reminders']) {
        const work = async ({ tick }: CronRun): Promise<void> => {
          expect(++running).toBe(1);
          runs.push(`${name} ${(Number(tick) - START_MS) / 60_000}`);
          await new Promise((resolve) => setTimeout(resolve, 10_000));
          running--;
        };
        cron.schedule('* * * * *', work, { name, lease: { resource: 'ledger' } });
      }
    }
    await bench.pass(170_000);
    expect(runs.toSorted()).toEqual(['invoices 1', 'invoices 2', 'reminders 1', 'reminders 2']);
  });

  test("do not refuse each other's ticks, and each skips its own overlap at once", async () => {
    const [first, second] = [bench.process(), bench.process()];
    const ends = gate();
    const options = { lease: { resource: 'ledger' } };
    first.cron.schedule('* * * * *', () => ends.promise, { ...options, name: 'invoices' });
    await bench.pass(60_000);
    const lines = said(second.cron);
    second.cron.schedule('* * * * *', () => {}, { ...options, name: 'invoices' });
    second.cron.schedule('* * * * *', () => {}, { ...options, name: 'reminders' });
    await bench.pass(60_000);
    expect(lines).toEqual(['skipped 120 held', 'waiting 120 held']);
    ends.open();
    await bench.pass(1000);
    expect(lines.slice(2)).toEqual(['started 120 schedule', 'finished 120 done']);
  });
});

describe('events', () => {
  test('tell what becomes of each tick and run', async () => {
    const [first, second] = [bench.process(), bench.process()];
    const lines = said(first.cron);
    const others = said(second.cron);
    let fails = true;
    const work = (): void => {
      if (fails) throw new RangeError('no');
    };
    first.cron.schedule(EVERY_SECOND, work, { name: 'job', logger: quiet });
    await bench.pass(600);
    fails = false;
    second.cron.schedule(EVERY_SECOND, work, { name: 'job' });
    await bench.pass(1000);
    expect(lines).toEqual(['started 1 schedule', 'finished 1 failed', 'started 2 schedule', 'finished 2 done']);
    expect(others).toEqual(['skipped 2 already-ran']);
  });

  test('tell of the methods that other schedulers call', async () => {
    const { cron } = bench.process();
    const lines = said(cron);
    class Poll {
      // As TypeScript compiles a decorator.
      static {
        const descriptor = Object.getOwnPropertyDescriptor(this.prototype, 'poll') as TypedPropertyDescriptor<
          () => Promise<void>
        >;
        const decorate = Leased({ name: 'poll', minHold: '50s' });
        Object.defineProperty(this.prototype, 'poll', decorate(this.prototype, 'poll', descriptor));
      }

      async poll(): Promise<void> {}
    }
    const poll = new Poll();
    cron.register(poll);
    for (let calls = 0; calls < 2; calls++) {
      const called = poll.poll();
      await bench.pass(10);
      await called;
    }
    expect(lines).toEqual(['started - schedule', 'finished - done', 'skipped - already-ran']);
  });

  test('carry how far the clocks are apart', async () => {
    const { cron } = bench.process({ store: storeBehind(9000) });
    const events: CronEvents['waiting'][0][] = [];
    cron.on('waiting', (event) => events.push(event));
    const runs: number[] = [];
    cron.schedule('0 * * * * *', () => void runs.push(Date.now()), { name: 'job' });
    await bench.pass(59_600);
    expect(events).toEqual([
      { job: 'job', tick: new Date(START_MS + 60_000), reason: 'clock-ahead', holder: null, aheadMs: 9000 },
    ]);
    await bench.pass(9000);
    expect(runs).toEqual([START_MS + 69_000]);
  });

  test('tell of a run that goes on without its lease, each minute', async () => {
    const { cron } = bench.process({ ttl: '2s' });
    const lines = said(cron);
    const lost: unknown[] = [];
    cron.on('lost', ({ error }) => lost.push(error));
    const ends = gate();
    cron.schedule('0 * * * * *', () => ends.promise, { name: 'job', logger: quiet });
    await bench.pass(60_000);
    bench.store.flush();
    await bench.pass(125_000);
    const told = lines.filter((line) => !line.startsWith('skipped'));
    expect(told).toEqual([
      'started 60 schedule',
      'lost 60 schedule',
      'stillRunning 60 schedule',
      'stillRunning 60 schedule',
    ]);
    expect(lines).toContain('skipped 120 running-here');
    expect(lost).toEqual([expect.any(LeaseLostError)]);
    ends.open();
    await bench.pass(0);
    expect(lines.at(-1)).toBe('finished 60 lost');
    await bench.pass(120_000);
    expect(lines.filter((line) => line === 'stillRunning 60 schedule')).toHaveLength(2);
  });

  test.each([
    ['was revoked', async (cron: LeasedNodeCron) => void (await cron.manager.revoke('job'))],
    ['is longer than maxHold', async () => {}],
  ])('tell of a run that %s, ignores it, and then loses its lease', async (_, cancel) => {
    const { cron } = bench.process({ ttl: '2s' });
    const lines = said(cron);
    const errors: unknown[] = [];
    cron.on('lost', ({ error }) => errors.push(error));
    cron.on('finished', ({ error }) => errors.push(error));
    const ends = gate();
    cron.schedule('0 * * * * *', () => ends.promise, { name: 'job', logger: quiet, lease: { maxHold: '3s' } });
    await bench.pass(59_500);
    const cancelled = cancel(cron);
    await bench.pass(50);
    await cancelled;
    await bench.pass(70_000);
    const told = lines.filter((line) => !line.startsWith('skipped'));
    expect(told).toEqual(['started 60 schedule', 'lost 60 schedule', 'stillRunning 60 schedule']);
    ends.open();
    await bench.pass(0);
    expect(lines.at(-1)).toBe('finished 60 lost');
    expect(errors).toEqual([expect.any(LeaseLostError), expect.any(LeaseLostError)]);
  });

  test('tell of a store that cannot be asked', async () => {
    const faulty = new FaultyStore(bench.store.beside());
    const { cron } = bench.process({ store: faulty, callTimeout: 200 });
    const lines = said(cron);
    cron.schedule(EVERY_SECOND, () => {}, { name: 'job', logger: quiet });
    faulty.partition();
    await bench.pass(1000);
    expect(lines).toEqual(['unavailable 1']);
  });

  test('have listeners that cannot break a run', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const { cron } = bench.process();
    const unprintable = { [Symbol.toPrimitive]: () => expect.unreachable() };
    cron.on('started', () => {
      throw new RangeError('thrown');
    });
    cron.on('started', () => Promise.reject(new RangeError('rejected')));
    cron.on('finished', () => {
      throw unprintable as unknown as Error;
    });
    const gone = vi.fn<() => void>();
    cron.on('started', gone);
    cron.off('started', gone);
    let runs = 0;
    cron.schedule(EVERY_SECOND, () => void runs++, { name: 'job' });
    await bench.pass(600);
    expect(runs).toBe(1);
    expect(gone).not.toHaveBeenCalled();
    expect(new Set(warn.mock.calls.map(([message]) => message))).toEqual(
      new Set([
        "a listener of 'started' failed: RangeError: thrown",
        "a listener of 'started' failed: RangeError: rejected",
        "a listener of 'finished' failed: with something that cannot be shown",
      ]),
    );
  });
});

test('a daily time that a zone leaves out is warned of, once, when it is scheduled', () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const { cron } = bench.process();
  cron.schedule('30 2 * * *', () => {}, { name: 'nightly', timezone: 'Europe/Berlin' });
  cron.schedule('30 4 * * *', () => {}, { name: 'morning', timezone: 'Europe/Berlin' });
  cron.schedule('30 2 * * *', () => {}, { name: 'universal', timezone: 'UTC' });
  expect(warn.mock.calls.map(([message]) => message)).toEqual([
    'nightly: 02:30 does not exist in Europe/Berlin on 2026-03-29, when clocks are set forward: this job does not run then',
  ]);
});

describe('a task that is destroyed', () => {
  test('and made anew begins no run beside one that goes on without its lease', async () => {
    const { cron } = bench.process({ ttl: '2s' });
    const ends = gate();
    let runs = 0;
    const work = (): Promise<void> => (runs++, ends.promise);
    const task = cron.schedule(EVERY_SECOND, work, { name: 'job', logger: quiet });
    await bench.pass(600);
    bench.store.flush();
    await bench.pass(1000);
    void task.destroy();
    const lines = said(cron);
    cron.schedule(EVERY_SECOND, work, { name: 'job', logger: quiet });
    await bench.pass(2000);
    expect(runs).toBe(1);
    expect(lines).toEqual(['skipped 3 running-here', 'skipped 4 running-here']);
    ends.open();
    await bench.pass(1000);
    expect(runs).toBe(2);
  });

  test('is waited for and cancelled by shutdown all the same', async () => {
    const { cron } = bench.process();
    const ends = gate();
    let signal: AbortSignal | undefined;
    const task = cron.schedule(EVERY_SECOND, (run) => ((signal = run.signal), ends.promise), { name: 'job' });
    await bench.pass(600);
    void task.destroy();
    let over = false;
    void cron.shutdown(1000).then(() => (over = true));
    await bench.pass(1500);
    expect(signal?.reason).toMatchObject({ reason: 'shutdown' });
    expect(over).toBe(false);
    ends.open();
    await bench.pass(0);
    expect(over).toBe(true);
  });
});

test.each(['lease', 'bypass'] as const)("after shutdown execute() begins nothing (manual '%s')", async (manual) => {
  const { cron } = bench.process();
  const task = cron.schedule(EVERY_SECOND, () => expect.unreachable(), { name: 'job', manual, logger: quiet });
  const down = cron.shutdown();
  await bench.pass(0);
  await down;
  await expect(task.execute()).rejects.toMatchObject({ code: 'RUN_CANCELLED', reason: 'shutdown' });
});

test.each(['99 * * * *', '0 0 L * 5#1', '0 3 31 2 *', 'nightly'])(
  'the expression %s is refused at once',
  (expression) => {
    const { cron } = bench.process();
    const schedule = (): unknown => cron.schedule(expression, () => {}, { name: 'job' });
    expect(schedule).toThrow(expect.objectContaining({ code: 'CONFIG', option: 'expression' }));
    expect(cron.getTasks().size).toBe(0);
  },
);
