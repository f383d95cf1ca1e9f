import { FaultyStore } from '@leasehold/core/testing';
import { describe, expect, test, vi } from 'vitest';

import type { CronRun, LeasedNodeCron, ScheduleOptions } from '../src/index.ts';
import { Bench, gate, quiet, START_MS, type Gate } from './support/bench.ts';

const MINUTE = 60_000;
const bench = new Bench();
const options = { name: 'job', timezone: 'UTC', logger: quiet, suppressMissedWarning: true } as const;

/** Runs of a job that is scheduled every minute: `<trigger> <minute> <attempt>`. */
function runsOf(
  cron: LeasedNodeCron,
  more: Partial<ScheduleOptions> = {},
  task: (run: CronRun) => unknown = () => {},
): string[] {
  const runs: string[] = [];
  const minuteOf = (tick: Date | null): number => (Number(tick) - START_MS) / MINUTE;
  cron.schedule(
    '* * * * *',
    (run) => {
      runs.push(`${run.trigger} ${minuteOf(run.tick)} ${run.attempt}`);
      return task(run);
    },
    { ...options, ...more },
  );
  return runs;
}

/** The job's ticks of these minutes, as another process ran them. */
async function ranEarlier(minutes: readonly number[]): Promise<void> {
  const { manager } = bench.process();
  for (const minute of minutes) {
    const tick = { job: 'job', at: START_MS + minute * MINUTE, startingDeadline: '7d' } as const;
    await manager.run('job', { tick }, () => {});
  }
}

describe('catchUp', () => {
  test('runs the newest of the ticks that nobody ran, once in the fleet, late', async () => {
    await ranEarlier([-9]);
    const fleet = [bench.process(), bench.process()].map(({ cron }) =>
      runsOf(cron, { catchUp: 'latest', startingDeadline: '5m' }),
    );
    // It is half a second after 03:00:00, which may still be run by a schedule that is a little late.
    await bench.pass(400);
    expect(fleet.flat()).toEqual([]);
    await bench.pass(600);
    expect(fleet.flat()).toEqual(['catch-up 0 1']);
    await bench.pass(MINUTE);
    expect(fleet.flat().slice(1)).toEqual(['schedule 1 1']);
  });

  test('makes up for nothing when the job is new', async () => {
    const runs = runsOf(bench.process().cron, { catchUp: 'latest' });
    await bench.pass(2000);
    expect(runs).toEqual([]);
  });

  test('says of a tick that is older than startingDeadline that it is too late, once', async () => {
    await ranEarlier([-9]);
    const { cron } = bench.process();
    const skipped: string[] = [];
    cron.on('skipped', ({ tick, reason }) => skipped.push(`${reason} ${(Number(tick) - START_MS) / MINUTE}`));
    const runs: unknown[] = [];
    const work = (): void => void runs.push('ran');
    // Noon of the day before, when nothing ran.
    const task = cron.schedule('0 12 * * *', work, { ...options, catchUp: 'latest', startingDeadline: '1h' });
    await bench.pass(2000);
    expect(skipped).toEqual([]);
    void task.destroy();
    await bench.pass(0);
    // 02:58 of this day.
    const other = cron.schedule('58 2 * * *', work, { ...options, catchUp: 'latest', startingDeadline: '1s' });
    await bench.pass(2000);
    void other.stop();
    void other.start();
    await bench.pass(2000);
    expect(skipped).toEqual(['too-late -2']);
    expect(runs).toEqual([]);
  });

  test('looks again when the schedule is stopped and started while it looks', async () => {
    await ranEarlier([-9]);
    const faulty = new FaultyStore(bench.store.beside());
    const { cron } = bench.process({ store: faulty, callTimeout: 200 });
    faulty.partition();
    const runs = runsOf(cron, { catchUp: 'latest' });
    const task = [...cron.getTasks().values()].find(({ name }) => name === 'job');
    await bench.pass(100);
    void task?.stop();
    void task?.start();
    faulty.heal();
    await bench.pass(3000);
    expect(runs).toEqual(['catch-up 0 1']);
  });

  test('is nothing that is done without being asked for', async () => {
    await ranEarlier([-9]);
    const runs = runsOf(bench.process().cron);
    await bench.pass(2000);
    expect(runs).toEqual([]);
  });

  test('runs once the store is back what it could not be asked about', async () => {
    await ranEarlier([0]);
    const faulty = new FaultyStore(bench.store.beside());
    const { cron } = bench.process({ store: faulty, callTimeout: 200 });
    const runs = runsOf(cron, { catchUp: 'latest' });
    await bench.pass(30_000);
    faulty.partition();
    await bench.pass(2 * MINUTE);
    expect(runs).toEqual([]);
    faulty.heal();
    await bench.pass(29_000);
    expect(runs).toEqual(['catch-up 2 1']);
  });

  test('runs the newest also when the store is back right after it could not be asked about', async () => {
    await ranEarlier([0]);
    const faulty = new FaultyStore(bench.store.beside());
    const { cron } = bench.process({ store: faulty, callTimeout: 200 });
    const seconds: number[] = [];
    const run = ({ tick }: CronRun): unknown => seconds.push((Number(tick) - START_MS) / 1000);
    cron.schedule('2,3 * * * * *', run, { ...options, catchUp: 'latest' });
    await bench.pass(500);
    faulty.partition();
    await bench.pass(2250);
    faulty.heal();
    await bench.pass(10_000);
    expect(seconds).toEqual([3]);
  });

  test('asks the store no more often when every second is a slot', async () => {
    const { cron, manager } = bench.process();
    const lease = { resource: 'shared' };
    await manager.run('shared', { tick: { job: 'job', at: START_MS - 5000 } }, () => {});
    await using _held = await manager.acquire('shared');
    const asked = vi.spyOn(manager, 'runs');
    cron.schedule('* * * * * *', () => {}, { ...options, lease, catchUp: 'latest' });
    await bench.pass(10_000);
    expect(asked).toHaveBeenCalledTimes(2);
  });

  test('runs what an event loop that stood still has missed', async () => {
    await ranEarlier([0]);
    const { cron } = bench.process();
    const runs = runsOf(cron, { catchUp: 'latest' });
    await bench.pass(1000);
    // The clocks go on, no timer fires: the next beat is late by more than node-cron allows, and by three beats more.
    bench.block(3 * MINUTE + 5000);
    await bench.pass(MINUTE - 1000);
    expect(runs).toEqual(['catch-up 4 1']);
  });

  test('waits for nobody: what runs elsewhere is not doubled', async () => {
    await ranEarlier([-9]);
    const [first, second] = [bench.process(), bench.process()];
    const ends = gate();
    const runs = runsOf(first.cron, { catchUp: 'latest' }, () => ends.promise);
    await bench.pass(600);
    expect(runs).toHaveLength(1);
    const others = runsOf(second.cron, { catchUp: 'latest' });
    await bench.pass(20_000);
    expect(others).toEqual([]);
    ends.open();
  });

  test('ends with the schedule', async () => {
    await ranEarlier([-9]);
    const faulty = new FaultyStore(bench.store.beside());
    const { cron } = bench.process({ store: faulty, callTimeout: 200 });
    faulty.partition();
    const runs = runsOf(cron, { catchUp: 'latest' });
    await bench.pass(3000);
    const down = cron.shutdown();
    faulty.heal();
    await bench.pass(30_000);
    await down;
    expect(runs).toEqual([]);
  });
});

describe('retry', () => {
  /** Two processes of one job; the first to run its tick dies in mid-run: its lease runs out, its body never ends. */
  async function dies(more: Partial<ScheduleOptions>): Promise<{ readonly runs: string[]; readonly dead: Gate }> {
    const faulty = new FaultyStore(bench.store.beside());
    const first = bench.process({ store: faulty, callTimeout: 200 });
    const second = bench.process();
    const dead = gate();
    const runs = runsOf(first.cron, more, () => dead.promise);
    await bench.pass(MINUTE - 500 - 1);
    const others = runsOf(second.cron, more);
    await bench.pass(1000);
    expect(runs).toEqual(['schedule 1 1']);
    faulty.partition();
    await bench.pass(20_000);
    return { runs: others, dead };
  }

  test('also begins a tick that was given back before those who were refused it looked who had it', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.9);
    const [first, ...others] = [bench.process(), bench.process(), bench.process()] as const;
    runsOf(first.cron, { retry: 1, maxRandomDelay: 10_000 }, () => expect.unreachable());
    await bench.pass(1000);
    const runs = others.map(({ cron }) => runsOf(cron, { retry: 1 }));
    await bench.pass(1000);
    const refused = gate();
    let looking = 0;
    const down = refused.promise.then(() => first.cron.shutdown());
    const spies = others.map(({ manager }) => {
      const read = manager.runs.bind(manager);
      return vi.spyOn(manager, 'runs').mockImplementation(async (...args) => {
        if (++looking === others.length) refused.open();
        await down;
        return read(...args);
      });
    });
    await bench.pass(MINUTE);
    expect(runs.flat()).toEqual(['retry 1 1']);
    // Who was second has looked after that run.
    expect(spies.map(({ mock }) => mock.calls.length).toSorted()).toEqual([1, 2]);
  });

  test('asks once for a tick that a run by hand was in the way of, and no more', async () => {
    const [first, second] = [bench.process(), bench.process()] as const;
    const ends = gate();
    const byHand = first.cron.createTask('* * * * *', () => ends.promise, { ...options, retry: 1 });
    void byHand.execute();
    await bench.pass(0);
    const asked = vi.spyOn(second.manager, 'tryRun');
    const runs = runsOf(second.cron, { retry: 1 });
    await bench.pass(MINUTE);
    ends.open();
    await bench.pass(30_000);
    expect(runs).toEqual([]);
    expect(asked).toHaveBeenCalledTimes(2);
  });

  test('runs a tick again whose process has died, as soon as the lease has run out', async () => {
    const { runs, dead } = await dies({ retry: 1 });
    expect(runs).toEqual(['retry 1 2']);
    dead.open();
  });

  test('is nothing that is done without being asked for', async () => {
    const { runs, dead } = await dies({});
    expect(runs).toEqual([]);
    dead.open();
  });

  test('runs a tick again whose run failed, after a pause, as often as it says', async () => {
    const { cron } = bench.process();
    const at: number[] = [];
    const runs = runsOf(cron, { retry: 2 }, () => {
      at.push(Date.now());
      throw new RangeError('no');
    });
    await bench.pass(MINUTE - 1000);
    await bench.pass(40_000);
    expect(runs).toEqual(['schedule 1 1', 'retry 1 2', 'retry 1 3']);
    expect(at.map((time) => time - at[0]!)).toEqual([0, 1000, 3000]);
    const [last] = await cron.manager.runs('job');
    expect(last).toMatchObject({ status: 'failed', attempt: 3 });
  });

  test('goes on although the logger throws', async () => {
    const { cron } = bench.process();
    const broken = (): never => {
      throw new Error('the logger');
    };
    const logger = { debug: broken, info: broken, warn: broken, error: broken };
    const runs = runsOf(cron, { retry: 1, logger }, () => {
      throw new RangeError('no');
    });
    await bench.pass(MINUTE + 30_000);
    expect(runs.slice(0, 2)).toEqual(['schedule 1 1', 'retry 1 2']);
  });

  test('is told as one also when the record of the first attempt is gone', async () => {
    const { cron } = bench.process();
    const runs = runsOf(cron, { retry: 1 }, () => {
      bench.store.flush();
      throw new RangeError('no');
    });
    await bench.pass(MINUTE + 5000);
    expect(runs[1]).toBe('retry 1 1');
  });

  test('ends with the first success', async () => {
    let left = 1;
    const runs = runsOf(bench.process().cron, { retry: 5 }, () => {
      if (left-- > 0) throw new RangeError('no');
    });
    await bench.pass(MINUTE + 30_000);
    expect(runs).toEqual(['schedule 1 1', 'retry 1 2']);
  });

  test('runs no tick that was skipped because the run before it went on', async () => {
    const [first, second] = [bench.process(), bench.process()];
    const task = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 90_000));
    const runs = [first, second].map(({ cron }) => runsOf(cron, { retry: 3 }, task));
    await bench.pass(3 * MINUTE + 30_000);
    expect(runs.flat()).toEqual(['schedule 1 1', 'schedule 3 1']);
  });

  test('begins again after a restart what the process did not finish', async () => {
    const { manager: dead } = bench.process();
    // Claimed and never ended, by a process that is no more.
    const lease = await dead.acquire('job', { tick: { job: 'job', at: START_MS, retry: 1 } });
    lease.abandon();
    const runs = runsOf(bench.process().cron, { retry: 1 });
    await bench.pass(20_000);
    expect(runs).toEqual(['retry 0 2']);
    await lease.release();
  });

  test('gives up with startingDeadline', async () => {
    const runs = runsOf(bench.process().cron, { retry: 100, startingDeadline: '5s' }, () => {
      throw new RangeError('no');
    });
    await bench.pass(MINUTE + 20_000);
    expect(runs.filter((run) => run.endsWith('1 1') || run.startsWith('retry 1'))).toEqual([
      'schedule 1 1',
      'retry 1 2',
      'retry 1 3',
    ]);
  });

  test('ends when the process shuts down, and leaves the tick to others', async () => {
    const [first, second] = [bench.process(), bench.process()];
    const runs = runsOf(first.cron, { retry: 1 }, ({ signal }) => {
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    });
    await bench.pass(MINUTE);
    expect(runs).toEqual(['schedule 1 1']);
    const others = runsOf(second.cron, { retry: 1 });
    await bench.pass(100);
    const down = first.cron.shutdown(100);
    await bench.pass(20_000);
    await down;
    expect(runs).toHaveLength(1);
    expect(others).toEqual(['retry 1 2']);
  });
});
