import { MemoryFence, type AcquireOptions, type Lease, type Refusal, type TickRefusedError } from '@leasehold/core';
import { describe, expect, test } from 'vitest';

import { bench, deferred, outcomeOf, rejectionOf } from './setup.ts';

const fail = (): never => {
  throw new Error('no');
};

describe('a lease that was acquired with a tick', () => {
  test('says what it has claimed, one without says nothing', async () => {
    const { manager, clock } = bench();
    const at = clock.wallMs() - 500;
    const tickOf = (lease: Lease): Lease['tick'] => lease.tick;
    expect(await manager.run('r', tickOf)).toBeNull();
    const tick = { job: 'nightly', at, retry: 1 };
    expect(await rejectionOf(manager.run('r', { tick }, fail))).toMatchObject({ message: 'no' });
    expect(await manager.run('r', { tick }, tickOf)).toEqual({ job: 'nightly', at: new Date(at), attempt: 2 });
    expect(await manager.runs('nightly', { resource: 'r' })).toMatchObject([
      { tick: new Date(at), attempt: 2, status: 'done' },
      { tick: new Date(at), attempt: 1, status: 'failed' },
    ]);
    const triggered = await manager.run('r', { tick: { job: 'by-hand', minHold: '1m' } }, tickOf);
    expect(triggered).toEqual({ job: 'by-hand', at: new Date(Math.floor(clock.wallMs())), attempt: 1 });
  });

  test('says so too if the answer to its first request was lost', async () => {
    const { manager, clock, store } = bench();
    store.once('acquire', { reply: 'lost' });
    const acquired = manager.acquire('r', { tick: { job: 'j', minHold: '1m' }, wait: '2s' });
    await clock.advanceAsync(2000);
    expect((await acquired).tick).toMatchObject({ job: 'j', attempt: 1 });
  });

  test('keeps its attempt in other hands, also above a fence that has seen more', async () => {
    const { manager, clock, other } = bench();
    const at = clock.wallMs();
    const tick = { job: 'nightly', at, retry: 1 };
    await manager.run('r', { tick }, fail).catch(() => {});
    const given = await manager.acquire('r', { tick, retention: '10m' });
    const ticket = await given.handOver();
    expect(ticket).toMatchObject({ job: 'nightly', retentionMs: 600_000 });
    const ledger = new MemoryFence({ clock });
    await ledger.seal('leasehold/r', clock.wallUs() + 60_000_000);
    const adopted = await other().adopt(ticket, { fences: [ledger] });
    expect(adopted.tick).toEqual({ job: 'nightly', at: new Date(at), attempt: 2 });
    expect(adopted.tick).toEqual(given.tick);
    await adopted.release();
    expect((await manager.runs('nightly', { resource: 'r' }))[0]).toMatchObject({ status: 'done', attempt: 2 });
  });
});

describe('who waits for the same tick', () => {
  const standby = (at: number): AcquireOptions => ({ tick: { job: 'nightly', at, retry: 1 }, wait: '1m' });

  test('runs it when the run before fails, as the second attempt', async () => {
    const { manager, clock, other } = bench();
    const gate = deferred();
    const first = outcomeOf(manager.run('r', standby(clock.wallMs()), () => gate.promise.then(fail)));
    await clock.advanceAsync(10);
    const second = other().run('r', standby(clock.wallMs() - 10), (lease) => lease.tick?.attempt);
    await clock.advanceAsync(1000);
    gate.resolve();
    await clock.advanceAsync(100);
    expect(await first).toMatchObject({ status: 'rejected' });
    expect(await second).toBe(2);
  });

  test('is told that it ran when the run before is done', async () => {
    const { manager, clock, other } = bench();
    const gate = deferred();
    const first = manager.run('r', standby(clock.wallMs()), () => gate.promise);
    await clock.advanceAsync(10);
    const second = other().tryRun('r', standby(clock.wallMs() - 10), () => 'ran twice');
    await clock.advanceAsync(1000);
    gate.resolve();
    await clock.advanceAsync(100);
    await first;
    expect(await second).toMatchObject({ ran: false, reason: 'already-ran' });
  });

  test('runs it when the process of the run before is gone', async () => {
    const { manager, clock, other, store } = bench();
    const at = clock.wallMs();
    await manager.acquire('r', standby(at));
    const second = other().run('r', standby(at), (lease) => lease.tick?.attempt);
    store.partition();
    await clock.advanceAsync(5000);
    expect(await second).toBe(2);
  });
});

describe('a refusal', () => {
  /** Whole milliseconds: readings of the clock of these tests are a microsecond apart. */
  const whole = <T extends { aheadMs: number | null; remainingMs: number }>(refusal: T): T => ({
    ...refusal,
    aheadMs: refusal.aheadMs === null ? null : Math.round(refusal.aheadMs),
    remainingMs: Math.round(refusal.remainingMs),
  });

  test('tells how far the tick lies from the clock of the store: as a value, an error and an event', async () => {
    const { manager, clock } = bench();
    const heard: unknown[] = [];
    manager.on('tickRefused', (event) => heard.push(whole(event)));
    const now = clock.wallMs();
    const late = { tick: { job: 'j', at: now - 600_000 } };
    const tooLate = { reason: 'too-late', aheadMs: -600_000, remainingMs: 0 };
    const ahead = { reason: 'clock-ahead', aheadMs: 60_000, remainingMs: 60_000 };
    expect(whole((await manager.tryRun('r', late, () => 1)) as Refusal)).toMatchObject(tooLate);
    const error = (await rejectionOf(manager.acquire('r', late))) as TickRefusedError;
    expect(error.message).toMatch(/^TICK_REFUSED r: too-late: 600000 ms/);
    const { code, reason, aheadMs, remainingMs } = error;
    expect(whole({ code, reason, aheadMs, remainingMs })).toEqual({ code: 'TICK_REFUSED', ...tooLate });
    const early = await manager.tryRun('r', { tick: { job: 'j', at: now + 60_000 } }, () => 1);
    expect(whole(early as Refusal)).toMatchObject(ahead);
    const of = { resource: 'r', job: 'j' };
    expect(heard).toEqual([
      { ...of, ...tooLate },
      { ...of, ...tooLate },
      { ...of, ...ahead },
    ]);
  });

  test('of a run without a schedule tells when the next one may begin, also after a crash', async () => {
    const { manager, clock, other, store } = bench();
    const tick = { job: 'j', minHold: '10m' } as const;
    await manager.acquire('r', { tick });
    store.partition();
    await clock.advanceAsync(60_000);
    const refusal = await other().tryRun('r', { tick }, () => 1);
    const expected = { ran: false, reason: 'already-ran', aheadMs: -60_000, remainingMs: 540_000, holder: null };
    expect(whole(refusal as Refusal)).toEqual(expected);
    await clock.advanceAsync(540_000);
    expect(await other().tryAcquire('r', { tick })).toMatchObject({ acquired: true, lease: { tick: { attempt: 1 } } });
  });

  test('as busy names the job of the holder: as a value, an error and an event', async () => {
    const { manager, clock, other } = bench();
    const heard: unknown[] = [];
    manager.on('busy', ({ holder }) => heard.push(holder?.job));
    await other().acquire('r', { tick: { job: 'nightly', at: clock.wallMs() } });
    await other().acquire('s');
    expect(await manager.tryAcquire('r')).toMatchObject({ aheadMs: null, holder: { job: 'nightly' } });
    expect(await rejectionOf(manager.acquire('r'))).toMatchObject({ holder: { job: 'nightly' } });
    expect(await manager.tryAcquire('s')).toMatchObject({ aheadMs: null, holder: { job: null } });
    expect(heard).toEqual(['nightly', 'nightly', null]);
  });
});

describe('retention', () => {
  test('goes to the store with the claim, the release and what is taken back', async () => {
    const { manager, clock, store } = bench();
    const options = { tick: { job: 'j', at: clock.wallMs() }, retention: '10m' } as const;
    const asked = [store.next('acquire', 'sent'), store.next('release', 'sent')] as const;
    await manager.run('r', options, () => 1);
    for (const request of asked) expect(await request).toMatchObject({ retentionMs: 600_000 });
    store.once('acquire', { reply: 'lost' });
    const cancelled = store.next('cancel', 'sent');
    const lost = outcomeOf(manager.acquire('s', options));
    await clock.advanceAsync(2000);
    expect(await lost).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE' } });
    expect(await cancelled).toMatchObject({ retentionMs: 600_000 });
  });

  test('leaves nothing of many resources that were used once', async () => {
    const { manager, memory, clock } = bench();
    const names = async (): Promise<number> => {
      let count = 0;
      for await (const _ of memory.list({ timeoutMs: 100 })) count++;
      return count;
    };
    await manager.run('kept', () => 1);
    for (let index = 0; index < 50; index++) await manager.run(`once ${index}`, { retention: '1m' }, () => 1);
    expect(await names()).toBe(51);
    await clock.advanceAsync(60_000);
    expect(await names()).toBe(1);
  });
});

describe('options that cannot work', () => {
  const at = Date.UTC(2026, 0, 15, 3);
  test.each([
    [{ tick: { job: 'j' } }, /^CONFIG: tick\.at: is missing; give the instant of the schedule, or minHold/],
    [{ tick: { job: 'j', at, minHold: '1m' } }, /^CONFIG: tick\.at: is \d+: does not go with minHold/],
    [
      { tick: { job: 'j', minHold: '1m', startingDeadline: '1m' } },
      /^CONFIG: tick\.startingDeadline: is 60000: does not/,
    ],
    [{ tick: { job: 'j', minHold: '1m', maxAhead: 0 } }, /^CONFIG: tick\.maxAhead: is 0: does not go with minHold/],
    [{ tick: { job: 'j', minHold: 0 } }, /^CONFIG: tick\.minHold: is 0: must be above 0 and at most 365 d/],
    [{ tick: { job: 'j', minHold: Infinity } }, /^CONFIG: tick\.minHold: is Infinity: must be above 0/],
    [{ tick: { job: 'j', minHold: '366d' } }, /^CONFIG: tick\.minHold: is "366d": must be above 0/],
    [{ tick: { job: 'j', at, retry: true } }, /^CONFIG: tick\.retry: is true: must be a whole number, 0 to 100/],
    [{ tick: { job: 'j', at, retry: -1 } }, /^CONFIG: tick\.retry: is -1: must be a whole number/],
    [{ tick: { job: 'j', at, retry: 0.5 } }, /^CONFIG: tick\.retry: is 0\.5: must be a whole number/],
    [{ tick: { job: 'j', at, retry: 101 } }, /^CONFIG: tick\.retry: is 101: must be a whole number/],
    [{ tick: { job: 'j', at, retry: Number.NaN } }, /^CONFIG: tick\.retry: is NaN: must be a whole number/],
    [{ retention: '59s' }, /^CONFIG: retention: is "59s": must be 1 min to 365 d/],
    [{ retention: '366d' }, /^CONFIG: retention: is "366d": must be 1 min to 365 d/],
    [{ retention: Infinity }, /^CONFIG: retention: is Infinity: must be 1 min to 365 d/],
    [
      { tick: { job: 'j', at }, retention: 302_000 },
      /^CONFIG: retention: is 302000 ms: must be longer than .*maxAhead/,
    ],
    [
      { tick: { job: 'j', minHold: '1h' }, retention: '1h' },
      /^CONFIG: retention: is 3600000 ms: .* minHold, 3600000 ms/,
    ],
  ])('%j', async (options, message) => {
    const { manager, store } = bench();
    expect((await rejectionOf(manager.acquire('r', options as AcquireOptions))) as Error).toMatchObject({
      code: 'CONFIG',
      message: expect.stringMatching(message) as string,
    });
    expect(store.calls.acquire).toBe(0);
  });

  test('are accepted at the edges of what works', () => {
    const { manager } = bench();
    for (const options of [
      { tick: { job: 'j', at, retry: 100 } },
      { tick: { job: 'j', minHold: '365d' } },
      { tick: { job: 'j', minHold: 1, retry: 0 } },
      { tick: { job: 'j', at }, retention: 302_001 },
      { retention: '1m' },
      { retention: '365d' },
    ] as const) {
      manager.checkOptions(options);
    }
    expect(manager.namespace).toBe('leasehold');
  });
});
