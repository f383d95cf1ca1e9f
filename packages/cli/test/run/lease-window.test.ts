import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { LeaseWindow } from '../../src/run/isolated/lease-window.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'hrtime'] }));
afterEach(() => void vi.useRealTimers());

test('the other side of the memory sees how long a lease is trusted, and that it runs out', () => {
  const ours = new LeaseWindow();
  const theirs = new LeaseWindow(ours.buffer);
  expect(theirs.remainingMs()).toBe(0);
  ours.publish(100);
  expect(theirs.remainingMs()).toBe(100);
  vi.advanceTimersByTime(40);
  expect(theirs.remainingMs()).toBe(60);
  ours.publish(100);
  expect(theirs.remainingMs()).toBe(100);
  vi.advanceTimersByTime(101);
  expect(theirs.remainingMs()).toBe(0);
  ours.publish(100);
  ours.publish(0);
  expect(theirs.remainingMs()).toBe(0);
});

test('a wall clock that went forward, as after sleep, ends the trust; one that went back does not lengthen it', () => {
  const window = new LeaseWindow();
  window.publish(100);
  vi.setSystemTime(Date.now() + 1000);
  expect(window.remainingMs()).toBe(0);
  window.publish(100);
  vi.setSystemTime(Date.now() - 5000);
  expect(window.remainingMs()).toBe(100);
});
