import { ManualClock } from '@leasehold/core/testing';
import { describe, expect, test } from 'vitest';
import { StoreUnavailableError } from '../../src/errors.ts';
import { Settler } from '../../src/lease/settler.ts';
import { bench, rejectionOf } from './setup.ts';

const MINUTE_MS = 60_000;
const MANY = 200;
const AT_ONCE = 50;

/** A store that has so much to do that no answer comes in time, until it is well again. */
class SlowStore {
  readonly clock = new ManualClock();
  readonly settler = new Settler(this.clock);
  isWell = false;
  underWay = 0;
  mostUnderWay = 0;
  calls = 0;
  confirmed: readonly Promise<boolean>[] = [];

  /** Every call takes this long: as long as one may. */
  static readonly timeoutMs = 1000;

  readonly send = (): Promise<void> => {
    this.calls++;
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.underWay);
    return new Promise((resolve, reject) => {
      const end = (): void => {
        this.underWay--;
        if (this.isWell) resolve();
        else reject(new StoreUnavailableError('no answer in time', { mayHaveRun: true }));
      };
      this.clock.setTimer(this.isWell ? 1 : SlowStore.timeoutMs, end, { ref: false });
    });
  };

  /** All are sent once, and none has an answer. */
  async begin(): Promise<void> {
    this.confirmed = Array.from({ length: MANY }, () => this.settler.add(this.send, MINUTE_MS));
    expect(this.calls).toBe(MANY);
    await this.clock.advanceAsync(SlowStore.timeoutMs);
    this.mostUnderWay = 0;
  }

  /** What they came to. */
  async outcomes(): Promise<Set<boolean>> {
    return new Set(await Promise.all(this.confirmed));
  }
}

describe('what the store has not confirmed', () => {
  test('is sent again few at a time, however much it is: a store that is slow is not kept so', async () => {
    const store = new SlowStore();
    await store.begin();
    await store.clock.advanceAsync(30_000);
    expect(store.mostUnderWay).toBe(AT_ONCE);
    expect(store.calls).toBeLessThanOrEqual(MANY + 31 * AT_ONCE);
  });

  test('is all confirmed once the store is well, each by one more call', async () => {
    const store = new SlowStore();
    await store.begin();
    store.isWell = true;
    await store.clock.advanceAsync(5000);
    expect(await store.outcomes()).toEqual(new Set([true]));
    expect(store.mostUnderWay).toBe(AT_ONCE);
    expect(store.calls).toBe(2 * MANY);
  });

  test('is sent again after a reconnection, and few at a time then, too', async () => {
    const store = new SlowStore();
    await store.begin();
    await store.clock.advanceAsync(3000);
    store.isWell = true;
    store.settler.reconnected();
    await store.clock.advanceAsync(3000);
    expect(await store.outcomes()).toEqual(new Set([true]));
    expect(store.mostUnderWay).toBe(AT_ONCE);
  });

  test('is given up when it is of no use any more, without being sent', async () => {
    const store = new SlowStore();
    await store.begin();
    await store.clock.advanceAsync(MINUTE_MS + 10_000);
    expect(await store.outcomes()).toEqual(new Set([false]));
    const { calls } = store;
    await store.clock.advanceAsync(MINUTE_MS);
    expect(store.calls).toBe(calls);
  });

  test('holds nobody up who has something new to send', async () => {
    const store = new SlowStore();
    await store.begin();
    await store.clock.advanceAsync(500);
    expect(store.underWay).toBe(AT_ONCE);
    const { calls } = store;
    void store.settler.add(store.send, MINUTE_MS);
    expect(store.calls).toBe(calls + 1);
  });

  test('is let go when the store is closed', async () => {
    const store = new SlowStore();
    await store.begin();
    await store.clock.advanceAsync(500);
    store.settler.abandon();
    expect(await store.outcomes()).toEqual(new Set([false]));
    await store.clock.advanceAsync(SlowStore.timeoutMs * 3);
    expect(store.underWay).toBe(0);
  });
});

test('an answer to a repeat counts although it comes later than a lease so short leaves time for', async () => {
  const { clock, store, manager } = bench();
  store.set('acquire', { reply: 1500 });
  store.set('cancel', { reply: 1500 });
  expect(await rejectionWhile(clock, manager.tryAcquire('r'))).toMatchObject({ code: 'STORE_UNAVAILABLE' });
  await clock.advanceAsync(5000);
  // One that was late, and one more.
  expect(store.calls.cancel).toBe(2);
  await clock.advanceAsync(2 * MINUTE_MS);
  expect(store.calls.cancel).toBe(2);
});

test('the same of a release whose answers are late', async () => {
  const { clock, store, manager } = bench();
  const lease = await manager.acquire('r');
  store.set('release', { reply: 1500 });
  const released = lease.release();
  await clock.advanceAsync(10_000);
  expect(await released).toBe('unconfirmed');
  expect(store.calls.release).toBe(3);
  await clock.advanceAsync(MINUTE_MS);
  expect(store.calls.release).toBe(3);
});

async function rejectionWhile(clock: ManualClock, work: Promise<unknown>): Promise<unknown> {
  const rejection = rejectionOf(work);
  await clock.advanceAsync(1000);
  return rejection;
}
