import { expect, test } from 'vitest';

import { marginOf, observe, type ObserveOptions } from '../../src/diagnosis/observe.ts';
import type { Observation } from '../../src/diagnosis/verdict.ts';
import type { LeaseRecord } from '../../src/store/store.ts';
import { outcomeOf, Scene, TTL_MS } from './scene.ts';

const NEEDED_MS = TTL_MS + marginOf(TTL_MS);

type Watched = { value?: Observation; error?: unknown };

function watch({ store, clock, call }: Scene, record: LeaseRecord, rest: Partial<ObserveOptions> = {}): Watched {
  return outcomeOf(observe(store, 'r', record, { clock, call, ...rest }));
}

test('the margin is a second, and more for a ttl by which clocks that run apart come to more', () => {
  expect(marginOf(100)).toBe(1000);
  expect(marginOf(30_000)).toBe(1000);
  expect(marginOf(3_600_000)).toBe(72_000);
});

test('a record that nobody touches counts as unchanged after its ttl and the margin, not a moment before', async () => {
  const scene = new Scene();
  const watched = watch(scene, await scene.acquire('one'));
  await scene.clock.advanceAsync(NEEDED_MS - 1);
  expect(watched).toEqual({});
  await scene.clock.advanceAsync(1);
  expect(watched.value).toEqual({ state: 'unchanged', forMs: NEEDED_MS, neededMs: NEEDED_MS });
});

test.each([
  ['extended', (scene: Scene) => scene.extend('one')],
  [
    'taken by another',
    async (scene: Scene) => {
      await scene.clock.advanceAsync(TTL_MS);
      await scene.acquire('two');
    },
  ],
] as const)('it ends at once when the lease is %s', async (_, change) => {
  const scene = new Scene();
  const watched = watch(scene, await scene.acquire('one'));
  await scene.clock.advanceAsync(300);
  await change(scene);
  await scene.clock.advanceAsync(600);
  expect(watched.value).toMatchObject({ state: 'changed' });
});

test('steps of the wall clock, and of the store with it, count for nothing', async () => {
  const scene = new Scene();
  const watched = watch(scene, await scene.acquire('one'));
  scene.clock.stepWall(3_600_000);
  await scene.clock.advanceAsync(NEEDED_MS - 1);
  expect(watched).toEqual({});
});

test('time in which this process stood still is not watched', async () => {
  const scene = new Scene();
  const watched = watch(scene, await scene.acquire('one'));
  await scene.clock.advanceAsync(500);
  scene.clock.block(3_600_000);
  await scene.clock.advanceAsync(NEEDED_MS - 3000);
  expect(watched).toEqual({});
  await scene.clock.advanceAsync(3000);
  expect(watched.value).toMatchObject({ state: 'unchanged' });
});

test('an answer that is late is no time watched', async () => {
  const scene = new Scene();
  const record = await scene.acquire('one');
  const watched = watch(scene, record);
  // Every answer comes half a second late, so two thirds of a second of three quarters were seen.
  scene.store.set('read', { reply: 250 });
  await scene.clock.advanceAsync(NEEDED_MS);
  expect(watched).toEqual({});
});

test('a store that goes away is an error, and the signal ends it with its reason and no timer left', async () => {
  const scene = new Scene();
  const record = await scene.acquire('one');
  const gone = watch(scene, record);
  scene.store.once('read', { request: 'lost' });
  await scene.clock.advanceAsync(2000);
  expect(gone.error).toMatchObject({ code: 'STORE_UNAVAILABLE' });
  const end = new AbortController();
  const ended = watch(scene, record, { signal: end.signal });
  await scene.clock.advanceAsync(100);
  end.abort(new Error('Ctrl-C'));
  await scene.clock.advanceAsync(0);
  expect(ended.error).toBe(end.signal.reason);
  expect(scene.clock.timers).toEqual([]);
});

test('progress is told, and who fails at hearing it breaks nothing', async () => {
  const scene = new Scene();
  const told: number[] = [];
  const watched = watch(scene, await scene.acquire('one'), {
    onProgress: ({ forMs }) => {
      told.push(forMs);
      throw new Error('the terminal is gone');
    },
  });
  await scene.clock.advanceAsync(NEEDED_MS);
  expect(watched.value).toMatchObject({ state: 'unchanged' });
  expect(told.length).toBeGreaterThan(10);
  expect(told).toEqual(told.toSorted((a, b) => a - b));
});

test('nor does who fails later, out of an async function: nothing is left that nobody handles', async () => {
  const scene = new Scene();
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): number => unhandled.push(reason);
  process.on('unhandledRejection', listen);
  try {
    const watched = watch(scene, await scene.acquire('one'), {
      onProgress: async () => Promise.reject(new Error('gone')),
    });
    await scene.clock.advanceAsync(NEEDED_MS);
    expect(watched.value).toMatchObject({ state: 'unchanged' });
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('unhandledRejection', listen);
  }
  expect(unhandled).toEqual([]);
});
