import { LeaseManager, MemoryFence, MemoryLeaseStore, type Lease } from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { bench, deferred, rejectionOf } from './setup.ts';

const call = { timeoutMs: 100 };

function kept(options: { readonly linger?: number } = {}): ReturnType<typeof bench> {
  return bench({ linger: 500, ...options });
}

describe('a lease that lingers', () => {
  test('serves the next acquisition without asking the store, under a greater token of its own', async () => {
    const { manager, store, memory, events } = kept();
    const first = await manager.acquire('r');
    expect(await first.release()).toBe('kept');
    const second = await manager.acquire('r');
    expect(store.calls).toMatchObject({ acquire: 1, release: 0, extend: 0 });
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    expect(second.leaseId).toBe(first.leaseId);
    expect([first.isHeld(), second.isHeld()]).toEqual([false, true]);
    expect(first.remainingMs()).toBe(0);
    // All that it may ever have is in the record, so that what comes later is above.
    const record = await memory.read('r', call);
    expect(record?.fencingToken).toBeGreaterThanOrEqual(second.fencingToken);
    expect(await first.release()).toBe('kept');
    expect(second.isHeld()).toBe(true);
    expect(events).toEqual(['acquired', 'released', 'acquired']);
  });

  test('is trusted no longer than it was before', async () => {
    const { manager, clock } = kept();
    const first = await manager.acquire('r');
    clock.advance(400);
    const left = first.remainingMs();
    await first.release();
    const second = await manager.acquire('r');
    expect(second.remainingMs()).toBe(left);
  });

  test('goes on being extended by its next holder', async () => {
    const { manager, clock, store } = kept();
    await manager.run('r', () => undefined);
    const lease = await manager.acquire('r');
    await clock.advanceAsync(10_000);
    expect(lease.isHeld()).toBe(true);
    expect(store.calls.acquire).toBe(1);
    expect(store.calls.extend).toBeGreaterThan(5);
  });

  test('refuses a late write of its first holder once the second has activated', async () => {
    const { manager } = kept();
    const fence = new MemoryFence();
    const options = { fences: [fence] };
    let late: Lease | undefined;
    await manager.run('r', options, (lease) => void (late = lease));
    const lateGrant = late?.grant;
    if (lateGrant === undefined) throw new Error('no lease');
    await manager.run('r', options, async (lease) => {
      expect(await rejectionOf(fence.write(lateGrant, (tx) => tx.set('a', 'late')))).toMatchObject({
        code: 'STALE_TOKEN',
      });
      await fence.write(lease, (tx) => tx.set('a', 'mine'));
    });
  });

  test('is given back at once when another process waits, or only tries, or parks', async () => {
    for (const options of [{ wait: '10s' }, { wait: 0 }, { park: true }] as const) {
      const { manager, clock, memory, other } = kept();
      await manager.run('r', () => undefined);
      expect(await memory.read('r', call)).toMatchObject({ state: 'held' });
      const theirs = other().tryAcquire('r', options);
      await clock.advanceAsync(0);
      await clock.advanceAsync(0);
      const result = await theirs;
      if (options.wait === '10s') expect(result.acquired).toBe(true);
      else expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
    }
  });

  test('is not kept from who asked while it was in use', async () => {
    const { manager, clock, other, store } = kept();
    const body = deferred();
    const ran = manager.run('r', () => body.promise);
    await clock.advanceAsync(0);
    const theirs = other().acquire('r', { wait: '10s' });
    await clock.advanceAsync(0);
    body.resolve();
    await ran;
    expect(store.calls.release).toBe(1);
    await theirs;
  });

  test('is not kept from who asked before the answer came by which it was granted', async () => {
    const { manager, clock, memory, store, other } = kept();
    await manager.run('before', () => undefined);
    store.set('acquire', { reply: 100 });
    const mine = manager.acquire('r');
    await clock.advanceAsync(10);
    expect(await other().tryAcquire('r')).toMatchObject({ acquired: false });
    await clock.advanceAsync(100);
    expect(await (await mine).release()).toBe('released');
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('is not kept at all when others wait for it already', async () => {
    const { manager, clock, other } = kept();
    const before = await other().acquire('r');
    const mine = manager.acquire('r', { wait: '10s' });
    await clock.advanceAsync(10);
    const theirs = other().acquire('r', { wait: '10s' });
    await clock.advanceAsync(10);
    await before.release();
    await clock.advanceAsync(10);
    expect(await (await mine).release()).toBe('released');
    await clock.advanceAsync(10);
    expect((await theirs).isHeld()).toBe(true);
  });

  test('is not kept from who asks for the first lease of a process, which is not there before its owner can be told', async () => {
    const { manager, clock, memory, store, other } = kept();
    const listen = deferred();
    const { subscribe } = store;
    store.subscribe = async (channel, listener) => {
      await listen.promise;
      return subscribe.call(store, channel, listener);
    };
    const mine = manager.acquire('r');
    await clock.advanceAsync(10);
    expect(store.calls.acquire).toBe(0);
    listen.resolve();
    const lease = await mine;
    expect(await other().tryAcquire('r')).toMatchObject({ acquired: false });
    await clock.advanceAsync(0);
    expect(await lease.release()).toBe('released');
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('does not refuse an acquisition of its own process that it does not fit, however late its release comes', async () => {
    const { manager, clock, store } = kept();
    await manager.run('r', () => undefined);
    store.set('release', { request: 100 });
    const next = manager.tryAcquire('r', { ttl: '5s' });
    await clock.advanceAsync(150);
    expect(await next).toMatchObject({ acquired: true });
  });

  test('is lost, and nothing else, to a process that is stopped at any step of its release', async () => {
    const seen = new Set<string>();
    for (let step = 1; step <= 12; step++) {
      const { manager, clock, events, store } = kept();
      const lease = await manager.acquire('r');
      let readings = 0;
      const { monotonicMs } = clock;
      clock.monotonicMs = () => {
        if (++readings === step) clock.suspend(10_000);
        return monotonicMs.call(clock);
      };
      const released = lease.release();
      clock.monotonicMs = monotonicMs;
      await clock.advanceAsync(0);
      const result = await released;
      seen.add(result);
      expect([step, ...events]).toEqual([step, 'acquired', result === 'lost' ? 'lost' : 'released']);
      expect(store.calls.release).toBe(result === 'kept' ? 0 : 1);
    }
    expect(seen).toContain('lost');
    expect(seen).toContain('kept');
  });

  test('goes to who waits within its time, also where no message arrives and there is always a next here', async () => {
    const { manager, clock, other, store } = kept();
    store.deaf = true;
    let got = false;
    let theirs: Promise<void> | undefined;
    for (let ms = 0; ms <= 600 && !got; ms += 50) {
      await manager.run('r', { wait: '1s' }, () => undefined);
      theirs ??= other()
        .acquire('r', { wait: '10s' })
        .then((lease) => {
          got = true;
          return lease.release().then(() => undefined);
        });
      await clock.advanceAsync(50);
    }
    await theirs;
    expect(got).toBe(true);
  });

  test('is given back when nobody comes, and keeps no process alive for that', async () => {
    const { manager, clock, memory } = kept();
    await manager.run('r', () => undefined);
    expect(clock.timers.filter(({ ref }) => ref)).toEqual([]);
    await clock.advanceAsync(490);
    expect(await memory.read('r', call)).toMatchObject({ state: 'held' });
    await clock.advanceAsync(20);
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('is given back before it would have to be extended', async () => {
    const { manager, clock, memory, store } = kept();
    const lease = await manager.acquire('r');
    await clock.advanceAsync(900);
    await lease.release();
    await clock.advanceAsync(110);
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
    expect(store.calls.extend).toBe(0);
  });

  test('is given back by close, which waits for that', async () => {
    const { manager, store } = kept();
    await manager.run('r', () => undefined);
    const confirmed = store.next('release', 'settled');
    expect(await manager.close()).toEqual({ unsettled: [] });
    expect(await confirmed).toMatchObject({ resource: 'r', outcome: 'done' });
  });

  test('is not kept by a body that ends while the manager closes', async () => {
    const { manager, store, clock } = kept();
    const body = deferred();
    const ran = manager.run('r', () => body.promise);
    await clock.advanceAsync(0);
    const closed = manager.close();
    body.resolve();
    await Promise.all([ran, closed]);
    expect(store.calls.release).toBe(1);
  });

  test('is given back when it is revoked', async () => {
    const { manager, clock, memory, other } = kept();
    await manager.run('r', () => undefined);
    expect(await other().revoke('r')).toMatchObject({ outcome: 'revoked' });
    await clock.advanceAsync(0);
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('is not used any more by a process that was stopped meanwhile', async () => {
    const { manager, clock, store, other } = kept();
    await manager.run('r', () => undefined);
    // Suspended: no timer has fired yet when it goes on.
    clock.suspend(10_000);
    const theirs = await other().acquire('r');
    expect(await manager.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
    expect(store.calls.acquire).toBe(2);
    expect(theirs.isHeld()).toBe(true);
  });

  // As somebody does who deletes the record: `forceRelease` of the diagnosis waits until the lease has run out.
  describe('and is released by force while it is trusted', () => {
    async function forced(isDeaf: boolean) {
      const its = kept();
      const { manager, clock, memory, store, other } = its;
      const fence = new MemoryFence();
      const options = { fences: [fence] };
      await manager.run('r', options, () => undefined);
      store.deaf = isDeaf;
      const record = await memory.read('r', call);
      const what = { resource: 'r', leaseId: record?.leaseId ?? '', fencingToken: record?.fencingToken ?? 0 };
      const force = { ...what, extensions: 0, elapsedMs: null, floor: 0, operator: 'ann', reason: 'drill' };
      expect(await memory.forceRelease(force, call)).toEqual({ kind: 'released' });
      await clock.advanceAsync(0);
      const theirs = await other().acquire('r', options);
      return { ...its, fence, options, theirs };
    }

    test('serves no run any more once its owner hears of it', async () => {
      const { manager, theirs } = await forced(false);
      expect(await manager.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
      expect(theirs.isHeld()).toBe(true);
    });

    test('is refused at a fence to an owner that hears nothing', async () => {
      const { manager, options, fence, theirs } = await forced(true);
      expect(await rejectionOf(manager.run('r', options, () => expect.unreachable()))).toMatchObject({
        code: 'RESOURCE_BUSY',
      });
      await fence.write(theirs, (tx) => tx.set('a', 'theirs'));
    });

    test('serves runs without a fence to an owner that hears nothing, no longer than a running body would go on', async () => {
      const { manager, clock } = await forced(true);
      const lost = manager.run('r', async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      });
      lost.catch(() => {});
      // The next extension, as of a lease that never lingered.
      await clock.advanceAsync(1000);
      expect(await rejectionOf(lost)).toMatchObject({ code: 'LEASE_LOST', reason: 'superseded' });

      const again = await forced(true);
      await again.manager.run('r', () => undefined);
      // Its time is counted from its first release, however often it is used.
      await again.clock.advanceAsync(500);
      expect(await again.manager.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
    });
  });

  test('has so many tokens and no more: then the store is asked again', async () => {
    const { manager, store } = kept();
    const tokens = new Set<number>();
    let last = 0;
    for (let run = 0; run < 1002; run++) {
      last = await manager.run('r', ({ fencingToken }) => {
        expect(fencingToken).toBeGreaterThan(last);
        tokens.add(fencingToken);
        return fencingToken;
      });
    }
    expect(tokens.size).toBe(1002);
    expect(store.calls).toMatchObject({ acquire: 2, release: 1 });
  });
});

describe('a lease does not linger', () => {
  test.each([
    ['without the option', {}, {}],
    ['with a tick', { linger: 500 }, { tick: { job: 'nightly', minHold: 1000 } }],
  ])('%s', async (_, options, acquireOptions) => {
    const { manager, memory } = bench(options);
    await manager.run('r', acquireOptions, () => undefined);
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('whose run was cancelled', async () => {
    const { manager, memory } = kept();
    const controller = new AbortController();
    await manager.run('r', { signal: controller.signal }, () => controller.abort());
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test.each(['lost', new Error('reset')] as const)(
    'whose extension was asked for ahead of its time, with that of another, and has no answer: %s',
    async (reply) => {
      const { manager, memory, clock, store } = kept();
      await manager.acquire('another');
      await clock.advanceAsync(20);
      const lease = await manager.acquire('r');
      store.set('extend', { reply });
      const sent = store.next('extend', 'sent');
      await clock.advanceAsync(977);
      expect(await sent).toMatchObject([{ resource: 'another' }, { resource: 'r' }]);
      expect(await lease.release()).toBe('released');
      expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
    },
  );

  test('whose last extension has no answer', async () => {
    const { manager, memory, clock, store } = kept();
    const lease = await manager.acquire('r');
    store.set('extend', { reply: 'lost' });
    await clock.advanceAsync(1900);
    store.heal();
    expect(await lease.release()).toBe('released');
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('whose owner may not listen', async () => {
    const { manager, memory, store } = kept();
    store.subscribe = () => Promise.reject(new Error('no rights'));
    await manager.run('r', () => undefined);
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('when an earlier call of its acquisition has no answer, whose packet may still come', async () => {
    const { manager, clock, store, memory } = kept();
    await manager.run('before', () => undefined);
    store.set('acquire', { request: 'lost' });
    const mine = manager.acquire('r', { wait: '10s' });
    await clock.advanceAsync(500);
    store.heal();
    await clock.advanceAsync(1000);
    const buried = store.next('cancel', 'settled');
    expect(await (await mine).release()).toBe('released');
    expect(await buried).toMatchObject({ resource: 'r' });
    expect(await memory.read('r', call)).toMatchObject({ state: 'free' });
  });

  test('for an acquisition that wants another ttl, or another retention', async () => {
    for (const options of [{ ttl: '5s' }, { retention: '1h' }] as const) {
      const { manager, store } = kept();
      await manager.run('r', () => undefined);
      await manager.run('r', options, () => undefined);
      expect(store.calls).toMatchObject({ acquire: 2, release: 1 });
    }
  });
});

test('linger is shorter than the time until an extension, and cannot go with a full history', () => {
  const store = new MemoryLeaseStore();
  expect(() => new LeaseManager({ store, ttl: '3s', linger: 1001 })).toThrow(
    'linger: is 1001 ms: must be at most ttl / refreshRatio, 1000 ms',
  );
  expect(() => new LeaseManager({ store, linger: '1s', history: 'all' })).toThrow(
    "linger: cannot go with history 'all'",
  );
  expect(() => new LeaseManager({ store, linger: -1 })).toThrow('linger');
});
