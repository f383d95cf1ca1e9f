import { LeaseManager, MemoryLeaseStore, type Logger, type OwnerVitals } from '@leasehold/core';
import { FaultyStore, ManualClock } from '@leasehold/core/testing';
import { describe, expect, test } from 'vitest';

import type { ExtendItem } from '../../src/store/store.ts';
import { bench } from './setup.ts';

const REFRESH_MS = 1000;
/** ttl 3 s: a fortieth of it. */
const BEAT_MS = 75;

async function held(options: Parameters<typeof bench>[0] = {}) {
  const all = bench(options);
  const lease = await all.manager.acquire('r');
  return { ...all, lease };
}

async function written(manager: LeaseManager, resource = 'r'): Promise<OwnerVitals | undefined> {
  return (await manager.inspect(resource))?.identity?.vitals;
}

describe('a process measures', () => {
  test('nothing while it holds nothing, and with one timer that keeps no process alive while it does', async () => {
    const { manager, clock } = bench();
    expect(clock.timers).toEqual([]);
    expect(manager.vitals()).toEqual({
      ...{ worstPauseMs: 0, worstClockStepMs: 0, worstSuspendMs: 0, worstRoundTripMs: 0 },
      ...{ worstExtensionRatio: 0, failedExtensions: 0, clockOffsetMs: null, serverRunId: '' },
      measuredAt: new Date(clock.wallMs()).toISOString(),
    });
    const leases = await Promise.all(['a', 'b', 'c'].map((resource) => manager.acquire(resource)));
    const beats = clock.timers.filter(({ inMs }) => inMs === BEAT_MS);
    expect(beats).toEqual([{ inMs: BEAT_MS, ref: false }]);
    for (const lease of leases) await lease.release();
    await clock.advanceAsync(5 * REFRESH_MS);
    expect(clock.timers).toEqual([]);
    clock.block(2000);
    await clock.advanceAsync(2000);
    expect(manager.vitals().worstPauseMs).toBe(0);
    await manager.acquire('a');
    clock.block(500);
    clock.advance(0);
    expect(manager.vitals().worstPauseMs).toBeGreaterThan(400);
  });

  test('how long its event loop stood still, too short by at most a beat', async () => {
    const { manager, clock, lease } = await held();
    await clock.advanceAsync(200);
    expect(manager.vitals().worstPauseMs).toBe(0);
    for (const [pauseMs, worstMs] of [
      [800, 800],
      [300, 800],
      [1200, 1200],
    ] as const) {
      clock.block(pauseMs);
      await clock.advanceAsync(REFRESH_MS + 200);
      expect(manager.vitals().worstPauseMs).toBeGreaterThanOrEqual(worstMs - BEAT_MS);
      expect(manager.vitals().worstPauseMs).toBeLessThanOrEqual(worstMs);
    }
    expect(lease.isHeld()).toBe(true);
    expect(manager.vitals()).toMatchObject({ worstClockStepMs: 0, worstSuspendMs: 0 });
    expect((await written(manager))?.worstPauseMs).toBeCloseTo(manager.vitals().worstPauseMs, 3);
  });

  test('steps of its wall clock, either way, and that nothing stood still', async () => {
    const { manager, clock } = await held();
    clock.stepWall(15);
    await clock.advanceAsync(REFRESH_MS);
    expect(manager.vitals().worstClockStepMs).toBe(0);
    clock.stepWall(400);
    await clock.advanceAsync(2 * REFRESH_MS);
    clock.stepWall(-900);
    await clock.advanceAsync(2 * REFRESH_MS);
    expect(manager.vitals()).toMatchObject({ worstClockStepMs: 900, worstPauseMs: 0, worstSuspendMs: 0 });
    expect(await written(manager)).toMatchObject({ worstClockStepMs: 900 });
  });

  test('that its machine was suspended, which is neither a pause nor a step', async () => {
    const { manager, clock } = await held();
    await clock.advanceAsync(300);
    clock.suspend(1500);
    await clock.advanceAsync(200);
    expect(manager.vitals()).toMatchObject({ worstSuspendMs: 1500, worstClockStepMs: 0, worstPauseMs: 0 });
  });

  test('round trips, without what it slept through meanwhile', async () => {
    const { manager, clock, store } = await held();
    store.set('extend', { reply: 120 });
    await clock.advanceAsync(REFRESH_MS + 200);
    expect(manager.vitals()).toMatchObject({ worstRoundTripMs: 120, worstPauseMs: 0 });
    const sent = store.next('extend', 'sent');
    // Its answer comes 120 ms later.
    await clock.advanceAsync(REFRESH_MS - 180);
    await sent;
    clock.block(400);
    await clock.advanceAsync(200);
    const { worstPauseMs, worstRoundTripMs } = manager.vitals();
    expect(worstPauseMs).toBeGreaterThan(400 - BEAT_MS);
    expect(worstRoundTripMs).toBeLessThan(120 + BEAT_MS);
  });

  test('after what part of its ttl a lease was confirmed, and what had no answer', async () => {
    const { manager, clock, store } = await held();
    await clock.advanceAsync(10 * REFRESH_MS);
    const { worstExtensionRatio } = manager.vitals();
    expect(worstExtensionRatio).toBeGreaterThan(0.3);
    expect(worstExtensionRatio).toBeLessThan(0.36);
    store.partition();
    await clock.advanceAsync(2 * REFRESH_MS);
    store.heal();
    await clock.advanceAsync(2 * REFRESH_MS);
    const after = manager.vitals();
    expect(after.failedExtensions).toBeGreaterThan(0);
    expect(after.worstExtensionRatio).toBeGreaterThan(0.5);
    expect(await written(manager)).toMatchObject({ failedExtensions: after.failedExtensions });
  });

  test('by how much its clock is ahead of the store, from replies that came anyway, again after a step', async () => {
    const ours = new ManualClock();
    const theirs = new ManualClock({ startMs: ours.wallMs() + 5000 });
    const memory = new MemoryLeaseStore({ clock: theirs });
    const store = new FaultyStore(memory, { clock: ours });
    await using manager = new LeaseManager({ store, clock: ours, ttl: '3s' });
    const pass = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 20) {
        theirs.advance(20);
        await ours.advanceAsync(20);
      }
    };
    await using lease = await manager.acquire('r');
    expect(manager.vitals().clockOffsetMs).toBeNull();
    store.once('extend', { reply: 40 });
    await pass(REFRESH_MS + 60);
    expect(manager.vitals().clockOffsetMs).toBeGreaterThan(-5041);
    expect(manager.vitals().clockOffsetMs).toBeLessThan(-4959);
    // One that is exact, and after the step one that is less so.
    await pass(REFRESH_MS);
    expect(manager.vitals().clockOffsetMs).toBeGreaterThan(-5021);
    expect(manager.vitals().clockOffsetMs).toBeLessThan(-4999);
    ours.stepWall(-700);
    store.once('extend', { reply: 40 });
    await pass(REFRESH_MS + 60);
    expect(manager.vitals().clockOffsetMs).toBeGreaterThan(-5741);
    expect(manager.vitals().clockOffsetMs).toBeLessThan(-5659);
    expect(store.calls).toMatchObject({ acquire: 1, read: 0 });
    expect(lease.isHeld()).toBe(true);
  });

  test('no offset of a clock that was set while the answer was on its way, and none that is older than ten minutes', async () => {
    const { manager, clock, store, lease } = await held({ ttl: '60s' });
    store.once('extend', { reply: 40 });
    const sent = store.next('extend', 'sent');
    await clock.advanceAsync(20_000 + 10);
    await sent;
    clock.stepWall(5000);
    await clock.advanceAsync(100);
    expect(manager.vitals().clockOffsetMs).toBeNull();
    await clock.advanceAsync(20_000);
    // The store of this test follows the same clock.
    expect(manager.vitals().clockOffsetMs).toBeCloseTo(0, 0);
    await lease.release();
    const long = await manager.acquire('long', { ttl: '2h' });
    await clock.advanceAsync(9 * 60_000);
    expect(manager.vitals().clockOffsetMs).not.toBeNull();
    await clock.advanceAsync(2 * 60_000);
    expect(manager.vitals().clockOffsetMs).toBeNull();
    expect(long.isHeld()).toBe(true);
  });
});

describe('the record says so', () => {
  test('with the acquisition what was known then, and with extensions only what has changed noticeably, or each ten minutes', async () => {
    const { manager, clock, store } = await held();
    const items: ExtendItem[][] = [];
    const extend = store.extend.bind(store);
    store.extend = (batch, call) => {
      items.push([...batch]);
      return extend(batch, call);
    };
    await manager.acquire('another');
    expect(await written(manager, 'another')).toMatchObject({ worstPauseMs: 0 });
    await clock.advanceAsync(5 * REFRESH_MS);
    items.length = 0;
    await clock.advanceAsync(31 * 60_000);
    const count = items.flat().length;
    const writing = items.flat().filter(({ ownerJson }) => ownerJson !== undefined);
    expect(count).toBeGreaterThan(3400);
    expect(writing).toHaveLength(6);
    clock.block(700);
    await clock.advanceAsync(2.5 * REFRESH_MS);
    for (const resource of ['r', 'another']) {
      expect((await written(manager, resource))?.worstPauseMs).toBeGreaterThan(700 - BEAT_MS);
    }
  });

  test('the server was restarted: at the next extension', async () => {
    const { manager, clock, memory } = await held();
    await clock.advanceAsync(2 * REFRESH_MS);
    expect(await written(manager)).toMatchObject({ serverRunId: '1' });
    memory.restart({ persistent: true });
    await clock.advanceAsync(REFRESH_MS);
    expect(await written(manager)).toMatchObject({ serverRunId: '2' });
  });

  test('the next extension tells of a pause, although it is due before the beat that measures it', async () => {
    const { manager, clock, store } = await held({ ttl: '20s' });
    // The first extensions have news of their own. Beats each 250 ms, an extension each 6664 or a little less.
    await clock.advanceAsync(19_900);
    expect(store.calls.extend).toBe(2);
    const [sooner, later] = clock.timers.map(({ inMs }) => inMs).toSorted((a, b) => a - b) as [number, number];
    expect([sooner, later]).toEqual([expect.closeTo(88, -1), 100]);
    clock.block(3000);
    await clock.advanceAsync(0);
    expect(store.calls.extend).toBe(3);
    expect(await written(manager)).toMatchObject({ worstPauseMs: 2900 });
  });

  test('a pause at the end of one lease is told with the acquisition of the next', async () => {
    const { manager, clock, lease } = await held();
    await clock.advanceAsync(5 * REFRESH_MS);
    clock.block(800);
    await lease.release();
    await clock.advanceAsync(5 * REFRESH_MS);
    await manager.acquire('next');
    expect((await written(manager, 'next'))?.worstPauseMs).toBeGreaterThan(800 - BEAT_MS);
  });

  test('of several requests for a lease, one of them without an answer, whichever was carried out: the first extension says it', async () => {
    const { manager, clock, store } = bench();
    await manager.acquire('first');
    await clock.advanceAsync(2 * REFRESH_MS);
    // Carried out with what was known then; the one that is answered says more.
    store.once('acquire', { reply: 'lost' });
    const lease = manager.acquire('r', { wait: '10s' });
    await clock.advanceAsync(20);
    clock.block(700);
    await clock.advanceAsync(1000);
    expect((await lease).isHeld()).toBe(true);
    await clock.advanceAsync(1.5 * REFRESH_MS);
    expect((await written(manager))?.worstPauseMs).toBeGreaterThan(600);
  });

  test('in the words of the manager that holds it, although all of one store are extended together', async () => {
    const clock = new ManualClock();
    const store = new MemoryLeaseStore({ clock });
    const [one, two] = ['one', 'two'].map((owner) => new LeaseManager({ store, clock, ttl: '3s', owner }));
    await one?.acquire('r1');
    await two?.acquire('r2');
    clock.block(600);
    await clock.advanceAsync(2 * REFRESH_MS);
    for (const [resource, name] of [
      ['r1', 'one'],
      ['r2', 'two'],
    ] as const) {
      const info = await one?.inspect(resource);
      expect(info?.identity?.name).toBe(name);
      expect(info?.identity?.vitals?.worstPauseMs).toBeGreaterThan(500);
    }
  });

  test('a write that had no answer is written again', async () => {
    const { manager, clock, store } = await held();
    // So many failures, two of them so long, that one more is no news itself.
    for (let failures = 0; failures < 2; failures++) store.once('extend', { request: 'lost' });
    await clock.advanceAsync(5 * REFRESH_MS);
    for (let failures = 0; failures < 10; failures++) store.once('extend', { reply: new Error('no answer') });
    await clock.advanceAsync(5 * REFRESH_MS);
    expect(manager.vitals().failedExtensions).toBe(12);
    clock.block(500);
    store.once('extend', { request: 'lost' });
    await clock.advanceAsync(2.5 * REFRESH_MS);
    expect(manager.vitals().failedExtensions).toBe(13);
    expect((await written(manager))?.worstPauseMs).toBeGreaterThan(400);
  });

  test.each([
    ['a text', '"none"'],
    ['a list', '[1,2,3,4,5,6,7,8,9]'],
    ['one figure', '{"worstPauseMs":5}'],
    ['a figure that is none', '{"worstPauseMs":"<script>"}'],
    ['null', 'null'],
    ['a negative one', '{"worstPauseMs":-1}'],
    ['one beyond all numbers', '{"worstPauseMs":1e999}'],
  ])('what does not look like vitals is none: %s', async (_, vitals) => {
    const { manager, memory } = await held();
    const good = manager.vitals();
    const given = vitals.startsWith('{"worst') && vitals.length > 20 ? { ...good, ...JSON.parse(vitals) } : undefined;
    const json = given === undefined ? vitals : JSON.stringify(given);
    memory.edit('r', { ownerJson: `{"name":"x","vitals":${json}}` });
    expect(await written(manager)).toBeUndefined();
    expect((await manager.inspect('r'))?.identity?.name).toBe('x');
    memory.edit('r', { ownerJson: JSON.stringify({ name: 'x', vitals: good }) });
    expect(await written(manager)).toEqual(good);
  });
});

describe('a standstill near the trust window', () => {
  function listening() {
    const said: { fields: Record<string, unknown>; message: string }[] = [];
    const nothing = (): void => {};
    const logger: Logger = {
      ...{ debug: nothing, info: nothing, error: nothing },
      warn: (fields, message) => said.push({ fields: fields as Record<string, unknown>, message }),
    };
    return { said, logger };
  }

  test('is warned of once, then at most each ten minutes, with what to do', async () => {
    const { said, logger } = listening();
    const { clock } = await held({ logger });
    const pause = async (ms: number): Promise<void> => {
      await clock.advanceAsync(2 * REFRESH_MS);
      clock.block(ms);
      await clock.advanceAsync(100);
    };
    await pause(1200);
    expect(said).toEqual([]);
    await pause(1700);
    expect(said).toHaveLength(1);
    expect(said[0]?.fields).toMatchObject({ windowMs: 2820, ttlMs: 3000, shortestTtlMs: expect.any(Number) });
    expect(said[0]?.fields['pauseMs']).toBeGreaterThan(1600);
    expect(said[0]?.message).toMatch(/stood still for 1[67]\d\d ms.*trusted for 2820 ms.*raise ttl to \d{4} ms/);
    await pause(1800);
    expect(said).toHaveLength(1);
    await clock.advanceAsync(10 * 60_000);
    await pause(1700);
    expect(said).toHaveLength(2);
  });

  test('is warned of whatever a store of somebody else tells of itself', async () => {
    const { said, logger } = listening();
    const { manager, clock, store } = bench({ logger });
    const extend = store.extend.bind(store);
    store.extend = (items, call) => extend(items, { ...call, told: () => call.told?.(Number.NaN) });
    Object.defineProperty(store, 'server', { value: { ageMs: 0, restarted: false, runId: 'no run of ours' } });
    await manager.acquire('r');
    await clock.advanceAsync(2 * REFRESH_MS);
    clock.block(1700);
    await clock.advanceAsync(100);
    expect(said).toHaveLength(1);
    expect(manager.vitals().clockOffsetMs).toBeNull();
    expect(manager.adviseTiming().shortestTtlMs).toBeGreaterThan(5000);
  });

  test('of the shortest lease that is held; and not after the manager was closed', async () => {
    const { said, logger } = listening();
    const { clock, store, manager, lease } = await held({ logger, ttl: '60s' });
    const other = new LeaseManager({ store, clock, ttl: '60s' });
    const lasting = await other.acquire('other');
    const short = await manager.acquire('short', { ttl: '3s' });
    clock.block(2000);
    await clock.advanceAsync(300);
    expect(said.map(({ fields }) => fields['windowMs'])).toEqual([2820]);
    await short.release();
    await lease.release();
    await manager.close();
    await clock.advanceAsync(11 * 60_000);
    clock.block(50_000);
    await clock.advanceAsync(300);
    expect(other.vitals().worstPauseMs).toBeGreaterThan(49_000);
    expect(said).toHaveLength(1);
    expect(lasting.isHeld()).toBe(true);
  });
});
