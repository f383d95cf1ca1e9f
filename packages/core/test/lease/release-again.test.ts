import { expect, test } from 'vitest';
import { bench } from './setup.ts';

const call = { timeoutMs: 100 };

test('whoever releases a lease again when told that it is released gives back nothing that lingers', async () => {
  const { manager, store, memory, other } = bench({ linger: 500 });
  const first = await manager.acquire('r');
  const again: Promise<unknown>[] = [];
  manager.once('released', () => void again.push(first.release()));
  expect(await first.release()).toBe('kept');
  expect(await Promise.all(again)).toEqual(['kept']);
  expect(store.calls.release).toBe(0);
  expect(await memory.read('r', call)).toMatchObject({ state: 'held' });
  const second = await manager.acquire('r');
  expect(await other().tryAcquire('r')).toMatchObject({ acquired: false });
  expect(second.isHeld()).toBe(true);
});

test.each(['its signal', 'the event'])(
  'a loss that is found at the release is told to the store once, if who hears it by %s releases',
  async (by) => {
    const { manager, store, clock } = bench();
    const lease = await manager.acquire('r');
    const again: Promise<unknown>[] = [];
    const release = (): void => void again.push(lease.release());
    if (by === 'the event') manager.once('lost', release);
    else lease.signal.addEventListener('abort', release);
    // Suspended: no timer has fired yet when it goes on.
    clock.suspend(10_000);
    expect(await lease.release()).toBe('lost');
    expect(await Promise.all(again)).toEqual(['lost']);
    expect(store.calls.release).toBe(1);
  },
);
