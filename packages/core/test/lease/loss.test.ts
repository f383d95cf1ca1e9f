import { LeaseLostError, StoreUnavailableError, type Lease } from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { bench, outcomeOf, rejectionOf } from './setup.ts';

const TTL_MS = 3000;
const WINDOW_MS = 2820;
const REFRESH_MS = 1000;

async function held(options: Parameters<typeof bench>[0] = {}): Promise<ReturnType<typeof bench> & { lease: Lease }> {
  const all = bench(options);
  const lease = await all.manager.acquire('r');
  return { ...all, lease };
}

describe('while nothing is wrong', () => {
  test('a lease is extended for as long as it is held', async () => {
    const { lease, clock, store, events, memory } = await held();
    for (let second = 0; second < 60; second++) {
      await clock.advanceAsync(1000);
      expect(lease.isHeld()).toBe(true);
    }
    expect(store.calls.extend).toBeGreaterThanOrEqual(58);
    expect(store.calls.extend).toBeLessThanOrEqual(70);
    expect((await memory.read('r', { timeoutMs: 10 }))?.extensions).toBe(store.calls.extend);
    expect(events).toEqual(['acquired']);
  });

  test('one that was abandoned is extended no more, runs out, and can be released before', async () => {
    const { lease, manager, clock, store, memory } = await held();
    const other = await manager.acquire('other');
    await clock.advanceAsync(REFRESH_MS);
    const calls = store.calls.extend;
    lease.abandon();
    other.abandon();
    expect(lease.signal.aborted).toBe(false);
    await clock.advanceAsync(REFRESH_MS);
    expect(await other.release()).toBe('released');
    expect(lease.isHeld()).toBe(true);
    await clock.advanceAsync(WINDOW_MS - REFRESH_MS);
    expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' });
    await clock.advanceAsync(TTL_MS);
    expect(store.calls.extend).toBe(calls);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'expired' });
  });

  test('no timer is set or cleared for runs that end before their first refresh', async () => {
    const { manager, clock } = bench();
    await manager.run('r', () => 1);
    const before = clock.timers;
    for (let round = 0; round < 100; round++) await manager.run(`r${round}`, () => 1);
    const timers = clock.timers.filter(({ ref }) => !ref);
    expect(timers).toEqual(before.filter(({ ref }) => !ref));
    // That of the keeper, and the pulse.
    expect(timers).toHaveLength(2);
  });

  test('each lease of a call gets its own verdict', async () => {
    const { manager, store, clock } = bench();
    const leases = await Promise.all(Array.from({ length: 10 }, (_, index) => manager.acquire(`r${index}`)));
    store.once('extend', {
      reply: (verdicts) =>
        verdicts.map((verdict, index) => {
          if (index === 2) return { verdict: 'lost', reason: 'superseded' };
          return index === 6 ? { verdict: 'revoked', remainingMs: 2000 } : verdict;
        }),
    });
    const request = store.next('extend', 'sent');
    await clock.advanceAsync(REFRESH_MS);
    const asked = (await request).map(({ resource }) => resource);
    expect(asked).toHaveLength(10);
    await clock.advanceAsync(10);
    const named = (of: readonly Lease[]): readonly string[] => of.map(({ resource }) => resource);
    expect(named(leases.filter((lease) => !lease.isHeld()))).toEqual([asked[2]]);
    expect(named(leases.filter(({ signal }) => signal.aborted)).toSorted()).toEqual([asked[2], asked[6]].toSorted());
  });

  test('leases due together go in one call', async () => {
    const { manager, store, clock } = bench();
    await Promise.all(Array.from({ length: 1200 }, (_, index) => manager.acquire(`r${index}`)));
    const request = store.next('extend', 'sent');
    await clock.advanceAsync(REFRESH_MS);
    expect((await request).length).toBe(500);
    expect(store.calls.extend).toBe(3);
  });
});

describe('when the store is silent', () => {
  test('one failed extend changes nothing', async () => {
    const { lease, clock, store, events } = await held();
    store.once('extend', { request: 'lost' });
    await clock.advanceAsync(10_000);
    expect(lease.isHeld()).toBe(true);
    expect(events).toEqual(['acquired', 'extendFailed']);
  });

  test('the lease is lost at the end of the trust window, before the store lets others in, and the signal aborts', async () => {
    const { lease, clock, store, events, memory } = await held();
    const { signal } = lease;
    store.partition();
    await clock.advanceAsync(WINDOW_MS - 5);
    expect(lease.isHeld()).toBe(true);
    expect(signal.aborted).toBe(false);
    await clock.advanceAsync(10);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
    expect(signal.reason).toMatchObject({ reason: 'store-unreachable', resource: 'r' });
    expect(lease.isHeld()).toBe(false);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'held' });
    expect(events.filter((name) => name === 'lost')).toHaveLength(1);
  });

  test('a late answer does not bring it back, and it is not extended again', async () => {
    const { lease, clock, store, memory } = await held();
    store.set('extend', { reply: WINDOW_MS });
    await clock.advanceAsync(WINDOW_MS + 1);
    expect(lease.isHeld()).toBe(false);
    store.heal();
    const calls = store.calls.extend;
    store.reconnect();
    await clock.advanceAsync(10_000);
    expect(store.calls.extend).toBe(calls);
    expect(lease.isHeld()).toBe(false);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'expired' });
  });

  test('tries go on with short pauses until the window closes: no storm', async () => {
    const { clock, store } = await held();
    store.set('extend', { reply: new StoreUnavailableError('refused', { mayHaveRun: false }) });
    await clock.advanceAsync(TTL_MS * 3);
    expect(store.calls.extend).toBeGreaterThan(10);
    expect(store.calls.extend).toBeLessThan(150);
  });

  test('a reconnection is used at once', async () => {
    const { lease, clock, store } = await held();
    store.set('extend', { reply: new StoreUnavailableError('refused', { mayHaveRun: false }) });
    await clock.advanceAsync(REFRESH_MS);
    store.heal();
    const sent = store.next('extend', 'sent');
    store.reconnect();
    await sent;
    await clock.advanceAsync(0);
    expect(lease.remainingMs()).toBeGreaterThan(WINDOW_MS - 5);
  });

  test('an answer that is no verdict is unknown, for its own lease only', async () => {
    const { manager, clock, store, events } = bench();
    const leases = await Promise.all(['a', 'b', 'c'].map((name) => manager.acquire(name)));
    store.once('extend', {
      reply: (verdicts) => verdicts.map((verdict, at) => (at === 1 ? { verdict: 'unknown' } : verdict)),
    });
    await clock.advanceAsync(REFRESH_MS);
    expect(events.filter((name) => name === 'extendFailed')).toHaveLength(1);
    store.once('extend', { reply: () => [] });
    await clock.advanceAsync(20_000);
    expect(leases.every((lease) => lease.isHeld())).toBe(true);
  });
});

describe('by the word of the store', () => {
  test('a lease that is gone is noticed within a refresh interval: one abort, one event, no more calls', async () => {
    const { lease, clock, store, events, memory } = await held();
    const { signal } = lease;
    let aborts = 0;
    signal.addEventListener('abort', () => aborts++);
    memory.flush();
    await clock.advanceAsync(REFRESH_MS);
    expect(signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'missing' });
    expect(aborts).toBe(1);
    const calls = store.calls.extend;
    await clock.advanceAsync(30_000);
    expect(store.calls.extend).toBe(calls);
    expect(events).toEqual(['acquired', 'lost']);
    expect(await lease.release()).toBe('lost');
  });

  test('a successor is not touched by the release of who lost it', async () => {
    const { lease, clock, memory, other } = await held();
    memory.flush();
    const successor = await other().acquire('r');
    await clock.advanceAsync(REFRESH_MS);
    expect(lease.isHeld()).toBe(false);
    expect(await lease.release()).toBe('lost');
    await clock.advanceAsync(REFRESH_MS);
    expect(successor.isHeld()).toBe(true);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ leaseId: successor.leaseId, state: 'held' });
  });

  test('a loss that nobody had noticed shows in the release, once', async () => {
    const { lease, memory, other, events } = await held();
    memory.flush();
    await other().acquire('r');
    expect(await lease.release()).toBe('lost');
    expect(events).toEqual(['acquired', 'lost']);
    expect(() => lease.assertHeld()).toThrow(/LEASE_LOST r: superseded/);
  });

  test('a value that was there before the unnoticed loss counts: run decides when the body settles', async () => {
    const { manager, memory } = bench();
    const value = await manager.run('r', async () => {
      memory.flush();
      return 'value';
    });
    expect(value).toBe('value');
  });
});

describe('by the clocks', () => {
  test('right after a block longer than the window everything says lost, before any timer has run', async () => {
    const { lease, clock } = await held();
    const { signal } = lease;
    clock.block(WINDOW_MS + 1);
    expect(signal.aborted).toBe(false);
    expect(lease.isHeld()).toBe(false);
    expect(signal.aborted).toBe(true);
    expect(lease.remainingMs()).toBe(0);
    expect(() => lease.assertHeld()).toThrow(/expired/);
  });

  test('asking for the signal computes as well', async () => {
    const { lease, clock } = await held();
    clock.block(WINDOW_MS + 1);
    expect(lease.signal.aborted).toBe(true);
  });

  test.each([
    { name: 'an hour forward', stepMs: 3_600_000, lost: true },
    { name: 'just past the window', stepMs: WINDOW_MS + 1, lost: true },
    { name: 'an hour back', stepMs: -3_600_000, lost: false },
  ])('the wall clock steps $name', async ({ stepMs, lost }) => {
    const { lease, clock } = await held();
    clock.stepWall(stepMs);
    expect(lease.isHeld()).toBe(!lost);
    if (lost) {
      expect(lease.signal.reason).toMatchObject({ reason: 'clock-step' });
      clock.stepWall(-stepMs);
      // Lost is for ever, also when the clock comes back.
      expect(lease.isHeld()).toBe(false);
    } else {
      await clock.advanceAsync(WINDOW_MS - 100);
      expect(lease.isHeld()).toBe(true);
    }
  });

  test('a suspended machine has lost its lease', async () => {
    const { lease, clock } = await held();
    clock.suspend(TTL_MS);
    clock.stepWall(-TTL_MS - 50);
    expect(lease.isHeld()).toBe(false);
  });

  test('a step that nobody asks about is announced within a refresh interval', async () => {
    const { lease, clock, events } = await held();
    const { signal } = lease;
    clock.stepWall(3_600_000);
    await clock.advanceAsync(REFRESH_MS);
    expect(signal.aborted).toBe(true);
    expect(events).toEqual(['acquired', 'lost']);
  });
});

describe('acquisitions that go wrong', () => {
  test('a grant that comes after its window is no acquisition, and leaves nothing behind', async () => {
    const { manager, store, clock, memory } = bench({ callTimeout: 600 });
    let tries = 0;
    const inner = memory.acquire.bind(memory);
    // The process is stopped between the send and the reply, each time.
    memory.acquire = async (request, call) => {
      const reply = await inner(request, call);
      if (++tries <= 2) clock.block(WINDOW_MS + 10);
      return reply;
    };
    const lease = await manager.acquire('r');
    expect(tries).toBe(3);
    expect(lease.isHeld()).toBe(true);
    await clock.advanceAsync(50);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ leaseId: lease.leaseId, state: 'held' });
    expect(store.calls.cancel).toBe(2);
  });

  test('three late grants are a fault of its own', async () => {
    const { manager, clock, memory } = bench();
    const inner = memory.acquire.bind(memory);
    memory.acquire = async (request, call) => {
      const reply = await inner(request, call);
      clock.block(TTL_MS);
      return reply;
    };
    expect(await rejectionOf(manager.acquire('r'))).toMatchObject({ code: 'STORE_UNAVAILABLE', mayHaveRun: false });
  });

  test('a lost reply is cancelled at once on a live connection: the resource is free again', async () => {
    const { manager, store, clock, memory } = bench();
    store.once('acquire', { reply: 'lost' });
    const outcome = outcomeOf(manager.acquire('r'));
    await clock.advanceAsync(2000);
    expect(await outcome).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE', mayHaveRun: true } });
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('and again after each reconnection until the store has confirmed it', async () => {
    const { manager, store, clock, memory } = bench();
    store.once('acquire', { reply: 'lost' });
    store.set('cancel', { request: 'lost' });
    const outcome = outcomeOf(manager.acquire('r'));
    await clock.advanceAsync(2500);
    await outcome;
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'held' });
    store.heal();
    const ran = store.next('cancel', 'ran');
    store.reconnect();
    // A try was under way when the store came back: the next one follows its deadline at once. A repeat has two seconds.
    await clock.advanceAsync(2000);
    await ran;
    expect(await memory.read('r', { timeoutMs: 10 })).not.toMatchObject({ state: 'held' });
    const calls = store.calls.cancel;
    store.reconnect();
    await clock.advanceAsync(60_000);
    expect(store.calls.cancel).toBe(calls);
  });

  test('a packet that arrives after all cannot become owner', async () => {
    const { manager, store, clock, memory } = bench();
    store.once('acquire', { request: 30_000 });
    const outcome = outcomeOf(manager.acquire('r'));
    await clock.advanceAsync(3000);
    await outcome;
    await clock.advanceAsync(40_000);
    expect(await memory.read('r', { timeoutMs: 10 })).not.toMatchObject({ state: 'held' });
  });

  test('what the server refused is not cancelled', async () => {
    const { manager, store, clock } = bench();
    store.once('acquire', { reply: new StoreUnavailableError('LOADING', { mayHaveRun: false }) });
    expect(await rejectionOf(manager.acquire('r'))).toMatchObject({ code: 'STORE_UNAVAILABLE' });
    await clock.advanceAsync(1000);
    expect(store.calls.cancel).toBe(0);
  });
});

describe('releases that go wrong', () => {
  test('a lost reply is asked for again: released', async () => {
    const { lease, store, clock } = await held();
    store.once('release', { reply: 'lost' });
    const released = outcomeOf(lease.release());
    await clock.advanceAsync(2000);
    expect(await released).toEqual({ status: 'fulfilled', value: 'released' });
  });

  test('a silent store makes it unconfirmed within two calls, and it is done in the background', async () => {
    const { lease, store, clock, events, memory } = await held();
    store.partition();
    const released = outcomeOf(lease.release());
    await clock.advanceAsync(1300);
    expect(await released).toEqual({ status: 'fulfilled', value: 'unconfirmed' });
    expect(lease.isHeld()).toBe(false);
    store.heal();
    await clock.advanceAsync(1500);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
    expect(events).toEqual(['acquired', 'releaseUnconfirmed', 'released']);
  });

  test('nothing is extended after the release has begun', async () => {
    const { lease, store, clock } = await held();
    store.partition();
    void lease.release();
    await clock.advanceAsync(30_000);
    expect(store.calls.extend).toBe(0);
  });

  test('nor in a later batch that was due before', async () => {
    const { manager, store, clock } = bench();
    const leases = await Promise.all(Array.from({ length: 1200 }, (_, index) => manager.acquire(`r${index}`)));
    const extended: string[] = [];
    const extend = store.extend.bind(store);
    store.extend = (items, call) => {
      extended.push(...items.map(({ leaseId }) => leaseId));
      return extend(items, call);
    };
    const first = store.next('extend', 'sent');
    const passed = clock.advanceAsync(REFRESH_MS);
    await first;
    const last = leases.find(({ leaseId }) => !extended.includes(leaseId)) as Lease;
    const released = last.release();
    await passed;
    expect(await released).toBe('released');
    expect(extended).toHaveLength(1199);
    expect(extended).not.toContain(last.leaseId);
  });

  test('an extend under way when the release begins revives nothing', async () => {
    const { lease, store, clock, memory } = await held();
    store.once('extend', { request: 400 });
    const sent = store.next('extend', 'sent');
    await clock.advanceAsync(REFRESH_MS);
    await sent;
    expect(await lease.release()).toBe('released');
    await clock.advanceAsync(2000);
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('the error of the body is not hidden by a release that fails', async () => {
    const { manager, store, clock } = bench();
    const outcome = outcomeOf(
      manager.run('r', () => {
        store.partition();
        throw new Error('the body');
      }),
    );
    await clock.advanceAsync(2000);
    expect(await outcome).toMatchObject({ reason: { message: 'the body' } });
  });
});

describe('maxHold', () => {
  test('a run that is too long is cancelled, no longer extended, and lost at the end of its window', async () => {
    const { manager, clock, events } = bench();
    const lease = await manager.acquire('r', { maxHold: '10s' });
    const { signal } = lease;
    await clock.advanceAsync(9900);
    expect(signal.aborted).toBe(false);
    await clock.advanceAsync(200);
    expect(signal.reason).toMatchObject({ code: 'RUN_CANCELLED', reason: 'max-hold' });
    expect(lease.isHeld()).toBe(true);
    await clock.advanceAsync(TTL_MS);
    expect(lease.isHeld()).toBe(false);
    expect(events).toEqual(['acquired', 'cancelled', 'lost']);
  });
});
