import { LeaseManager, MemoryLeaseStore } from '@leasehold/core';
import { ManualClock } from '@leasehold/core/testing';
import { describe, expect, test } from 'vitest';
import { bench, deferred, outcomeOf, rejectionOf } from './setup.ts';

describe('close', () => {
  test('refuses new leases, and resolves at once when nothing is held', async () => {
    const { manager, clock } = bench();
    expect(await manager.close()).toEqual({ unsettled: [] });
    expect(await rejectionOf(manager.acquire('r'))).toMatchObject({ code: 'MANAGER_CLOSED', resource: 'r' });
    expect(await rejectionOf(manager.inspect('r'))).toMatchObject({ code: 'MANAGER_CLOSED' });
    expect(clock.timers.filter(({ ref }) => ref)).toEqual([]);
  });

  test('a body that finishes within the grace counts, undisturbed', async () => {
    const { manager, clock, events } = bench();
    const body = deferred<string>();
    let aborted: boolean | undefined;
    const ran = manager.run('r', async (lease) => {
      const value = await body.promise;
      aborted = lease.signal.aborted;
      return value;
    });
    await clock.advanceAsync(0);
    const closed = manager.close({ grace: '10s' });
    await clock.advanceAsync(9000);
    body.resolve('done');
    expect(await ran).toBe('done');
    expect(aborted).toBe(false);
    expect(await closed).toEqual({ unsettled: [] });
    expect(events).toEqual(['acquired', 'released']);
  });

  test('one that does not is cancelled, is still extended, and its value counts', async () => {
    const { manager, clock, store, events, other } = bench();
    const ran = manager.run('r', async (lease) => {
      await new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
      await new Promise((resolve) => clock.setTimer(20_000, () => resolve(undefined), { ref: true }));
      lease.assertHeld();
      return lease.signal.reason as unknown;
    });
    await clock.advanceAsync(0);
    const closed = manager.close({ grace: 1000 });
    await clock.advanceAsync(10_000);
    const extends_ = store.calls.extend;
    await clock.advanceAsync(15_000);
    expect(store.calls.extend).toBeGreaterThan(extends_);
    expect(await ran).toMatchObject({ code: 'RUN_CANCELLED', reason: 'shutdown' });
    expect(await closed).toEqual({ unsettled: [] });
    expect(events).toEqual(['acquired', 'cancelled', 'released']);
    expect(other).toBeDefined();
  });

  test('one that ignores its signal is reported, and its lease is left to run out, not released beside it', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    const staying = new LeaseManager({ store, clock, ttl: '3s' });
    const closing = new LeaseManager({ store, clock, ttl: '3s' });
    const stuck = deferred();
    const ran = outcomeOf(closing.run('r', () => stuck.promise));
    await clock.advanceAsync(0);
    const closed = closing.close({ grace: 100, abandonAfter: 1000 });
    await clock.advanceAsync(1200);
    expect(await closed).toEqual({
      unsettled: [expect.objectContaining({ resource: 'r', fencingToken: expect.any(Number), heldMs: 1100 })],
    });
    expect(await staying.inspect('r')).toMatchObject({ state: 'held' });
    expect(await staying.tryAcquire('r')).toMatchObject({ acquired: false });
    await clock.advanceAsync(3000);
    expect(await staying.tryAcquire('r')).toMatchObject({ acquired: true });
    stuck.resolve();
    expect(await ran).toMatchObject({ reason: { code: 'LEASE_LOST' } });
  });

  test('one that was abandoned is not waited for beyond the grace, others are; its lease is not released', async () => {
    const { clock, other } = bench();
    const [manager, next] = [other({ ttl: '30s' }), other()];
    const [abandoned, waited] = [deferred(), deferred()];
    const left = outcomeOf(
      manager.run('left', (lease) => {
        lease.abandon();
        return abandoned.promise;
      }),
    );
    const ran = manager.run('waited for', () => waited.promise);
    await clock.advanceAsync(0);
    let isClosed = false;
    const closed = manager.close({ grace: 1000 }).finally(() => (isClosed = true));
    await clock.advanceAsync(5000);
    expect(isClosed).toBe(false);
    waited.resolve();
    await ran;
    expect((await closed).unsettled).toMatchObject([{ resource: 'left' }]);
    expect(await next.tryAcquire('left')).toMatchObject({ acquired: false });
    abandoned.resolve();
    await left;
  });

  test('one that is abandoned while it is waited for is waited for no longer', async () => {
    const { clock, other } = bench();
    const [manager] = [other({ ttl: '30s' }), other()];
    const body = deferred();
    let abandon = (): void => {};
    const left = outcomeOf(
      manager.run('left', (lease) => {
        abandon = () => lease.abandon();
        return body.promise;
      }),
    );
    await clock.advanceAsync(0);
    let isClosed = false;
    const closed = manager.close({ grace: 1000 }).finally(() => (isClosed = true));
    await clock.advanceAsync(60_000);
    expect(isClosed).toBe(false);
    abandon();
    await clock.advanceAsync(2000);
    expect((await closed).unsettled).toMatchObject([{ resource: 'left' }]);
    body.resolve();
    await left;
  });

  test('the next owner enters right after the release', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    const next = new LeaseManager({ store, clock, ttl: '3s' });
    const manager = new LeaseManager({ store, clock, ttl: '3s' });
    const lease = await manager.acquire('r');
    const closed = manager.close();
    await lease.release();
    expect(await next.tryAcquire('r')).toMatchObject({ acquired: true });
    await closed;
  });

  test('closes the store with its last manager, and answers the same when asked again', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    let closes = 0;
    const close = store.close.bind(store);
    store.close = () => (closes++, close());
    const first = new LeaseManager({ store, clock });
    const second = new LeaseManager({ store, clock });
    const answer = first.close();
    expect(first.close({ grace: 5 })).toBe(answer);
    await answer;
    expect(closes).toBe(0);
    expect(await second.run('r', () => 1)).toBe(1);
    await second[Symbol.asyncDispose]();
    expect(closes).toBe(1);
  });

  test('an acquisition that is under way when it begins comes to nothing, and leaves nothing', async () => {
    const { manager, store, memory, clock } = bench();
    store.once('acquire', { reply: 100 });
    const outcome = outcomeOf(manager.run('r', () => 1));
    await clock.advanceAsync(10);
    const closed = manager.close();
    await clock.advanceAsync(200);
    expect(await outcome).toMatchObject({ reason: { code: 'MANAGER_CLOSED' } });
    await closed;
    const after = new LeaseManager({ store: new MemoryLeaseStore({ clock }), clock });
    expect(after.namespace).toBe(memory.namespace);
    expect(store.calls.cancel).toBe(1);
  });

  test('a silent store does not hold it up for longer than a call', async () => {
    const { manager, store, clock } = bench();
    const lease = await manager.acquire('r');
    store.partition();
    const released = lease.release();
    const closed = outcomeOf(manager.close());
    await clock.advanceAsync(2500);
    expect(await released).toBe('unconfirmed');
    expect(await closed).toMatchObject({ status: 'fulfilled' });
  });

  test('inside a body it does not wait for that body, which goes on and releases; the store is closed after it', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    let isClosed = false;
    const close = store.close.bind(store);
    store.close = () => ((isClosed = true), close());
    const manager = new LeaseManager({ store, clock, ttl: '3s' });
    const ran = manager.run('a', async (lease) => {
      const closed = manager.close({ grace: 100 });
      await clock.advanceAsync(200);
      expect((await closed).unsettled).toMatchObject([{ resource: 'a' }]);
      expect(lease.signal.reason).toMatchObject({ reason: 'shutdown' });
      await clock.advanceAsync(10_000);
      lease.assertHeld();
      expect(isClosed).toBe(false);
      return 'done';
    });
    expect(await ran).toBe('done');
    await new Promise(setImmediate);
    expect(isClosed).toBe(true);
  });

  test('says what it waits for once the grace is over', async () => {
    const warnings: string[] = [];
    const logger = {
      debug() {},
      info() {},
      error() {},
      warn: (_: object, message: string) => void warnings.push(message),
    };
    const { manager, clock } = bench({ logger });
    const forgotten = await manager.acquire('forgotten');
    const closed = manager.close({ grace: '2s' });
    await clock.advanceAsync(2100);
    expect(warnings).toEqual([
      expect.stringMatching(/waits for leases that have not been released: forgotten, held for 20\d\d ms;/),
    ]);
    await forgotten.release();
    expect(await closed).toEqual({ unsettled: [] });
  });

  test('bad options are refused and do not close', async () => {
    const { manager } = bench();
    expect(() => manager.close({ grace: -1 })).toThrow(/grace: -1 is not a duration/);
    expect(() => manager.close({ gracee: 1 } as never)).toThrow(/gracee: is not an option here/);
    expect(await manager.run('r', () => 1)).toBe(1);
  });
});
