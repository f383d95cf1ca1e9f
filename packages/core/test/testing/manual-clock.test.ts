import { describe, expect, test } from 'vitest';

import { ManualClock } from '../../src/testing/manual-clock.ts';

function readings(clock: ManualClock): { monotonic: number; wall: number; uptime: number } {
  return { monotonic: clock.monotonicMs(), wall: clock.wallMs(), uptime: clock.uptimeMs() };
}

/** How far each clock has moved. */
function moved(clock: ManualClock, act: () => void): { monotonic: number; wall: number; uptime: number } {
  const before = readings(clock);
  act();
  const after = readings(clock);
  return {
    monotonic: after.monotonic - before.monotonic,
    wall: after.wall - before.wall,
    uptime: after.uptime - before.uptime,
  };
}

describe('ManualClock', () => {
  test('begins on a day in 2026, always the same', () => {
    expect(new Date(new ManualClock().wallMs()).getUTCFullYear()).toBe(2026);
    expect(readings(new ManualClock())).toEqual(readings(new ManualClock()));
    expect(new ManualClock({ startMs: 5_000 }).wallMs()).toBe(5_000);
  });

  test('each move is seen by the clocks that would see it', () => {
    const clock = new ManualClock();
    expect(moved(clock, () => clock.advance(100))).toEqual({ monotonic: 100, wall: 100, uptime: 100 });
    expect(moved(clock, () => clock.block(100))).toEqual({ monotonic: 100, wall: 100, uptime: 100 });
    expect(moved(clock, () => clock.stepWall(-100))).toEqual({ monotonic: 0, wall: -100, uptime: 0 });
    expect(moved(clock, () => clock.suspend(100))).toEqual({ monotonic: 0, wall: 100, uptime: 100 });
  });

  test('fractions add up', () => {
    const clock = new ManualClock();
    const passed = moved(clock, () => {
      for (let step = 0; step < 30; step++) clock.advance(100 / 3);
    });
    expect(passed.monotonic).toBeCloseTo(1_000, 1);
    expect(moved(clock, () => Array.from({ length: 10 }, () => clock.advance(0.1))).monotonic).toBe(1);
  });

  test('wallUs follows the wall clock, and its readings differ', () => {
    const clock = new ManualClock();
    const us = Array.from({ length: 1_000 }, () => clock.wallUs());
    expect(new Set(us).size).toBe(1_000);
    for (const each of us) expect(Math.floor(each / 1000)).toBe(clock.wallMs());
    const before = clock.wallUs();
    clock.advance(100);
    expect(clock.wallUs() - before).toBeGreaterThanOrEqual(100_000);
    expect(Math.floor(clock.wallUs() / 1000)).toBe(clock.wallMs());
  });

  test('timers fire in order, each at its own instant, those too that a timer sets', () => {
    const clock = new ManualClock();
    const start = clock.monotonicMs();
    const fired: [string, number][] = [];
    const note = (name: string) => (): void => void fired.push([name, clock.monotonicMs() - start]);
    const ref = { ref: true };
    clock.setTimer(30, note('30'), ref);
    clock.setTimer(10, note('10'), ref);
    clock.setTimer(10, note('10 again'), ref);
    clock.setTimer(20, () => clock.setTimer(5, note('5 after 20'), ref), ref);
    clock.setTimer(15, note('cleared'), ref).clear();
    clock.setTimer(51, note('later'), ref);
    clock.advance(50);
    expect(fired).toEqual([
      ['10', 10],
      ['10 again', 10],
      ['5 after 20', 25],
      ['30', 30],
    ]);
    expect(clock.timers).toEqual([{ inMs: 1, ref: true }]);
  });

  test('delays are those of Node: whole milliseconds, one at least', () => {
    const clock = new ManualClock();
    for (const delay of [-5, 0, 0.4, 7.9, Number.POSITIVE_INFINITY]) clock.setTimer(delay, () => {}, { ref: false });
    expect(clock.timers.map(({ inMs }) => inMs)).toEqual([1, 1, 1, 7, 2 ** 31 - 1]);
  });

  test('advanceAsync lets promises run in between', async () => {
    const clock = new ManualClock();
    const start = clock.monotonicMs();
    const seen: number[] = [];
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => clock.setTimer(ms, resolve, { ref: true }));
    const work = (async () => {
      for (let round = 0; round < 3; round++) {
        await sleep(10);
        seen.push(clock.monotonicMs() - start);
      }
    })();
    await clock.advanceAsync(100);
    await work;
    expect(seen).toEqual([10, 20, 30]);
    expect(clock.monotonicMs() - start).toBe(100);
  });

  test('a blocked loop fires nothing until it goes on, and then all that is due', () => {
    const clock = new ManualClock();
    const start = clock.monotonicMs();
    const fired: number[] = [];
    clock.setTimer(10, () => fired.push(clock.monotonicMs() - start), { ref: true });
    clock.setTimer(20, () => fired.push(clock.monotonicMs() - start), { ref: true });
    clock.block(100);
    expect(fired).toEqual([]);
    clock.advance(0);
    expect(fired).toEqual([100, 100]);
  });

  test('while the machine sleeps no timer comes nearer', () => {
    const clock = new ManualClock();
    let fired = false;
    clock.setTimer(10, () => (fired = true), { ref: true });
    clock.suspend(60_000);
    clock.advance(9);
    expect(fired).toBe(false);
    clock.advance(1);
    expect(fired).toBe(true);
  });
});
