import { ManualClock } from '@leasehold/core/testing';
import { describe, expect, test } from 'vitest';
import { Wheel, type Slotted } from '../src/wheel.ts';

interface Item extends Slotted {
  readonly name: string;
}

function item(name: string): Item {
  return { name, slot: -1 };
}

function setup(): { clock: ManualClock; wheel: Wheel<Item>; fired: string[] } {
  const clock = new ManualClock();
  const fired: string[] = [];
  const wheel: Wheel<Item> = new Wheel(clock, 4, () => fired.push(...wheel.takeDue().map(({ name }) => name)));
  return { clock, wheel, fired };
}

describe('a wheel', () => {
  test('fires each item at its time, at most a grain late, whatever the order they came in', () => {
    const { clock, wheel, fired } = setup();
    const now = clock.monotonicMs();
    for (const due of [50, 10, 30, 20, 40]) wheel.put(item(`${due}`), now + due);
    for (const due of [10, 20, 30, 40, 50]) {
      clock.advance(due + 5 - (clock.monotonicMs() - now));
      expect(fired.at(-1)).toBe(`${due}`);
    }
    expect(fired).toEqual(['10', '20', '30', '40', '50']);
    expect(clock.timers).toEqual([]);
  });

  test('never fires early, and not at all what was removed', () => {
    const { clock, wheel, fired } = setup();
    const [stays, goes] = [item('stays'), item('goes')];
    wheel.put(stays, clock.monotonicMs() + 100);
    wheel.put(goes, clock.monotonicMs() + 100);
    wheel.remove(goes);
    wheel.remove(goes);
    clock.advance(99);
    expect(fired).toEqual([]);
    clock.advance(6);
    expect(fired).toEqual(['stays']);
    expect(stays.slot).toBe(-1);
  });

  test('moves an item that is put again', () => {
    const { clock, wheel, fired } = setup();
    const only = item('only');
    wheel.put(only, clock.monotonicMs() + 10);
    wheel.put(only, clock.monotonicMs() + 100);
    clock.advance(50);
    expect(fired).toEqual([]);
    clock.advance(60);
    expect(fired).toEqual(['only']);
  });

  test('keeps one timer, arms it anew only for something earlier, and lets the process end', () => {
    const { clock, wheel } = setup();
    for (let index = 0; index < 1000; index++) wheel.put(item(`${index}`), clock.monotonicMs() + 1000 + index);
    expect(clock.timers).toHaveLength(1);
    expect(clock.timers[0]).toMatchObject({ ref: false });
    wheel.put(item('earlier'), clock.monotonicMs() + 500);
    expect(clock.timers).toHaveLength(1);
    expect(clock.timers[0]?.inMs).toBeLessThanOrEqual(504);
  });

  test('gives what is due ahead of time when asked', () => {
    const { clock, wheel } = setup();
    wheel.put(item('soon'), clock.monotonicMs() + 50);
    wheel.put(item('late'), clock.monotonicMs() + 500);
    expect(wheel.takeDue(100).map(({ name }) => name)).toEqual(['soon']);
  });

  test('a deadline beyond what timers can hold is reached in steps', () => {
    const { clock, wheel, fired } = setup();
    wheel.put(item('far'), clock.monotonicMs() + 2 ** 31 + 1000);
    clock.advance(2 ** 31 - 1);
    expect(fired).toEqual([]);
    clock.advance(1010);
    expect(fired).toEqual(['far']);
  });
});
