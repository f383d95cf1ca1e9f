import { RunCancelledError, type LeaseLostError } from '@leasehold/core';
import { DelayedError, UnrecoverableError } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { Losses } from '../src/losses.ts';
import { bullError, fakeJob } from './fake-job.ts';
import { aborted, leaseOf, lose, setUp } from './set-up.ts';

/** Resolves when what has begun can go no further by itself. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
}

function never(): Promise<never> {
  return new Promise(() => {});
}

describe('what is said to BullMQ', () => {
  it.each([
    [undefined, 'no Error was thrown but undefined'],
    ['boom', "no Error was thrown but 'boom'"],
  ])('is an error, also when %o was thrown', async (thrown, message) => {
    const { run } = setUp();
    const bodies = [async () => raise(thrown), () => raise(thrown)];
    for (const body of bodies) await expect(run(fakeJob(), body)).rejects.toMatchObject({ message });
    const naming = setUp({ resource: () => raise(thrown) });
    await expect(naming.run(fakeJob(), () => 1)).rejects.toMatchObject({ message });
  });

  it("is the processor's own error, whatever looking at its cause does", async () => {
    const { run } = setUp();
    const mine = Object.defineProperty(new Error('mine'), 'cause', { get: () => raise(new Error('do not look')) });
    await expect(run(fakeJob(), () => raise(mine))).rejects.toBe(mine);
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const wrapped = new Error('mine', { cause: proxy });
    await expect(run(fakeJob(), () => raise(wrapped))).rejects.toBe(wrapped);
  });
});

function raise(thrown: unknown): never {
  throw thrown;
}

describe('when the resource is busy', () => {
  it('`skip` completes the job and says so', async () => {
    const { run, manager, heard } = setUp({ whenBusy: 'skip' });
    await using _ = await manager.acquire('reports');
    const job = fakeJob();
    await expect(run(job, () => expect.unreachable())).resolves.toEqual({ skipped: 'busy', resource: 'reports' });
    expect(job.delays).toEqual([]);
    expect(heard).toEqual(['busy true']);
  });

  it('`fail` fails it', async () => {
    const { run, manager, heard } = setUp({ whenBusy: 'fail' });
    await using lease = await manager.acquire('reports');
    const job = fakeJob();
    await expect(run(job, () => expect.unreachable())).rejects.toMatchObject({
      code: 'RESOURCE_BUSY',
      holder: { fencingToken: lease.fencingToken },
    });
    expect(job.delays).toEqual([]);
    expect(heard).toEqual(['busy true']);
  });

  describe('`hold`', () => {
    it('waits for its turn, for as long as that takes, in order', async () => {
      const { run, manager, heard } = setUp({ whenBusy: 'hold' });
      const lease = await manager.acquire('reports');
      const order: number[] = [];
      const runs = [1, 2, 3].map((n) => run(fakeJob({ id: `${n}` }), () => order.push(n)));
      await settle();
      expect(order).toEqual([]);
      await lease.release();
      await Promise.all(runs);
      expect(order).toEqual([1, 2, 3]);
      expect(heard).toEqual(['acquired true', 'acquired true', 'acquired true']);
    });

    it('fails when it is cancelled, as it does once it has begun', async () => {
      const { run, manager } = setUp({ whenBusy: 'hold' });
      await using _ = await manager.acquire('reports');
      const outer = new AbortController();
      const job = fakeJob();
      const ended = run(job, () => expect.unreachable(), outer.signal);
      await settle();
      outer.abort('not wanted');
      await expect(ended).rejects.toMatchObject({
        code: 'RUN_CANCELLED',
        reason: 'caller',
        cause: { message: 'the job was cancelled: not wanted' },
      });
      expect(job.delays).toEqual([]);
    });

    it('is put back when BullMQ could not renew its lock', async () => {
      const { run, runs, manager } = setUp({ whenBusy: 'hold' });
      await using _ = await manager.acquire('reports');
      const job = fakeJob();
      const ended = run(job, () => expect.unreachable());
      await settle();
      runs.lockRenewalFailed(['1']);
      await expect(ended).rejects.toBeInstanceOf(DelayedError);
      expect(job.delays).toHaveLength(1);
    });

    it('is put back, for another worker at once, when its worker closes; one that has begun is not touched', async () => {
      const { run, manager, closing, runs, heard } = setUp({ whenBusy: 'hold' });
      const opened = new Map<string, () => void>();
      const running = run(fakeJob({ id: 'a' }), async (signal) => {
        await new Promise<void>((resolve) => opened.set('a', resolve));
        return signal.aborted;
      });
      await settle();
      await using _ = await manager.acquire('other');
      const job = fakeJob({ id: 'b' });
      const waiting = run(job, () => expect.unreachable());
      await settle();
      expect(runs.live).toBe(2);
      closing.abort();
      await expect(waiting).rejects.toBeInstanceOf(DelayedError);
      expect(job.promoted).toBe(1);
      opened.get('a')?.();
      await expect(running).resolves.toBe(false);
      await runs.idle();
      expect(heard).toEqual(['acquired true']);
    });
  });
});

describe('when the lease is lost', () => {
  it.each(['retry', 'fail'] as const)('`%s` fails the job, whatever its processor returned', async (whenLost) => {
    const it = setUp({ whenLost });
    const job = fakeJob();
    const ended = it.run(job, async (signal) => {
      await lose(it, signal);
      return 'late';
    });
    const error = await ended.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ message: expect.stringMatching(/^LEASE_LOST reports: superseded/) });
    expect(error instanceof UnrecoverableError).toBe(whenLost === 'fail');
    if (whenLost === 'retry') expect((error as LeaseLostError).settled).toEqual({ value: 'late' });
    expect(job.delays).toEqual([]);
    expect(it.heard).toContain('lost superseded');
  });

  it('`requeue` puts it back three times, then it is `retry`; a run that keeps its lease ends the count', async () => {
    let resources = 0;
    const it = setUp({ resource: () => `customer:${resources++}` });
    const losing = async (): Promise<unknown> => {
      const ended = it.run(fakeJob(), (signal) => lose(it, signal));
      const error = await ended.catch((thrown: unknown) => thrown);
      it.store.heal();
      return error;
    };
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 3; n++) expect(await losing()).toBeInstanceOf(DelayedError);
      expect(await losing()).toMatchObject({ code: 'LEASE_LOST' });
      expect(await losing()).toMatchObject({ code: 'LEASE_LOST' });
      await it.run(fakeJob(), () => 'done');
    }
    // Another job of the same id.
    const ended = it.run(fakeJob({ timestamp: 1 }), (signal) => lose(it, signal));
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
  });

  it('the counts of jobs that never end are not kept for ever', () => {
    const losses = new Losses();
    const often = fakeJob({ id: 'often' });
    const rare = fakeJob({ id: 'rare' });
    for (let n = 0; n < 3; n++) losses.add(rare);
    for (let n = 0; n < 20_000; n++) {
      losses.add(fakeJob({ id: `${n}` }));
      if (n % 5000 === 0) losses.add(often);
    }
    expect(losses.add(often)).toBe(true);
    expect(losses.add(rare)).toBe(false);
  });
});

describe('a processor that ignores its signal', () => {
  const abandonAfter = 30;

  it('loses its slot; its job is put back, its lease runs out, and how it ends matters to nobody', async () => {
    const { run, runs, heard, manager, store } = setUp({ abandonAfter });
    const job = fakeJob();
    let fail: (error: Error) => void = () => {};
    const ended = run(job, () => new Promise((_, reject) => (fail = reject)));
    await settle();
    const from = performance.now();
    runs.cancelAll(new RunCancelledError('worker', 'shutdown'));
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(performance.now() - from).toBeGreaterThanOrEqual(abandonAfter - 2);
    expect(runs.live).toBe(0);
    expect(job.delays).toHaveLength(1);
    expect(heard).toEqual(['acquired true', expect.stringMatching(/^abandoned RUN_CANCELLED reports: shutdown/)]);
    // Not given to another beside it.
    expect(await manager.tryAcquire('reports')).toMatchObject({ acquired: false });
    expect(leaseOf(job).isHeld()).toBe(true);
    const { extend } = store.calls;
    await using next = await manager.acquire('reports', { wait: '5s' });
    expect(next.fencingToken).toBeGreaterThan(leaseOf(job).fencingToken);
    expect(leaseOf(job).isHeld()).toBe(false);
    expect(store.calls.extend).toBe(extend);
    fail(new Error('late'));
    await settle();
    expect(job.delays).toHaveLength(1);
    expect(heard).toHaveLength(2);
  });

  it.each([
    ['requeue', DelayedError],
    ['fail', UnrecoverableError],
  ] as const)('is treated as `whenLost: %s` says when its lease is lost', async (whenLost, kind) => {
    const it = setUp({ abandonAfter, whenLost });
    const job = fakeJob();
    const ended = it.run(job, (signal) => {
      void lose(it, signal);
      return never();
    });
    await expect(ended).rejects.toBeInstanceOf(kind);
    expect(job.delays).toHaveLength(whenLost === 'fail' ? 0 : 1);
    expect(it.heard).toEqual(['acquired true', 'lost superseded', expect.stringMatching(/^abandoned LEASE_LOST/)]);
  });

  it('may run without a lease', async () => {
    const { run, runs, heard } = setUp({ abandonAfter, resource: () => null });
    const job = fakeJob();
    const ended = run(job, never);
    await settle();
    runs.cancelAll(new Error('enough'));
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(heard).toEqual(['abandoned enough']);
  });

  it('is followed by the next run of its job, which is then the only one', async () => {
    const { run, runs } = setUp({ abandonAfter, resource: () => null });
    const first = fakeJob();
    const ended = run(first, never);
    await settle();
    first.isTaken = true;
    runs.lockRenewalFailed(['1']);
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    await expect(run(fakeJob(), () => 'second')).resolves.toBe('second');
  });

  it('loses its slot at once when the worker closes by force; one that has not begun never does', async () => {
    const { run, runs, manager, closing, heard } = setUp({ whenBusy: 'hold' });
    const [job, waiting] = [fakeJob({ id: 'a' }), fakeJob({ id: 'b' })];
    const ended = expect(run(job, never)).rejects.toBeInstanceOf(DelayedError);
    await settle();
    const behind = expect(run(waiting, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    await settle();
    const { fencingToken } = leaseOf(job);
    closing.abort();
    await runs.abandonAll(new RunCancelledError('jobs', 'shutdown'));
    expect(runs.live).toBe(0);
    await Promise.all([ended, behind]);
    expect([job.delays.length, waiting.delays.length]).toEqual([1, 1]);
    // The worker may still fetch, so it is not for now.
    expect(job.promoted).toBe(0);
    expect(heard).toEqual(['acquired true', expect.stringMatching(/^abandoned .*shutdown/)]);
    await expect.poll(async () => (await manager.inspect('reports'))?.state, { timeout: 3000 }).toBe('expired');
    expect(await manager.inspect('reports')).toMatchObject({ fencingToken });
  });

  it('that settles in time is waited for', async () => {
    const { run, runs, heard } = setUp({ abandonAfter: '20s' });
    const ended = run(fakeJob(), async (signal) => {
      runs.cancelAll(new Error('enough'));
      await aborted(signal);
      await settle();
      return 'done';
    });
    await expect(ended).resolves.toBe('done');
    expect(heard).toEqual(['acquired true']);
  });
});

describe('runs', () => {
  it('are live from their start to what BullMQ is told', async () => {
    const { run, runs } = setUp({ resource: (job) => `customer:${job.id}` });
    await runs.idle();
    const opens: (() => void)[] = [];
    const ended = ['1', '2'].map((id) =>
      run(fakeJob({ id }), () => new Promise<void>((resolve) => opens.push(resolve))),
    );
    await settle();
    expect(runs.live).toBe(2);
    let isIdle = false;
    const idle = runs.idle().then(() => (isIdle = true));
    opens[0]?.();
    await ended[0];
    expect([runs.live, isIdle]).toEqual([1, false]);
    opens[1]?.();
    await idle;
    expect(runs.live).toBe(0);
  });

  it('do not begin once their worker closes', async () => {
    const { run, closing, store, heard } = setUp();
    closing.abort();
    const job = fakeJob();
    await expect(run(job, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    expect([job.delays.length, job.promoted, store.calls.acquire]).toEqual([1, 1, 0]);
    expect(heard).toEqual([]);
  });

  it('that were put back come back when their worker closes', async () => {
    const { run, manager, closing } = setUp();
    await using _ = await manager.acquire('reports');
    const job = fakeJob();
    await expect(run(job, () => 1)).rejects.toBeInstanceOf(DelayedError);
    expect(job.promoted).toBe(0);
    closing.abort();
    await settle();
    expect(job.promoted).toBe(1);
  });

  it('that BullMQ cannot put back say why', async () => {
    const { run, closing } = setUp();
    closing.abort();
    const job = fakeJob();
    job.refusals.push(...Array.from({ length: 5 }, () => bullError(0)));
    await expect(run(job, () => 1)).rejects.toMatchObject({ message: 'the worker is closing' });
  });
});
