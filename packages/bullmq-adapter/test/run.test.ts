import {
  currentLease,
  ForeignKeyError,
  MemoryFence,
  RunCancelledError,
  StaleTokenError,
  type LeaseLostError,
} from '@leasehold/core';
import { DelayedError, UnrecoverableError } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { bullError, fakeJob, type FakeJob } from './fake-job.ts';
import { aborted, leaseOf, lose, setUp } from './set-up.ts';

describe('a run', () => {
  it('has its lease on the job, below it, and for fences', async () => {
    const fence = new MemoryFence();
    const { run, heard } = setUp({ fences: [fence] });
    const job = fakeJob();
    const value = await run(job, async () => {
      expect(currentLease()).toBe(leaseOf(job));
      expect(leaseOf(job).isHeld()).toBe(true);
      return fence.write(leaseOf(job), async () => 'written');
    });
    expect(value).toBe('written');
    expect(Object.keys(job)).not.toContain('lease');
    expect(leaseOf(job).isHeld()).toBe(false);
    expect(heard).toEqual(['acquired true']);
  });

  it('takes a processor that is not async, and gives its error as it is', async () => {
    const { run } = setUp();
    await expect(run(fakeJob(), () => 7)).resolves.toBe(7);
    const failure = new Error('mine');
    await expect(
      run(fakeJob(), () => {
        throw failure;
      }),
    ).rejects.toBe(failure);
  });

  it('goes without a lease where the resource is null, but not without a signal', async () => {
    const { run, store } = setUp({ resource: () => null });
    const job = fakeJob();
    const outer = new AbortController();
    const reason = await run(
      job,
      (signal) => {
        outer.abort('enough');
        return aborted(signal);
      },
      outer.signal,
    );
    expect(reason.message).toBe('the job was cancelled: enough');
    expect(leaseOf(job)).toBeUndefined();
    expect(store.calls.acquire).toBe(0);
  });

  it('is put back when the resource is busy', async () => {
    const { run, manager, heard } = setUp();
    await using _ = await manager.acquire('reports');
    const job = fakeJob();
    await expect(run(job, () => 1)).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays[0]).toBeGreaterThanOrEqual(50);
    expect(heard).toEqual(['busy true']);
  });

  it('is busy, not reentrant, where its worker was made inside a run', async () => {
    const { run, manager, heard } = setUp();
    await manager.run('reports', () => expect(run(fakeJob(), () => 1)).rejects.toBeInstanceOf(DelayedError));
    expect(heard).toEqual(['busy true']);
  });

  it('ends before the store has heard of the release; the next of its resource begins after, and is not put back', async () => {
    const { run, runs, store, heard } = setUp();
    let send = (): void => {};
    store.once('release', { request: new Promise<void>((resolve) => (send = resolve)) });
    await expect(run(fakeJob(), () => 'first')).resolves.toBe('first');
    const second = run(fakeJob({ id: '2' }), () => 'second');
    await new Promise(setImmediate);
    send();
    await expect(second).resolves.toBe('second');
    expect(heard).toEqual(['acquired true', 'acquired true']);
    await runs.idle();
  });

  it('is idle only when its release has been confirmed, for a worker that closes', async () => {
    const { run, runs, store, manager } = setUp();
    let send = (): void => {};
    store.once('release', { request: new Promise<void>((resolve) => (send = resolve)) });
    await run(fakeJob(), () => 1);
    const state = runs.idle().then(async () => (await manager.inspect('reports'))?.state);
    await new Promise(setImmediate);
    send();
    await expect(state).resolves.toBe('free');
  });

  it('says for how many whole milliseconds it is busy', async () => {
    const { run, manager, busyForMs } = setUp();
    await using _ = await manager.acquire('reports');
    await expect(run(fakeJob(), () => 1)).rejects.toBeInstanceOf(DelayedError);
    expect(busyForMs).toEqual([Math.round(busyForMs[0] as number)]);
    expect(busyForMs[0]).toBeGreaterThan(0);
  });

  it('says why when it is busy and BullMQ cannot put it back', async () => {
    const { run, manager } = setUp();
    await using _ = await manager.acquire('reports');
    const job = fakeJob();
    job.refusals.push(...Array.from({ length: 5 }, () => new Error('OOM')));
    await expect(run(job, () => 1)).rejects.toMatchObject({ code: 'RESOURCE_BUSY' });
  });

  it('fails for good when the store cannot have the name', async () => {
    const { run } = setUp({ resource: () => 'a\u0000b' });
    await expect(run(fakeJob(), () => 1)).rejects.toBeInstanceOf(UnrecoverableError);
  });
});

describe('cancelling', () => {
  it('forwards a signal that is only shaped like one', async () => {
    const { run } = setUp();
    const listeners = new Set<() => void>();
    const polyfill = {
      aborted: false,
      reason: undefined,
      addEventListener: (_: string, listener: () => void) => listeners.add(listener),
      removeEventListener: (_: string, listener: () => void) => listeners.delete(listener),
    };
    const reason = await run(
      fakeJob(),
      (signal) => {
        for (const listener of listeners) listener();
        return aborted(signal);
      },
      polyfill as unknown as AbortSignal,
    );
    expect(reason).toBeInstanceOf(RunCancelledError);
    expect((reason.cause as Error).message).toBe('the job was cancelled: no reason given');
    expect(listeners.size).toBe(0);
  });

  it('is what a run hears whose lock BullMQ could not renew, and no other', async () => {
    const { runs, run } = setUp({ resource: (job) => `customer:${job.data}` });
    const [mine, taken, other] = [7, 8, 9].map((id) => fakeJob({ id: `${id}`, data: id })) as [
      FakeJob,
      FakeJob,
      FakeJob,
    ];
    taken.isTaken = true;
    const all = Promise.allSettled([
      run(mine, aborted),
      run(taken, aborted),
      run(other, async (signal) => {
        await new Promise(setImmediate);
        runs.lockRenewalFailed(['7', '8', '10']);
        return signal.aborted;
      }),
    ]);
    const [ofMine, ofTaken, ofOther] = await all;
    // BullMQ says that it is ours after all.
    expect(ofMine).toMatchObject({
      value: {
        code: 'RUN_CANCELLED',
        reason: 'caller',
        cause: { message: 'BullMQ could not renew its lock of job 7' },
      },
    });
    // Nothing that BullMQ would refuse is said of a job that is in other hands.
    expect(ofTaken).toMatchObject({ reason: { name: 'DelayedError' } });
    expect(ofOther).toMatchObject({ value: false });
    expect([mine, taken, other].map(({ delays }) => delays)).toEqual([[], [], []]);
  });

  it('counts a value that comes although the manager is closing', async () => {
    const { run, manager } = setUp();
    const value = run(fakeJob(), async (signal) => {
      void manager.close({ grace: 0 });
      return (await aborted(signal)) as RunCancelledError;
    });
    expect((await value).reason).toBe('shutdown');
  });

  it('puts back what gave up because the manager is closing, whatever it throws', async () => {
    const { run, manager } = setUp();
    const job = fakeJob();
    const ended = run(job, async (signal) => {
      void manager.close({ grace: 0 });
      await aborted(signal);
      throw new TypeError('the connection is gone');
    });
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
  });

  it('by a worker that closes says so, and does not hide what the processor tells BullMQ', async () => {
    const { run, runs } = setUp();
    const control = new UnrecoverableError('this customer is gone');
    const job = fakeJob();
    const ended = run(job, async (signal) => {
      runs.cancelAll(new RunCancelledError('worker', 'shutdown'));
      expect(signal.reason).toMatchObject({ code: 'RUN_CANCELLED', resource: 'reports', reason: 'shutdown' });
      throw control;
    });
    await expect(ended).rejects.toBe(control);
    expect(job.delays).toHaveLength(0);
  });
});

describe('a lost lease', () => {
  it('aborts the signal, is announced once, and the value is not the result', async () => {
    const it = setUp();
    const job = fakeJob();
    const ended = it.run(job, async (signal) => {
      const reason = (await lose(it, signal)) as LeaseLostError;
      expect(reason.code).toBe('LEASE_LOST');
      expect(it.heard).toContain('lost superseded');
      return 'late';
    });
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
    expect(it.heard).toEqual(['acquired true', 'lost superseded']);
  });

  it('is told to nobody when BullMQ has taken the job away as well', async () => {
    const it = setUp();
    const job = fakeJob();
    job.refusals.push(bullError(-2));
    await expect(it.run(job, (signal) => lose(it, signal))).rejects.toBeInstanceOf(DelayedError);
    expect(it.heard).toContain('lost superseded');
  });

  it('does not stop what the processor tells BullMQ', async () => {
    const it = setUp();
    const job = fakeJob();
    const control = new UnrecoverableError('this customer is gone');
    const ended = it.run(job, async (signal) => {
      await lose(it, signal);
      throw control;
    });
    await expect(ended).rejects.toBe(control);
    expect(job.delays).toHaveLength(0);
    expect(it.heard).toContain('lost superseded');
  });

  it.each([1, 2])('is also what a fence says of the bare grant, %i errors deep', async (depth) => {
    const { run, heard } = setUp();
    const job = fakeJob();
    const ended = run(job, () => {
      const { fencingToken, resource } = leaseOf(job).grant;
      const highest = { fencingToken: fencingToken + 1, leaseId: 'a later one' };
      const stale = new StaleTokenError(resource, { fence: 'ledger', fencingToken, highest });
      throw depth === 1 ? stale : new Error('the query failed', { cause: stale });
    });
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(heard).toEqual(['acquired true', 'lost fenced']);
  });

  it('is not what a fence says of another grant', async () => {
    const { run } = setUp();
    const highest = { fencingToken: 2, leaseId: 'a later one' };
    const stale = new StaleTokenError('other/reports', { fence: 'ledger', fencingToken: 1, highest });
    await expect(run(fakeJob(), () => Promise.reject(stale))).rejects.toBe(stale);
  });

  it('is announced also when the run had been cancelled before', async () => {
    const it = setUp();
    const outer = new AbortController();
    const job = fakeJob();
    const ended = it.run(
      job,
      async (signal) => {
        outer.abort();
        await aborted(signal);
        const extended = it.store.next('extend', 'settled');
        void lose(it, signal);
        await extended;
        await new Promise(setImmediate);
      },
      outer.signal,
    );
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(it.heard).toEqual(['acquired true', 'lost superseded']);
  });
});

describe('when there is no lease to be had', () => {
  it('waits for the store and then runs', async () => {
    const { run, store, heard } = setUp();
    store.set('acquire', { request: 'lost' });
    const first = store.next('acquire', 'settled');
    const ended = run(fakeJob(), () => 'done');
    await first;
    store.heal();
    await expect(ended).resolves.toBe('done');
    expect(heard).toEqual(['acquired true']);
  });

  it('puts the job back when the worker closes meanwhile', async () => {
    const { run, store, closing, heard } = setUp();
    store.partition();
    const first = store.next('acquire', 'settled');
    const job = fakeJob();
    const ended = run(job, () => 'done');
    await first;
    closing.abort();
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays[0]).toBeGreaterThan(4000);
    expect(heard).toEqual(['troubled STORE_UNAVAILABLE']);
  });

  it('fails the job when it is cancelled meanwhile', async () => {
    const { run, store } = setUp();
    store.partition();
    const first = store.next('acquire', 'settled');
    const outer = new AbortController();
    const job = fakeJob();
    const ended = run(job, () => 'done', outer.signal);
    await first;
    outer.abort();
    await expect(ended).rejects.toMatchObject({ code: 'RUN_CANCELLED', reason: 'caller', resource: 'reports' });
    expect(job.delays).toEqual([]);
  });

  it('puts the job back when the manager is closed', async () => {
    const { run, manager, heard } = setUp();
    await manager.close();
    const job = fakeJob();
    await expect(run(job, () => 1)).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toHaveLength(1);
    expect(heard).toEqual(['troubled MANAGER_CLOSED']);
  });

  it('puts the job back when a fence does not answer, and does not start it', async () => {
    const fence = new MemoryFence();
    fence.activate = () => Promise.reject(new Error('down'));
    const { run, heard } = setUp({ fences: [fence] });
    const job = fakeJob();
    await expect(run(job, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    expect(heard).toEqual(['troubled FENCE_UNAVAILABLE']);
  });

  it('puts the job back, and says so, when the options of the lease are wrong', async () => {
    // More than the manager's call timeout leaves room for.
    const { run, heard } = setUp({ ttl: 110 });
    const job = fakeJob();
    await expect(run(job, () => 1)).rejects.toBeInstanceOf(DelayedError);
    expect(heard).toEqual(['troubled CONFIG']);
  });

  it('fails the job when only people can help', async () => {
    const { run, store } = setUp();
    const foreign = new ForeignKeyError('reports', 'leasehold:{reports}', 'is a list');
    store.set('acquire', { reply: foreign });
    await expect(run(fakeJob(), () => 1)).rejects.toBe(foreign);
  });
});
