import { FenceUnavailableError, MemoryFence, type LeaseholdError } from '@leasehold/core';
import { DelayedError } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Election } from '../src/election.ts';
import { fakeJob } from './fake-job.ts';
import { aborted, Town, TTL_MS } from './office.ts';

describe('standing', () => {
  it('is in turn: the others wait, and the first of them follows at once', async () => {
    const town = new Town();
    const [first, second, third] = [town.worker(), town.worker(), town.worker()];
    await first.elected();
    void second.candidate.start();
    await town.clock.advanceAsync(1);
    void third.candidate.start();
    await town.clock.advanceAsync(1);
    const asked = second.store.calls.acquire + third.store.calls.acquire;
    expect([second.log, third.log]).toEqual([[], []]);
    await Promise.all([second.heard('elected'), first.candidate.close(false)]);
    expect(third.log).toEqual([]);
    await Promise.all([third.heard('elected'), second.candidate.close(false)]);
    expect(second.store.calls.acquire + third.store.calls.acquire - asked).toBeLessThanOrEqual(4);
    await third.candidate.close(false);
    expect(first.log).toEqual(['elected', 'run', 'pause', 'stepped down shutdown']);
  });

  it('is refused to one who stands already, as BullMQ refuses to run twice', async () => {
    const worker = new Town().worker();
    await worker.elected();
    await expect(worker.candidate.start()).rejects.toThrow('Worker is already running.');
    expect(worker.candidate.isStanding).toBe(true);
  });

  it('begins when its user starts it, resumes it, and not while it is paused', async () => {
    const worker = new Town().worker();
    expect(worker.candidate.isStanding).toBe(false);
    await worker.candidate.pause();
    // As BullMQ's run.
    await worker.candidate.start();
    expect(worker.candidate.isStanding).toBe(false);
    const elected = worker.heard('elected');
    worker.candidate.resume();
    await elected;
    expect(worker.engine.fetches).toBe(true);
    expect(worker.log).toEqual(['pause', 'elected', 'run']);
  });

  it('ends when the worker is paused or closed meanwhile, and leaves the line', async () => {
    const town = new Town();
    const [first, second, third] = [town.worker(), town.worker(), town.worker()];
    await first.elected();
    void second.candidate.start();
    const stood = third.candidate.start();
    await town.clock.advanceAsync(1);
    await second.candidate.pause();
    await third.candidate.close(false);
    await stood;
    expect([second.candidate.isStanding, third.candidate.isStanding]).toEqual([false, false]);
    await first.candidate.close(false);
    await expect(first.manager.inspect('payments')).resolves.toMatchObject({ state: 'free', waiting: 0 });
    expect([second.log, third.log]).toEqual([['pause'], []]);
  });

  it('does not begin with an office that its user ended while it came', async () => {
    const worker = new Town().worker();
    const acquired = worker.store.next('acquire', 'ran');
    void worker.candidate.start();
    await acquired;
    await worker.candidate.pause();
    expect(worker.log).toEqual(['pause']);
    await expect.poll(async () => (await worker.manager.inspect('payments'))?.state).toBe('free');
  });

  it('begins again only when BullMQ has come to rest, but keeps nobody else waiting for that', async () => {
    const town = new Town();
    const [first, second] = [town.worker(), town.worker()];
    await first.elected();
    const asked = first.store.calls.acquire;
    let rested = (): void => {};
    first.engine.rest = new Promise((resolve) => (rested = resolve));
    const followed = second.heard('elected');
    void second.candidate.start();
    await town.clock.advanceAsync(1);
    await first.manager.revoke('payments');
    await town.clock.advanceAsync(TTL_MS / 3);
    await followed;
    await town.clock.advanceAsync(TTL_MS);
    expect(first.store.calls.acquire).toBe(asked);
    rested();
    await town.clock.advanceAsync(1);
    expect(first.store.calls.acquire).toBe(asked + 1);
    await Promise.all([first.candidate.close(false), second.candidate.close(false)]);
  });

  it('goes on when BullMQ cannot start: it gives the lease back, and stands again after a moment', async () => {
    const town = new Town();
    const worker = town.worker();
    worker.engine.failure = new Error('no connection');
    const begun = [worker.heard('elected'), worker.heard('run')];
    void worker.candidate.start();
    await Promise.all(begun);
    await worker.heard('elected');
    expect(worker.log.slice(0, 5)).toEqual(['elected', 'run', 'failed no', 'pause', 'stepped down caller']);
    expect(worker.engine.fetches).toBe(true);
    expect(worker.store.calls.release).toBe(1);
  });
});

describe('what its user does', () => {
  it('pausing lets jobs end undisturbed, takes no more, and gives the lease to another', async () => {
    const town = new Town();
    const [first, second] = [town.worker(), town.worker()];
    await first.elected();
    void second.candidate.start();
    let finish = (): void => {};
    const { ended } = await first.begin('1', async (signal) => {
      await new Promise<void>((resolve) => (finish = resolve));
      return signal.aborted;
    });
    const paused = first.candidate.pause();
    expect(first.candidate.isPaused).toBe(true);
    await town.clock.advanceAsync(2 * TTL_MS);
    expect(second.log).toEqual([]);
    await expect(first.run(fakeJob({ id: '2' }), () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    const followed = second.heard('elected');
    finish();
    await paused;
    expect(await ended).toBe(false);
    await followed;
    expect(first.candidate.isStanding).toBe(false);
  });

  it('paused, its jobs hear when the lease is revoked, so that one can be ended that would go on for ever', async () => {
    const town = new Town();
    const [first, second] = [town.worker({ abandonAfter: 20 }), town.worker()];
    await first.elected();
    void second.candidate.start();
    const quick = await first.begin('1', async (signal) => {
      throw await aborted(signal);
    });
    const { job, ended } = await first.begin('2', () => new Promise(() => {}));
    const paused = first.candidate.pause();
    const followed = second.heard('elected');
    await second.manager.revoke('payments');
    await town.clock.advanceAsync(TTL_MS / 3);
    expect([await quick.ended, await ended]).toEqual([expect.any(DelayedError), expect.any(DelayedError)]);
    expect(job.delays).toHaveLength(1);
    await paused;
    await town.clock.advanceAsync(2 * TTL_MS);
    await followed;
  });

  it('resuming in the middle of stepping down makes it stand again afterwards', async () => {
    const worker = new Town().worker();
    await worker.elected();
    let finish = (): void => {};
    const { ended } = await worker.begin('1', () => new Promise<void>((resolve) => (finish = resolve)));
    const paused = worker.candidate.pause();
    worker.candidate.resume();
    const again = worker.heard('elected');
    finish();
    await Promise.all([paused, ended, again]);
    expect(worker.log).toEqual(['elected', 'run', 'pause', 'stepped down caller', 'elected', 'run']);
  });

  it('pausing in the middle of stepping down keeps it from standing again', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    let finish = (): void => {};
    const { ended } = await worker.begin('1', () => new Promise<void>((resolve) => (finish = resolve)));
    await worker.manager.revoke('payments');
    await town.clock.advanceAsync(TTL_MS / 3);
    const paused = worker.candidate.pause();
    finish();
    await Promise.all([paused, ended]);
    expect(worker.log).toEqual(['elected', 'run', 'pause', 'stepped down revoked']);
    expect(worker.candidate.isStanding).toBe(false);
  });

  it('closing lets jobs go on for grace, then aborts them, puts them back, and only then gives the lease back', async () => {
    const town = new Town();
    const worker = town.worker({ grace: 30 });
    await worker.elected();
    const started = performance.now();
    let abortedAfterMs = 0;
    const { job, ended } = await worker.begin('1', async (signal) => {
      const reason = await aborted(signal);
      abortedAfterMs = performance.now() - started;
      expect(worker.store.calls.release).toBe(0);
      throw reason;
    });
    const leaseSignal = (job as unknown as { lease: { signal: AbortSignal } }).lease.signal;
    const closed = worker.candidate.close(false);
    expect(worker.candidate.close(true)).toBe(closed);
    expect(await ended).toBeInstanceOf(DelayedError);
    await closed;
    expect(abortedAfterMs).toBeGreaterThanOrEqual(29);
    expect(leaseSignal.aborted).toBe(true);
    expect(worker.store.calls.release).toBe(1);
    expect(worker.log).toEqual(['elected', 'run', 'pause', 'stepped down shutdown']);
    expect(worker.candidate.isStanding).toBe(false);
  });

  it('closing by force waits for no processor: its job is put back, its lease is left to run out', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    let finish = (): void => {};
    const { job, ended } = await worker.begin('1', () => new Promise<void>((resolve) => (finish = resolve)));
    const quick = await worker.begin('2', aborted);
    await worker.candidate.close(true);
    expect(await ended).toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
    expect(await quick.ended).toMatchObject({ code: 'RUN_CANCELLED', reason: 'shutdown' });
    await town.clock.advanceAsync(TTL_MS - 100);
    await expect(worker.manager.inspect('payments')).resolves.toMatchObject({ state: 'held' });
    await town.clock.advanceAsync(200);
    await expect(worker.manager.inspect('payments')).resolves.toMatchObject({ state: 'expired' });
    expect(worker.store.calls.release).toBe(0);
    finish();
  });

  it('closing by force gives an idle lease back at once', async () => {
    const worker = new Town().worker();
    await worker.elected();
    await worker.candidate.close(true);
    await expect(worker.manager.inspect('payments')).resolves.toMatchObject({ state: 'free' });
  });

  it('closing before anything was begun does nothing', async () => {
    const worker = new Town().worker();
    await worker.candidate.close(false);
    await worker.candidate.start();
    worker.candidate.resume();
    expect(worker.candidate.isStanding).toBe(false);
    expect(worker.log).toEqual([]);
  });
});

describe('trouble', () => {
  beforeEach(
    () => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'Date'] }),
  );
  afterEach(() => void vi.useRealTimers());

  it('is told once for each time that the store gives no answer to one who waits', async () => {
    const town = new Town();
    const worker = town.worker();
    const told: string[] = [];
    const election = new Election(worker.manager, 'payments', {}, (error) => told.push((error as LeaseholdError).code));
    const controller = new AbortController();
    worker.store.partition();
    const over = election.next(controller.signal, async () => {});
    const pass = async (): Promise<void> => {
      await vi.advanceTimersByTimeAsync(5000);
      await town.clock.advanceAsync(100);
    };
    for (let n = 0; n < 3; n++) await pass();
    expect(told).toEqual(['STORE_UNAVAILABLE']);
    worker.store.heal();
    await using _ = await town.worker().manager.acquire('payments');
    for (let n = 0; n < 3; n++) await pass();
    worker.store.partition();
    for (let n = 0; n < 3; n++) await pass();
    expect(told).toEqual(['STORE_UNAVAILABLE', 'STORE_UNAVAILABLE']);
    worker.store.heal();
    controller.abort();
    expect(await over).toBeUndefined();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is tried again after a pause that grows, told once', async () => {
    const fence = new MemoryFence();
    const tries: number[] = [];
    fence.activate = async (grant) => {
      tries.push(Date.now());
      if (tries.length < 5) throw new FenceUnavailableError('payments', 'ledger', 'down');
      return MemoryFence.prototype.activate.call(fence, grant);
    };
    const worker = new Town().worker({ fences: [fence] });
    const elected = worker.heard('elected');
    void worker.candidate.start();
    for (let n = 0; n < 30; n++) await vi.advanceTimersByTimeAsync(100);
    await elected;
    expect(tries).toHaveLength(5);
    const pauses = tries.slice(1).map((at, n) => at - (tries[n] as number));
    for (const [n, pauseMs] of pauses.entries()) {
      expect(pauseMs).toBeGreaterThanOrEqual(50 * 2 ** n);
      expect(pauseMs).toBeLessThanOrEqual(100 * 2 ** n);
    }
    expect(worker.log).toEqual(['failed FENCE_UNAVAILABLE', 'elected', 'run']);
    await worker.candidate.close(false);
  });

  it('with the store: one in office steps down by its own clocks, and stands again', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    const { ended } = await worker.begin('1', aborted);
    worker.store.partition();
    await town.clock.advanceAsync(TTL_MS);
    expect(await ended).toBeInstanceOf(DelayedError);
    expect(worker.log.at(-1)).toBe('stepped down store-unreachable');
    const again = worker.heard('elected');
    worker.store.heal();
    await town.clock.advanceAsync(2 * TTL_MS);
    await again;
  });
});
