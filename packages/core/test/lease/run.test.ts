import {
  currentLease,
  LeaseholdError,
  LeaseLostError,
  NotStartedError,
  ReleaseInBodyError,
  ResourceBusyError,
  RunCancelledError,
  type Lease,
} from '@leasehold/core';
import { describe, expect, test } from 'vitest';
import { bench, deferred, outcomeOf, rejectionOf } from './setup.ts';

describe('run', () => {
  test('acquires, hands over the lease, releases, and returns the value', async () => {
    const { manager, events, memory } = bench();
    let seen: Lease | undefined;
    const value = await manager.run('reports', async (lease) => {
      seen = lease;
      lease.assertHeld();
      expect(lease.signal.aborted).toBe(false);
      expect(lease.grant).toEqual({
        resource: 'leasehold/reports',
        fencingToken: lease.fencingToken,
        leaseId: lease.leaseId,
      });
      expect(JSON.parse(JSON.stringify(lease))).toEqual(lease.grant);
      expect(await memory.read('reports', { timeoutMs: 100 })).toMatchObject({ state: 'held', leaseId: lease.leaseId });
      return 42;
    });
    expect(value).toBe(42);
    expect(events).toEqual(['acquired', 'released']);
    expect(await memory.read('reports', { timeoutMs: 100 })).toMatchObject({ state: 'free' });
    expect(seen?.isHeld()).toBe(false);
    expect(seen?.remainingMs()).toBe(0);
    expect(() => seen?.assertHeld()).toThrow(expect.objectContaining({ code: 'LEASE_LOST', reason: 'released' }));
    // It was given back, not lost: what listens for loss is not told otherwise.
    expect(seen?.signal.aborted).toBe(false);
  });

  test('tokens grow from run to run', async () => {
    const { manager } = bench();
    const tokens: number[] = [];
    for (let round = 0; round < 5; round++) tokens.push(await manager.run('r', (lease) => lease.fencingToken));
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(new Set(tokens).size).toBe(5);
  });

  test("the body's own error comes through untouched, sync and async, and the lease is released", async () => {
    const { manager, memory } = bench();
    const boom = new Error('boom');
    expect(await rejectionOf(manager.run('r', () => Promise.reject(boom)))).toBe(boom);
    expect(
      await rejectionOf(
        manager.run('r', () => {
          throw boom;
        }),
      ),
    ).toBe(boom);
    expect(await memory.read('r', { timeoutMs: 100 })).toMatchObject({ state: 'free' });
  });

  test('whatever a body throws comes through, and the lease is released', async () => {
    const { manager, clock } = bench();
    class Lazy extends Error {
      override get cause(): unknown {
        throw new Error('do not look');
      }
    }
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    for (const thrown of [new Lazy('lazy'), revoked.proxy, null, undefined, 'text', 0]) {
      // A list, because a rejection with a revoked proxy cannot even be looked at by a matcher.
      const seen: unknown[] = [];
      await manager
        .run('r', async () => {
          throw thrown;
        })
        .catch((error: unknown) => void seen.push(error));
      expect(seen[0] === thrown).toBe(true);
      expect((await manager.tryRun('r', () => 1)).ran).toBe(true);
    }
    expect(clock.timers.filter(({ ref }) => ref)).toEqual([]);
  });

  test('busy is an error of its own for run, a value for tryRun, and says who has it', async () => {
    const { manager, other, events } = bench();
    const holder = await other({ owner: { name: 'web-7', version: '1.2.3' } }).acquire('r');
    const error = await rejectionOf(manager.run('r', () => 1));
    expect(error).toBeInstanceOf(ResourceBusyError);
    expect(error).toMatchObject({ code: 'RESOURCE_BUSY', resource: 'r', reason: 'held' });
    expect((error as ResourceBusyError).holder?.owner).toMatch(/^web-7 pid \d+ since \d\d:\d\d:\d\dZ v1\.2\.3$/);
    expect((error as ResourceBusyError).holder?.fencingToken).toBe(holder.fencingToken);
    expect((error as ResourceBusyError).remainingMs).toBeGreaterThan(2900);
    expect(await manager.tryRun('r', () => 1)).toMatchObject({ ran: false, reason: 'held' });
    expect(await manager.tryAcquire('r')).toMatchObject({ acquired: false, reason: 'held' });
    expect(events).toEqual(['busy', 'busy', 'busy']);
  });

  test('awaits a body that outlives its lease, then says so with what it came to', async () => {
    const { manager, store, clock, events } = bench();
    const body = deferred<string>();
    const ran = outcomeOf(manager.run('r', () => body.promise));
    await clock.advanceAsync(0);
    store.partition();
    await clock.advanceAsync(20_000);
    expect(events).toContain('lost');
    body.resolve('late');
    const outcome = await ran;
    expect(outcome).toMatchObject({
      status: 'rejected',
      reason: { code: 'LEASE_LOST', reason: 'store-unreachable', settled: { value: 'late' } },
    });
  });

  test('a body that throws its own loss is not wrapped; another error after the loss is kept in `settled`', async () => {
    const { manager, store, clock } = bench();
    const gate = deferred();
    const own = outcomeOf(
      manager.run('a', async (lease) => {
        await gate.promise;
        lease.assertHeld();
      }),
    );
    const another = outcomeOf(
      manager.run('b', async () => {
        await gate.promise;
        throw new Error('cleanup failed');
      }),
    );
    await clock.advanceAsync(0);
    store.partition();
    await clock.advanceAsync(4000);
    gate.resolve();
    const first = await own;
    expect(first).toMatchObject({ status: 'rejected', reason: { reason: 'store-unreachable', settled: undefined } });
    const second = await another;
    const error = (second as PromiseRejectedResult).reason as LeaseLostError;
    expect(error).toBeInstanceOf(LeaseLostError);
    expect(error.settled).toMatchObject({ error: { message: 'cleanup failed' } });
  });

  test('a signal that is asked for only after the loss aborts all the same, also when all is over', async () => {
    const { manager, clock, memory } = bench();
    let left: Lease | undefined;
    await manager
      .run('r', (lease) => {
        left = lease;
        clock.block(3000);
      })
      .catch(() => {});
    expect(left?.signal.aborted).toBe(true);
    expect(left?.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' });
    const lease = await manager.acquire('s');
    memory.flush();
    expect(await lease.release()).toBe('lost');
    expect(lease.signal.reason).toMatchObject({ reason: 'missing' });
  });

  test('one signal for hundreds of runs has one listener, and reaches them all', async () => {
    const { manager } = bench();
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    const controller = new AbortController();
    const { signal } = controller;
    const cancelled = Array.from({ length: 200 }, (_, index) =>
      manager.run(`r${index}`, { signal }, async (lease) => {
        await new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
        return (lease.signal.reason as RunCancelledError).reason;
      }),
    );
    await new Promise(setImmediate);
    controller.abort();
    expect(new Set(await Promise.all(cancelled))).toEqual(new Set(['caller']));
    await new Promise(setImmediate);
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  test('release inside the body is refused, also through await using, and the lease goes on', async () => {
    const { manager } = bench();
    await manager.run('r', async (lease) => {
      expect(await rejectionOf(lease.release())).toBeInstanceOf(ReleaseInBodyError);
      {
        await using inner = lease;
        inner.assertHeld();
      }
      lease.assertHeld();
    });
  });

  test("the caller's signal ends an acquisition, and cancels a body whose value still counts", async () => {
    const { manager, events } = bench();
    const aborted = AbortSignal.abort(new Error('gone'));
    expect(await rejectionOf(manager.run('r', { signal: aborted }, () => 1))).toMatchObject({
      code: 'RUN_CANCELLED',
      reason: 'caller',
      cause: { message: 'gone' },
    });

    const controller = new AbortController();
    const value = await manager.run('r', { signal: controller.signal }, async (lease) => {
      controller.abort(new Error('enough'));
      expect(lease.signal.aborted).toBe(true);
      expect(lease.signal.reason).toBeInstanceOf(RunCancelledError);
      expect(lease.signal.reason).toMatchObject({ reason: 'caller', cause: { message: 'enough' } });
      lease.assertHeld();
      return 'finished up';
    });
    expect(value).toBe('finished up');
    expect(events).toEqual(['acquired', 'cancelled', 'released']);
  });

  test('a caller that shuts down says so to the body; other reasons of its own runs stay its own', async () => {
    const { manager } = bench();
    for (const [reason, heard] of [
      ['shutdown', 'shutdown'],
      ['revoked', 'caller'],
      ['max-hold', 'caller'],
    ] as const) {
      const controller = new AbortController();
      const cause = new RunCancelledError('worker', reason);
      await manager.run('r', { signal: controller.signal }, (lease) => {
        controller.abort(cause);
        expect(lease.signal.reason).toMatchObject({ code: 'RUN_CANCELLED', resource: 'r', reason: heard, cause });
        lease.assertHeld();
      });
    }
  });

  test('a signal that aborts while the store is asked leaves nothing behind', async () => {
    const { manager, store, memory, clock } = bench();
    const controller = new AbortController();
    store.once('acquire', { reply: 20 });
    const ran = store.next('acquire', 'ran');
    const outcome = outcomeOf(manager.run('r', { signal: controller.signal }, () => 1));
    await clock.advanceAsync(0);
    await ran;
    controller.abort();
    await clock.advanceAsync(50);
    expect(await outcome).toMatchObject({ reason: { code: 'RUN_CANCELLED', reason: 'caller' } });
    expect(await memory.read('r', { timeoutMs: 100 })).toMatchObject({ state: 'free' });
  });

  test('a tick runs once; a body that says it did nothing gives it back', async () => {
    const { manager, clock } = bench();
    const tick = { job: 'nightly', at: clock.wallMs() };
    const nothing = new NotStartedError('r', 'no worker was free');
    expect(await rejectionOf(manager.run('r', { tick }, () => Promise.reject(nothing)))).toBe(nothing);
    expect(await manager.tryRun('r', { tick }, () => 1)).toEqual({ ran: true, value: 1 });
    expect(await manager.tryRun('r', { tick }, () => 2)).toMatchObject({
      ran: false,
      reason: 'already-ran',
      holder: null,
    });
    expect(await rejectionOf(manager.run('r', { tick }, () => 2))).toMatchObject({
      code: 'TICK_REFUSED',
      reason: 'already-ran',
    });
    const ahead = { job: 'nightly', at: clock.wallMs() + 10_000 };
    const refusal = await manager.tryRun('r', { tick: ahead }, () => 3);
    expect(refusal).toMatchObject({ ran: false, reason: 'clock-ahead' });
    expect(refusal.ran ? 0 : refusal.remainingMs).toBeGreaterThan(7000);
  });

  test('currentLease is the innermost lease below a body and nothing outside', async () => {
    const { manager } = bench();
    expect(currentLease()).toBeUndefined();
    await manager.run('outer', async (outer) => {
      await Promise.resolve();
      expect(currentLease()).toBe(outer);
      await manager.run('inner', async (inner) => {
        expect(currentLease()).toBe(inner);
      });
      expect(currentLease()).toBe(outer);
    });
    expect(currentLease()).toBeUndefined();
  });

  test('a body that asks for what an enclosing body holds is refused at once, at any depth, unless detached', async () => {
    const { manager, other } = bench();
    const second = other();
    await manager.run('a', async () => {
      await manager.run('b', async () => {
        expect(await rejectionOf(manager.run('a', () => 1))).toMatchObject({
          code: 'REENTRANT_ACQUIRE',
          resource: 'a',
        });
        expect(await rejectionOf(second.acquire('a'))).toMatchObject({ code: 'REENTRANT_ACQUIRE' });
        expect(await rejectionOf(manager.acquire('a', { detached: true }))).toMatchObject({ code: 'RESOURCE_BUSY' });
        expect(await manager.run('c', () => 'sibling')).toBe('sibling');
      });
    });
  });

  test('work left behind by a settled body may acquire the resource again', async () => {
    const { manager } = bench();
    const gate = deferred();
    let leftBehind: Promise<number> = Promise.resolve(0);
    await manager.run('a', async () => {
      leftBehind = gate.promise.then(() => manager.run('a', () => 7));
    });
    gate.resolve();
    expect(await leftBehind).toBe(7);
  });

  test('listeners and loggers that throw or reject do not break a run', async () => {
    const broken = (): never => {
      throw new Error('logger');
    };
    const rejecting = (): never => Promise.reject(new Error('async logger')) as never;
    const { manager } = bench({ logger: { debug: rejecting, info: broken, warn: broken, error: rejecting } });
    manager.on('acquired', () => {
      throw new Error('listener');
    });
    manager.on('acquired', () => Promise.reject(new Error('async listener')) as never);
    const after: string[] = [];
    manager.once('acquired', () => after.push('once'));
    manager.on('released', () => after.push('released'));
    expect(await manager.run('r', () => 1)).toBe(1);
    expect(await manager.run('r', () => 2)).toBe(2);
    expect(after).toEqual(['once', 'released', 'released']);
  });

  test('a lease from acquire is released once, by whoever asks first; await using does it', async () => {
    const { manager, memory, events } = bench();
    const lease = await manager.acquire('r');
    expect(await Promise.all([lease.release(), lease.release()])).toEqual(['released', 'released']);
    {
      await using held = await manager.acquire('r');
      held.assertHeld();
      await using got = await manager.tryAcquire('other');
      expect(got.acquired).toBe(true);
      await using refused = await manager.tryAcquire('r');
      expect(refused.acquired).toBe(false);
    }
    expect(await memory.read('r', { timeoutMs: 100 })).toMatchObject({ state: 'free' });
    expect(await memory.read('other', { timeoutMs: 100 })).toMatchObject({ state: 'free' });
    expect(events).toEqual(['acquired', 'released', 'acquired', 'acquired', 'busy', 'released', 'released']);
  });

  test('bad names and bad options are refused before anything is sent, naming option, value and rule', async () => {
    const { manager, store } = bench();
    const refuse = async (...args: unknown[]): Promise<string> => {
      const error = await rejectionOf((manager.acquire as (...all: unknown[]) => Promise<unknown>)(...args));
      expect(LeaseholdError.is(error, 'CONFIG')).toBe(true);
      return (error as Error).message;
    };
    expect(await refuse('')).toMatch(/resource: is empty/);
    expect(await refuse(['a', 'b'])).toMatch(/resource: takes one name, not an array; .*nest/);
    expect(await refuse(undefined)).toMatch(/resource: is undefined: must be a string/);
    expect(await refuse('a\nb')).toMatch(/control character/);
    expect(await refuse('x'.repeat(257))).toMatch(/longer than 256 bytes/);
    expect(await refuse('\ud800')).toMatch(/surrogate/);
    expect(await refuse('r', { ttl: 30 })).toMatch(/ttl: is 30 ms, below 100 ms; did you mean '30s'/);
    expect(await refuse('r', { ttl: Number.NaN })).toMatch(/ttl: NaN is not a duration/);
    expect(await refuse('r', { ttl: '30sec' })).toMatch(/ttl: '30sec' is not a duration/);
    expect(await refuse('r', { ttl: '2d' })).toMatch(/above 24 h/);
    expect(await refuse('r', { tll: '30s' })).toMatch(/tll: is not an option here/);
    expect(await refuse('r', { fences: [{}] })).toMatch(/fences\.0: is an object: must be a fence/);
    expect(await refuse('r', { signal: {} })).toMatch(/signal: is an object: must be an AbortSignal/);
    expect(await refuse('r', { tick: { job: 'a b', at: 1 } })).toMatch(/tick\.job.*is not a job name/);
    for (const at of [Number.NaN, -1, 1.5, new Date(Number.NaN), '2026', null]) {
      expect(await refuse('r', { tick: { job: 'a', at } })).toMatch(/tick\.at: .*epoch milliseconds or a valid Date/);
    }
    const circular: unknown[] = [];
    circular.push(circular);
    for (const value of [
      10n,
      circular,
      Symbol('x'),
      () => 1,
      {
        toJSON: () => {
          throw new Error('no');
        },
      },
    ]) {
      for (const option of ['ttl', 'maxHold', 'wait', 'activate', 'detached', 'fences', 'signal', 'park']) {
        expect(await refuse('r', { [option]: value })).toMatch(new RegExp(`^CONFIG: ${option}`));
      }
      expect(await refuse('r', { tick: { job: value, at: 1 } })).toMatch(/^CONFIG: tick\.job/);
    }
    const nameless = { activate() {}, write() {}, seal() {}, highest() {}, enforcing: true, name: '' };
    expect(await refuse('r', { fences: [nameless] })).toMatch(/fences\.0: is an object: must be a fence with a name/);
    expect(await rejectionOf(manager.run('r', {} as never))).toMatchObject({ code: 'CONFIG', option: 'body' });
    expect(store.calls.acquire).toBe(0);
  });
});
