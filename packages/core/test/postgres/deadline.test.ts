import { ManualClock } from '@leasehold/core/testing';
import { expect, test } from 'vitest';

import { isNoAnswer, Waits, within } from '../../src/postgres/deadline.ts';

const never = (): Promise<never> => new Promise(() => {});
/** Deadlines are acted upon one turn of the event loop after their timer. */
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'no failure',
    (error: unknown) => error,
  );

test('what is waited for when the time is over is given up, and what it comes to afterwards is not lost', async () => {
  const clock = new ManualClock();
  const waits = new Waits(clock);
  const wait = waits.begin(100);
  const late: string[] = [];
  let come = (_: string): void => {};
  const work = new Promise<string>((resolve) => (come = resolve));
  const told = failure(wait.race(work, 'the first', (value) => void late.push(value)));
  clock.advance(106);
  await turn();
  const error = await told;
  expect(isNoAnswer(error)).toBe(true);
  expect((error as Error).message).toBe('no answer to the first within 100 ms');
  come('late');
  await turn();
  expect(late).toEqual(['late']);
});

test('one time is for all that is waited for in it: what comes when it is over is given up at once', async () => {
  const clock = new ManualClock();
  const waits = new Waits(clock);
  const wait = waits.begin(100);
  expect(await wait.race(Promise.resolve('first'), 'the first')).toBe('first');
  clock.advance(106);
  await turn();
  expect(isNoAnswer(await failure(wait.race(never(), 'the second')))).toBe(true);
});

test('an answer that has arrived when the timer fires wins', async () => {
  const clock = new ManualClock();
  const wait = new Waits(clock).begin(100);
  let come = (_: string): void => {};
  const answer = wait.race(new Promise<string>((resolve) => (come = resolve)), 'an answer');
  clock.advance(106);
  come('just in time');
  expect(await answer).toBe('just in time');
});

test('a wait that has ended gives up nothing, and failures come through as they are', async () => {
  const clock = new ManualClock();
  const waits = new Waits(clock);
  const wait = waits.begin(100);
  const own = new Error('own');
  expect(await failure(wait.race(Promise.reject(own), 'a failure'))).toBe(own);
  waits.end(wait);
  clock.advance(1000);
  await turn();
  expect(await wait.race(Promise.resolve('still'), 'an answer')).toBe('still');
  expect(clock.timers).toEqual([]);
});

test('a single wait keeps the process alive, and leaves no timer', async () => {
  const clock = new ManualClock();
  const told = failure(within(never(), 'an answer', 100, clock));
  expect(clock.timers).toEqual([{ inMs: 100, ref: true }]);
  clock.advance(100);
  await turn();
  expect(isNoAnswer(await told)).toBe(true);
  expect(await within(Promise.resolve('done'), 'an answer', 100, clock)).toBe('done');
  expect(clock.timers).toEqual([]);
});

test('as long as anything is waited for the process stays alive, for days on end, and afterwards it may end', async () => {
  const clock = new ManualClock();
  const waits = new Waits(clock);
  const holding = (): number => clock.timers.filter(({ ref }) => ref).length;
  const [first, second] = [waits.begin(100), waits.begin(200)];
  expect(holding()).toBe(1);
  waits.end(first);
  clock.advance(25 * 86_400_000);
  expect(holding()).toBe(1);
  waits.end(second);
  expect(holding()).toBe(0);
  waits.end(waits.begin(100));
  waits.begin(100);
  expect(holding()).toBe(1);
});
