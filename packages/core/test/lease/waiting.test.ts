import {
  AcquireTimeoutError,
  LeaseholdError,
  ResourceBusyError,
  StoreUnavailableError,
  type Lease,
  type MemoryLeaseStore,
} from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { bench, deferred, outcomeOf } from './setup.ts';

const TTL_MS = 3000;

/** A lease that nobody extends any more. */
async function crashedOwnerOf(resource: string, memory: MemoryLeaseStore): Promise<void> {
  const owner = { line: 'crashed pid 1', json: '{}' };
  const rest = { mode: 'try', channel: '', history: 'exceptions', floor: 0, replaces: '', quarantineMs: 0 } as const;
  const leaseId = resource.repeat(32);
  await memory.acquire({ resource, leaseId, ttlMs: TTL_MS, owner, waitRefreshMs: 1000, ...rest }, { timeoutMs: 100 });
}

describe('waiting', () => {
  test('is served within a round trip of the release, by a message, in order of arrival', async () => {
    const { manager, clock, store } = bench();
    const first = await manager.acquire('r');
    const order: number[] = [];
    const waiters = [1, 2, 3, 4, 5].map((number) =>
      manager.run('r', { wait: '20s' }, async () => {
        order.push(number);
      }),
    );
    await clock.advanceAsync(0);
    const asked = store.calls.acquire;
    expect(asked).toBe(6);
    await first.release();
    await clock.advanceAsync(0);
    await Promise.all(waiters);
    expect(order).toEqual([1, 2, 3, 4, 5]);
    // One question each when their turn came: nobody polled.
    expect(store.calls.acquire - asked).toBeLessThanOrEqual(10);
    expect(clock.timers.filter(({ ref }) => ref)).toEqual([]);
  });

  test('without messages it takes a refresh at the most', async () => {
    const { manager, clock, store, other } = bench();
    const first = await other().acquire('r');
    store.deaf = true;
    let ran = false;
    const waiter = manager.run('r', { wait: '20s' }, () => (ran = true));
    await clock.advanceAsync(100);
    await first.release();
    await clock.advanceAsync(899);
    expect(ran).toBe(false);
    await clock.advanceAsync(110);
    expect(ran).toBe(true);
    await waiter;
  });

  test('after the crash of the holder it is served when the ttl has passed', async () => {
    const { manager, clock, memory } = bench();
    await crashedOwnerOf('r', memory);
    let at = Infinity;
    const from = clock.monotonicMs();
    const waiter = manager.run('r', { wait: '20s' }, () => (at = clock.monotonicMs() - from));
    await clock.advanceAsync(TTL_MS + 20);
    await waiter;
    expect(at).toBeGreaterThanOrEqual(TTL_MS - 10);
    expect(at).toBeLessThan(TTL_MS + 10);
  });

  test('a newcomer does not barge in between', async () => {
    const { manager, clock, store, other } = bench();
    const first = await manager.acquire('r');
    const waiter = manager.acquire('r', { wait: '20s' });
    await clock.advanceAsync(0);
    // The waiter hears of its turn late.
    store.deaf = true;
    await first.release();
    expect(await other().tryAcquire('r')).toMatchObject({ acquired: false, reason: 'turn', holder: null });
    await clock.advanceAsync(1000);
    expect((await waiter).isHeld()).toBe(true);
  });

  test('ends at its deadline with an error of its own, leaving no place behind', async () => {
    const { manager, clock, memory } = bench();
    const first = await manager.acquire('r');
    const outcome = outcomeOf(manager.run('r', { wait: '5s' }, () => 1));
    const value = manager.tryRun('r', { wait: '5s' }, () => 1);
    await clock.advanceAsync(4990);
    expect((await memory.read('r', { timeoutMs: 10 }))?.waiting).toBe(2);
    await clock.advanceAsync(20);
    const { reason } = (await outcome) as PromiseRejectedResult;
    expect(reason).toBeInstanceOf(AcquireTimeoutError);
    expect(reason).toBeInstanceOf(ResourceBusyError);
    expect(reason).toMatchObject({ code: 'ACQUIRE_TIMEOUT', reason: 'held' });
    expect((reason as ResourceBusyError).holder?.fencingToken).toBe(first.fencingToken);
    expect(LeaseholdError.is(reason, 'RESOURCE_BUSY')).toBe(true);
    expect(await value).toMatchObject({ ran: false, reason: 'held' });
    await clock.advanceAsync(10);
    expect((await memory.read('r', { timeoutMs: 10 }))?.waiting).toBe(0);
    expect(clock.timers.filter(({ ref }) => ref)).toEqual([]);
  });

  test('a wait of months has no timer of its own, and asks no more often than another', async () => {
    const { manager, clock, store, other } = bench();
    const holder = await other().acquire('r');
    const waiting = manager.run('r', { wait: '90d' }, () => 'served');
    await clock.advanceAsync(60_000);
    expect(Math.max(...clock.timers.map(({ inMs }) => inMs))).toBeLessThan(10_000);
    expect(store.calls.acquire).toBeLessThanOrEqual(62);
    await holder.release();
    await clock.advanceAsync(0);
    expect(await waiting).toBe('served');
  });

  test("the caller's signal ends it at once, also while the store is silent, and what is granted late is taken back", async () => {
    const { manager, clock, store, memory } = bench();
    const first = await manager.acquire('r');
    const asleep = new AbortController();
    const sleeping = outcomeOf(manager.acquire('r', { wait: Infinity, signal: asleep.signal }));
    await clock.advanceAsync(100);
    asleep.abort(new Error('enough'));
    expect(await sleeping).toMatchObject({
      reason: { code: 'RUN_CANCELLED', reason: 'caller', cause: { message: 'enough' } },
    });

    const asking = new AbortController();
    store.once('acquire', { reply: 400 });
    const ran = store.next('acquire', 'ran');
    const late = outcomeOf(manager.acquire('s', { wait: Infinity, signal: asking.signal }));
    await clock.advanceAsync(0);
    await ran;
    asking.abort();
    expect(await late).toMatchObject({ reason: { code: 'RUN_CANCELLED' } });
    await clock.advanceAsync(500);
    expect(await memory.read('s', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
    await first.release();
    expect((await memory.read('r', { timeoutMs: 10 }))?.waiting).toBe(0);
  });

  test('ends when the manager closes', async () => {
    const { manager, clock, other } = bench();
    await other().acquire('r');
    const outcome = outcomeOf(manager.acquire('r', { wait: Infinity }));
    await clock.advanceAsync(100);
    const closed = manager.close();
    await clock.advanceAsync(10);
    expect(await outcome).toMatchObject({ reason: { code: 'RUN_CANCELLED', reason: 'shutdown' } });
    expect(await closed).toEqual({ unsettled: [] });
  });

  test('goes on through an outage with the same place', async () => {
    const { manager, clock, store, other, memory } = bench();
    const first = await other().acquire('r');
    const order: string[] = [];
    const early = manager.run('r', { wait: '60s' }, () => order.push('early'));
    await clock.advanceAsync(10);
    const later = other().run('r', { wait: '60s' }, () => order.push('later'));
    await clock.advanceAsync(10);
    store.set('acquire', { reply: new StoreUnavailableError('down', { mayHaveRun: false }) });
    await clock.advanceAsync(1500);
    store.heal();
    store.reconnect();
    await clock.advanceAsync(10);
    expect((await memory.read('r', { timeoutMs: 10 }))?.waiting).toBe(2);
    await first.release();
    await clock.advanceAsync(1000);
    await Promise.all([early, later]);
    expect(order).toEqual(['early', 'later']);
  });

  test('a lost reply keeps the place, and is asked for again', async () => {
    const { manager, clock, store } = bench();
    store.once('acquire', { reply: 'lost' });
    const acquired = manager.acquire('r', { wait: '10s' });
    await clock.advanceAsync(1000);
    const lease = await acquired;
    expect(store.calls.acquire).toBe(2);
    expect(store.calls.cancel).toBe(0);
    // Of what the server still gives, not of a whole ttl.
    expect(lease.remainingMs()).toBeLessThan(2820 - 550);
  });

  test('a first packet that arrives when all is over does not become owner, also after a hand-over', async () => {
    const { manager, clock, store, other, memory } = bench();
    for (const handsOver of [false, true]) {
      store.once('acquire', { request: 20_000 });
      const acquired = manager.acquire('r', { wait: '10s' });
      await clock.advanceAsync(1000);
      const lease = await acquired;
      if (handsOver) await (await other().adopt(await lease.handOver())).release();
      else await lease.release();
      // Another tenure, so that the record no longer names the leaseId.
      await (await other().acquire('r')).release();
      await clock.advanceAsync(25_000);
      expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
    }
  });

  test('however short, the store is asked once: free is granted, held is a timeout', async () => {
    const { manager, clock, store } = bench();
    store.set('acquire', { request: 200 });
    const free = manager.acquire('r', { wait: 1 });
    await clock.advanceAsync(250);
    expect((await free).isHeld()).toBe(true);
    const held = outcomeOf(manager.acquire('r', { wait: 1 }));
    await clock.advanceAsync(250);
    expect(await held).toMatchObject({ reason: { code: 'ACQUIRE_TIMEOUT' } });
  });

  test('with the store out of reach for the whole wait it is unavailable, never busy', async () => {
    const { manager, clock, store } = bench();
    store.partition();
    const outcome = outcomeOf(manager.acquire('r', { wait: '5s' }));
    await clock.advanceAsync(6000);
    expect(await outcome).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE' } });
  });

  test('what no waiting can help is said at once', async () => {
    const { manager } = bench();
    const tick = { job: 'nightly', at: Date.UTC(2026, 0, 15, 3) };
    expect(await manager.tryRun('r', { tick, wait: '10s' }, () => 1)).toEqual({ ran: true, value: 1 });
    expect(await manager.tryRun('r', { tick, wait: '10s' }, () => 1)).toMatchObject({
      ran: false,
      reason: 'already-ran',
    });
  });

  test('a process that parks is told once when the resource is free and nobody waits', async () => {
    const { manager, clock, other } = bench();
    const holder = await other().acquire('r');
    const free: string[] = [];
    manager.on('free', ({ resource }) => free.push(resource));
    await manager.run('warm-up', () => 1);
    await clock.advanceAsync(0);
    expect(await manager.tryAcquire('r', { park: true })).toMatchObject({ acquired: false });
    await holder.release();
    await clock.advanceAsync(0);
    expect(free).toEqual(['r']);
    await (await other().acquire('r')).release();
    await clock.advanceAsync(0);
    expect(free).toEqual(['r']);
  });
});

describe('revoke', () => {
  test('cancels the owner at once by message; nobody enters before it has released', async () => {
    const { manager, clock, other, events } = bench();
    const operator = other();
    const wound = deferred();
    const ran = manager.run('r', async (lease: Lease) => {
      await new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
      lease.assertHeld();
      await wound.promise;
      return lease.signal.reason as unknown;
    });
    await clock.advanceAsync(10);
    expect(await operator.revoke('r', { operator: 'ann', reason: 'INC-1' })).toMatchObject({ outcome: 'revoked' });
    await clock.advanceAsync(0);
    expect(events).toEqual(['acquired', 'cancelled']);
    expect(await operator.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
    wound.resolve();
    expect(await ran).toMatchObject({ code: 'RUN_CANCELLED', reason: 'revoked' });
    expect(await operator.tryAcquire('r')).toMatchObject({ acquired: true });
    expect((await operator.history('r')).find(({ event }) => event === 'revoked')).toMatchObject({
      detail: 'ann: INC-1',
    });
  });

  test('without messages within a refresh interval; an owner that ignores it is out when its ttl has passed', async () => {
    const { manager, clock, store, other, events } = bench();
    const operator = other();
    const lease = await manager.acquire('r');
    const { signal } = lease;
    await clock.advanceAsync(10);
    store.deaf = true;
    expect(await operator.revoke('r')).toMatchObject({ outcome: 'revoked' });
    await clock.advanceAsync(100);
    expect(signal.aborted).toBe(false);
    await clock.advanceAsync(900);
    expect(signal.reason).toMatchObject({ reason: 'revoked' });
    expect(lease.isHeld()).toBe(true);
    await clock.advanceAsync(TTL_MS);
    expect(lease.isHeld()).toBe(false);
    expect(await operator.tryAcquire('r')).toMatchObject({ acquired: true });
    expect(events).toEqual(['acquired', 'cancelled', 'lost']);
    expect(await lease.release()).toBe('lost');
  });

  test('names what there was to revoke, and never ends the lease of another', async () => {
    const { manager, clock, other, memory } = bench();
    const operator = other();
    expect(await operator.revoke('r')).toMatchObject({ outcome: 'free' });
    const old = await manager.acquire('r');
    await old.release();
    expect(await operator.revoke('r')).toMatchObject({ outcome: 'free' });
    expect(await operator.revoke('r', { leaseId: old.leaseId })).toMatchObject({ outcome: 'free' });
    const again = await manager.acquire('r');
    expect(await operator.revoke('r', { leaseId: old.leaseId })).toMatchObject({ outcome: 'superseded' });
    await clock.advanceAsync(1500);
    expect(again.signal.aborted).toBe(false);
    memory.flush();
    expect(await operator.revoke('r')).toMatchObject({ outcome: 'free' });
    await crashedOwnerOf('x', memory);
    await clock.advanceAsync(TTL_MS + 1);
    expect(await operator.revoke('x')).toMatchObject({ outcome: 'expired' });
  });
});

describe('a hand-over', () => {
  test('ends here without aborting anything, and goes on there with a larger token', async () => {
    const { manager, clock, other, events } = bench();
    const adopter = other();
    let lease: Lease | undefined;
    const ticket = await manager.run('r', async (held) => {
      lease = held;
      return held.handOver();
    });
    expect(lease?.signal.aborted).toBe(false);
    expect(lease?.isHeld()).toBe(false);
    expect(() => lease?.assertHeld()).toThrow(/handed-over/);
    expect(await lease?.release()).toBe('lost');
    expect(events).toEqual(['acquired']);
    const adopted = await adopter.adopt(JSON.parse(JSON.stringify(ticket)));
    expect(adopted.fencingToken).toBeGreaterThan(ticket.fencingToken);
    expect(adopted.leaseId).not.toBe(ticket.leaseId);
    await clock.advanceAsync(TTL_MS * 3);
    expect(adopted.isHeld()).toBe(true);
    expect(await adopted.release()).toBe('released');
    expect(await manager.tryAcquire('r')).toMatchObject({ acquired: true });
  });

  test('is trusted from before the request of its adopter was sent, however late the answer is', async () => {
    const { manager, clock, store } = bench();
    const ticket = await (await manager.acquire('r')).handOver();
    store.once('adopt', { request: 40, reply: 60 });
    const adopting = manager.adopt(ticket);
    await clock.advanceAsync(100);
    const adopted = await adopting;
    // The whole window less all that passed since it was sent.
    expect(adopted.remainingMs()).toBeLessThanOrEqual(TTL_MS * 0.99 - 150 - 100);
  });

  test('has one adopter, and none after the ttl', async () => {
    const { manager, clock, other } = bench();
    const ticket = await (await manager.acquire('r')).handOver();
    const both = await Promise.all([outcomeOf(other().adopt(ticket)), outcomeOf(other().adopt(ticket))]);
    expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'LEASE_LOST', reason: 'superseded' },
    });
    const late = await (await manager.acquire('s')).handOver();
    await clock.advanceAsync(TTL_MS + 1);
    expect(await outcomeOf(other().adopt(late))).toMatchObject({ reason: { code: 'LEASE_LOST', reason: 'expired' } });
  });

  test('with the store silent throws, and the lease goes on', async () => {
    const { manager, clock, store } = bench();
    const lease = await manager.acquire('r');
    store.once('extend', { request: 'lost' });
    const outcome = outcomeOf(lease.handOver());
    await clock.advanceAsync(700);
    expect(await outcome).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE' } });
    await clock.advanceAsync(10_000);
    expect(lease.isHeld()).toBe(true);
    expect(await lease.release()).toBe('released');
  });

  test('whose answer is lost is asked for again with the same leaseId, also after a reconnection', async () => {
    const { manager, clock, store, other } = bench();
    for (const name of ['lost', 'reset']) {
      const ticket = await (await other().acquire(name)).handOver();
      const calls = store.calls.adopt;
      store.once(
        'adopt',
        name === 'lost' ? { reply: 'lost' } : { reply: new StoreUnavailableError('reset', { mayHaveRun: true }) },
      );
      const adopted = manager.adopt(ticket);
      await clock.advanceAsync(name === 'lost' ? 1200 : 10);
      store.reconnect();
      await clock.advanceAsync(0);
      expect((await adopted).isHeld()).toBe(true);
      expect(store.calls.adopt - calls).toBe(2);
    }
  });

  test('that stays without an answer is taken back, and may have been carried out', async () => {
    const { manager, clock, store, other, memory } = bench();
    const ticket = await (await other().acquire('r')).handOver();
    store.once('adopt', { reply: new StoreUnavailableError('reset', { mayHaveRun: true }) });
    store.set('adopt', { reply: new StoreUnavailableError('down', { mayHaveRun: false }) });
    const outcome = outcomeOf(manager.adopt(ticket));
    await clock.advanceAsync(2000);
    expect(await outcome).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE', mayHaveRun: true } });
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('heeds the signal of the adopter', async () => {
    const { manager, clock, store, other, memory } = bench();
    const first = await (await other().acquire('r')).handOver();
    const aborted = { signal: AbortSignal.abort() };
    expect(await outcomeOf(manager.adopt(first, aborted))).toMatchObject({ reason: { code: 'RUN_CANCELLED' } });
    expect(store.calls.adopt).toBe(0);
    const controller = new AbortController();
    store.once('adopt', { reply: 300 });
    const late = outcomeOf(manager.adopt(first, { signal: controller.signal }));
    await clock.advanceAsync(100);
    controller.abort();
    await clock.advanceAsync(300);
    expect(await late).toMatchObject({ reason: { code: 'RUN_CANCELLED', reason: 'caller' } });
    expect(await memory.read('r', { timeoutMs: 10 })).toMatchObject({ state: 'free' });
  });

  test('of a lease that is to end is refused', async () => {
    const { manager, clock } = bench();
    const lease = await manager.acquire('r', { maxHold: '5s' });
    await clock.advanceAsync(5100);
    expect(await outcomeOf(lease.handOver())).toMatchObject({ reason: { code: 'RUN_CANCELLED', reason: 'max-hold' } });
  });

  test('takes a ticket and nothing else', async () => {
    const { manager, other } = bench();
    const ticket = await (await manager.acquire('r')).handOver();
    for (const bad of [
      null,
      'ticket',
      {},
      { ...ticket, v: 2 },
      { ...ticket, namespace: 'other' },
      { ...ticket, x: 1 },
    ]) {
      expect(await outcomeOf(other().adopt(bad as never))).toMatchObject({
        reason: { code: 'CONFIG', option: 'ticket' },
      });
    }
    expect((await other().adopt(ticket)).isHeld()).toBe(true);
  });
});

describe('reading', () => {
  test('lists what there is, tells its history and the ticks of a job', async () => {
    const { manager, clock } = bench({ history: 'all' });
    const held = await manager.acquire('held');
    await manager.run('free', () => 1);
    const states = new Map<string, string>();
    for await (const info of manager.list()) states.set(info.resource, info.state);
    expect(Object.fromEntries(states)).toEqual({ held: 'held', free: 'free' });
    expect((await manager.history('free')).map(({ event }) => event)).toEqual(['released', 'acquired']);
    expect(await manager.history('never')).toEqual([]);
    for (const bad of [null, { limits: 1 }, { limit: '5' }, { limit: 0 }]) {
      expect(await outcomeOf(manager.history('free', bad as never))).toMatchObject({ reason: { code: 'CONFIG' } });
    }
    const at = clock.wallMs();
    await manager.run('nightly', { tick: { job: 'nightly', at } }, () => 1);
    await clock.advanceAsync(1000);
    await manager
      .run('nightly', { tick: { job: 'nightly', at: at + 1000 } }, () => Promise.reject(new Error('no')))
      .catch(() => {});
    expect(await manager.runs('nightly')).toMatchObject([
      { tick: new Date(at + 1000), status: 'failed' },
      { tick: new Date(at), status: 'done' },
    ]);
    await held.release();
  });

  test('never says free when the store cannot be asked', async () => {
    const { manager, clock, store } = bench();
    store.partition();
    const outcomes = Promise.all(
      [manager.inspect('r'), manager.history('r'), manager.runs('r'), manager.revoke('r')].map(outcomeOf<unknown>),
    );
    await clock.advanceAsync(1000);
    for (const outcome of await outcomes) expect(outcome).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE' } });
  });
});

describe('quarantine', () => {
  test('a server that was seen to restart is waited out for a ttl, an old one is not', async () => {
    const { manager, clock, memory } = bench();
    const lease = await manager.acquire('r');
    memory.restart({ persistent: false });
    expect(await manager.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'quarantine', holder: null });
    expect(lease.isHeld()).toBe(true);
    await clock.advanceAsync(TTL_MS + 10);
    expect(await manager.tryAcquire('r')).toMatchObject({ acquired: true });
  });

  test('on a first connection only if told so', async () => {
    const { memory, clock, other } = bench();
    memory.restart({ persistent: false });
    const trusting = other();
    const careful = other({ quarantine: true });
    await clock.advanceAsync(10);
    expect(await careful.tryAcquire('a')).toMatchObject({ acquired: false, reason: 'quarantine' });
    expect(trusting).toBeDefined();
    await clock.advanceAsync(TTL_MS);
    expect(await careful.tryAcquire('a')).toMatchObject({ acquired: true });
  });
});
