import { MemoryFence, RunCancelledError } from '@leasehold/core';
import { describe, expect, it } from 'vitest';
import type { Brake } from '../../src/lease/jobs.ts';
import { bench, deferred } from './setup.ts';

/** A brake that can be pulled. */
function brake(): Brake & { pull(reason: Error): void } {
  let reason: Error | undefined;
  let listener = (): void => {};
  return {
    get aborted() {
      return reason !== undefined;
    },
    get reason() {
      return reason;
    },
    listen(its) {
      listener = its;
      return () => (listener = () => {});
    },
    pull(why) {
      reason = why;
      listener();
    },
  };
}

describe('runs that follow one another', () => {
  it('do not wait for the release of one that is over, unless they want its resource', async () => {
    const { manager, store } = bench();
    const { jobs } = manager;
    const settings = jobs.prepare({});
    const held = deferred();
    store.once('release', { reply: held.promise });
    await jobs.tryRun('a', settings, brake(), () => {});
    await jobs.tryRun('b', settings, brake(), () => {});
    let isRunning = false;
    const asked = store.calls.acquire;
    const next = jobs.tryRun('a', settings, brake(), () => (isRunning = true));
    await new Promise(setImmediate);
    expect([isRunning, store.calls.acquire]).toEqual([false, asked]);
    held.resolve();
    await expect(next).resolves.toMatchObject({ ran: true });
    await manager.close();
  });

  it('are all given back when that is said', async () => {
    const { manager, store, other } = bench();
    const held = deferred();
    store.once('release', { request: held.promise });
    await manager.jobs.tryRun('a', manager.jobs.prepare({}), brake(), () => {});
    let isReleased = false;
    const released = manager.jobs.released().then(() => (isReleased = true));
    await new Promise(setImmediate);
    expect(isReleased).toBe(false);
    held.resolve();
    await released;
    const theirs = other();
    await expect(theirs.run('a', () => 'theirs')).resolves.toBe('theirs');
    await manager.close();
  });

  it('are all given back when that is said, those that linger as well, and the manager goes on', async () => {
    const { manager, store, other } = bench({ linger: 500 });
    const settings = manager.jobs.prepare({});
    await manager.jobs.tryRun('a', settings, brake(), () => {});
    expect(store.calls.release).toBe(0);
    const held = deferred();
    store.once('release', { request: held.promise });
    let isReleased = false;
    const released = manager.jobs.released().then(() => (isReleased = true));
    await new Promise(setImmediate);
    expect(isReleased).toBe(false);
    held.resolve();
    await released;
    await expect(other().run('a', () => 'theirs')).resolves.toBe('theirs');
    await expect(manager.run('a', () => 'ours')).resolves.toBe('ours');
    await manager.close();
  });

  it('are all given back when that is said, and what stood in line has left it; a silent store is waited for no longer than a call', async () => {
    const { manager, store, other, clock } = bench();
    const theirs = await other().acquire('a');
    const controller = new AbortController();
    const waiting = manager.tryRun('a', { wait: '1h', signal: controller.signal }, () => expect.unreachable());
    await clock.advanceAsync(10);
    const held = deferred();
    store.once('cancel', { request: held.promise });
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'RUN_CANCELLED' });
    let isReleased = false;
    const released = manager.jobs.released().then(() => (isReleased = true));
    await clock.advanceAsync(10);
    expect(isReleased).toBe(false);
    held.resolve();
    await released;
    store.set('release', { reply: 'lost' });
    await manager.jobs.tryRun('b', manager.jobs.prepare({}), brake(), () => {});
    const silent = manager.jobs.released();
    // One call for the release, one for its second try, one for what is behind that.
    await clock.advanceAsync(2000);
    await silent;
    store.heal();
    await theirs.release();
    const closed = manager.close();
    await clock.advanceAsync(5000);
    await closed;
  });

  it('end the lease with the body: no longer held, and refused at once, while the release is under way', async () => {
    const { manager, store } = bench();
    const held = deferred();
    store.once('release', { reply: held.promise });
    const result = await manager.jobs.tryRun('a', manager.jobs.prepare({}), brake(), (lease) => lease);
    const lease = result.ran ? result.value : undefined;
    expect(lease?.isHeld()).toBe(false);
    expect(() => lease?.assertHeld()).toThrow(expect.objectContaining({ code: 'LEASE_LOST', reason: 'released' }));
    held.resolve();
    await manager.close();
  });

  it('are left at once when they are braked before the store has answered, and what comes then is given back', async () => {
    const { manager, store, other } = bench();
    const held = deferred();
    store.once('acquire', { reply: held.promise });
    const its = brake();
    const run = manager.jobs.tryRun('a', manager.jobs.prepare({}), its, () => expect.unreachable());
    const why = new Error('enough');
    its.pull(why);
    await expect(run).rejects.toMatchObject({ code: 'RUN_CANCELLED', reason: 'caller', cause: why });
    const released = store.next('release', 'settled');
    held.resolve();
    await released;
    await expect(other().run('a', () => 'theirs')).resolves.toBe('theirs');
    await manager.close();
  });

  it('that were left are given back only when what they asked for is, and the next run of the resource waits for that', async () => {
    const { manager, store } = bench();
    const { jobs } = manager;
    const held = deferred();
    store.once('acquire', { reply: held.promise });
    const its = brake();
    const run = jobs.tryRun('a', jobs.prepare({}), its, () => expect.unreachable());
    its.pull(new Error('enough'));
    await expect(run).rejects.toMatchObject({ code: 'RUN_CANCELLED' });
    const ends: string[] = [];
    const released = jobs.released().then(() => ends.push('released'));
    const next = jobs.tryRun('a', jobs.prepare({}), brake(), () => ends.push('next'));
    await new Promise(setImmediate);
    expect(ends).toEqual([]);
    held.resolve();
    await released;
    expect(store.calls.release).toBe(1);
    await expect(next).resolves.toMatchObject({ ran: true });
    expect([...ends].sort()).toEqual(['next', 'released']);
    await manager.close();
  });

  it('of one resource are all waited for, also when two were left at once', async () => {
    const { manager, store } = bench();
    const { jobs } = manager;
    const first = deferred();
    const second = deferred();
    store.once('acquire', { reply: first.promise });
    store.once('acquire', { reply: second.promise });
    const both = [brake(), brake()];
    const runs = both.map((its) => jobs.tryRun('a', jobs.prepare({}), its, () => expect.unreachable()));
    for (const its of both) its.pull(new Error('enough'));
    await Promise.allSettled(runs);
    let isReleased = false;
    const released = jobs.released().then(() => (isReleased = true));
    second.resolve();
    await new Promise(setImmediate);
    expect(isReleased).toBe(false);
    first.resolve();
    await released;
    await manager.close();
  });

  it('are cancelled by the brake, with the lease held, and do not begin when it was pulled before', async () => {
    const { manager, store } = bench();
    const { jobs } = manager;
    const settings = jobs.prepare({});
    const its = brake();
    const shutdown = new RunCancelledError('worker', 'shutdown');
    const result = await jobs.tryRun('a', settings, its, async (lease) => {
      its.pull(shutdown);
      return { reason: lease.signal.reason as unknown, isHeld: lease.isHeld() };
    });
    expect(result).toMatchObject({ value: { isHeld: true, reason: { code: 'RUN_CANCELLED', reason: 'shutdown' } } });
    const asked = store.calls.acquire;
    await expect(jobs.tryRun('a', settings, its, () => {})).rejects.toMatchObject({ code: 'RUN_CANCELLED' });
    expect(store.calls.acquire).toBe(asked);
    await manager.close();
  });

  it('are refused as a value, and rejected with the loss when the lease was lost before the body settled', async () => {
    const { manager, clock, other } = bench();
    const { jobs } = manager;
    const settings = jobs.prepare({});
    const theirs = await other().acquire('a');
    await expect(jobs.tryRun('a', settings, brake(), () => {})).resolves.toMatchObject({ ran: false, reason: 'held' });
    await theirs.release();
    const lost = jobs.tryRun('a', settings, brake(), () => {
      clock.advance(4000);
      return 'late';
    });
    await expect(lost).rejects.toMatchObject({ code: 'LEASE_LOST', settled: { value: 'late' } });
    await manager.close();
  });

  it('take a lease that lingers at once and ask nothing; never past a fence or a brake, and not while the manager closes', async () => {
    const { manager, store } = bench({ linger: 500 });
    const { jobs } = manager;
    const fence = new MemoryFence();
    const [plain, fenced] = [jobs.prepare({}), jobs.prepare({ fences: [fence] })];
    const asked: string[] = [];
    const run = async (settings: typeof plain): Promise<number> => {
      const body = ({ fencingToken }: { readonly fencingToken: number }): number => fencingToken;
      const result = await jobs.tryRun('a', settings, brake(), body, () => asked.push('asked'));
      return result.ran ? result.value : 0;
    };
    const tokens = [await run(plain), await run(plain)];
    expect([asked, store.calls.acquire, store.calls.release]).toEqual([['asked'], 1, 0]);
    const inside = await jobs.tryRun('a', fenced, brake(), async ({ grant, fencingToken }) => {
      tokens.push(fencingToken);
      return (await fence.highest(grant.resource))?.fencingToken;
    });
    expect(inside).toMatchObject({ value: tokens[2] });
    expect(store.calls.acquire).toBe(1);
    const its = brake();
    its.pull(new Error('enough'));
    await expect(jobs.tryRun('a', plain, its, () => expect.unreachable())).rejects.toMatchObject({
      code: 'RUN_CANCELLED',
    });
    tokens.push(await run(plain));
    expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
    const closed = manager.close();
    await expect(jobs.tryRun('a', plain, brake(), () => expect.unreachable())).rejects.toMatchObject({
      code: 'MANAGER_CLOSED',
    });
    await closed;
    expect(store.calls.release).toBe(1);
  });
});
