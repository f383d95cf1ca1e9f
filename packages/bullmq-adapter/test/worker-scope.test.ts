import { ConfigError, MemoryFence, StaleTokenError, type RunCancelledError } from '@leasehold/core';
import { DelayedError, UnrecoverableError } from 'bullmq';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseLeaseOptions, type LeasedJob } from '../src/options.ts';
import { fakeJob } from './fake-job.ts';
import { aborted, Town, TTL_MS } from './office.ts';

function leaseOf(job: unknown): LeasedJob['lease'] {
  return (job as LeasedJob).lease;
}

/** The store says that somebody else has it. */
function usurp(worker: ReturnType<Town['worker']>, town: Town): Promise<void> {
  worker.store.set('extend', {
    reply: (verdicts) => verdicts.map(() => ({ verdict: 'lost', reason: 'superseded' }) as const),
  });
  return town.clock.advanceAsync(TTL_MS / 3);
}

describe('the gate', () => {
  const processor = vi.fn();
  beforeEach(() => processor.mockClear());
  afterEach(() => expect(processor).not.toHaveBeenCalled());

  it('lets nothing through before an election, and uses no attempt', async () => {
    const worker = new Town().worker();
    const job = fakeJob();
    await expect(worker.run(job, processor)).rejects.toBeInstanceOf(DelayedError);
    expect(job.delays).toEqual([expect.closeTo(50, -1)]);
  });

  it('lets nothing through after a loss that nobody has noticed yet, because it looks at the clocks', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    // As after a SIGCONT: no timer has fired.
    town.clock.block(TTL_MS);
    expect(worker.log).toEqual(['elected', 'run']);
    const job = fakeJob();
    await expect(worker.run(job, processor)).rejects.toBeInstanceOf(DelayedError);
    expect(worker.log).toEqual(['elected', 'run', 'pause', 'stepped down expired']);
  });

  it('looks again when those who heard of the job have taken their time', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    worker.onAcquired = () => town.clock.block(TTL_MS);
    await expect(worker.run(fakeJob(), processor)).rejects.toBeInstanceOf(DelayedError);
    expect(worker.log.at(-1)).toBe('stepped down expired');
  });

  it('lets nothing through from the first step of stepping down', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    const { ended } = await worker.begin('1', async (signal) => {
      await aborted(signal);
      await expect(worker.run(fakeJob({ id: '2' }), processor)).rejects.toBeInstanceOf(DelayedError);
    });
    await worker.manager.revoke('payments');
    await town.clock.advanceAsync(TTL_MS / 3);
    await ended;
    expect(worker.log).toContain('stepped down revoked');
  });
});

describe('jobs of a term', () => {
  it('have the one lease of the term', async () => {
    const fence = new MemoryFence();
    const worker = new Town().worker({ fences: [fence] });
    await worker.elected();
    const [first, second] = [fakeJob({ id: '1' }), fakeJob({ id: '2' })];
    await expect(
      Promise.all([
        worker.run(first, () => fence.write(leaseOf(first), async () => 'written')),
        worker.run(second, () => 2),
      ]),
    ).resolves.toEqual(['written', 2]);
    expect(leaseOf(first)).toBe(leaseOf(second));
    expect(Object.keys(first)).not.toContain('lease');
    expect(worker.store.calls.acquire).toBe(1);
    // The lease of all is not one job's to give back.
    await expect(leaseOf(first).release()).rejects.toMatchObject({ code: 'RELEASE_IN_BODY' });
    expect(leaseOf(first).isHeld()).toBe(true);
  });

  it('fail as they do in BullMQ, with an error that it can read', async () => {
    const worker = new Town().worker();
    await worker.elected();
    const failure = new Error('mine');
    await expect(
      worker.run(fakeJob(), () => {
        throw failure;
      }),
    ).rejects.toBe(failure);
    // eslint-disable-next-line typescript/prefer-promise-reject-errors
    await expect(worker.run(fakeJob(), () => Promise.reject('a text'))).rejects.toBeInstanceOf(Error);
  });

  it('are cancelled one by one: by BullMQ, and when it could not renew its lock', async () => {
    const worker = new Town().worker();
    await worker.elected();
    const outer = new AbortController();
    const cancelled = worker.run(
      fakeJob({ id: '1' }),
      (signal) => {
        outer.abort('enough');
        return aborted(signal);
      },
      outer.signal,
    );
    const { ended } = await worker.begin('7', aborted);
    const other = await worker.begin('8', aborted);
    worker.scope.lockRenewalFailed(['7', '9']);
    expect(await cancelled).toMatchObject({
      code: 'RUN_CANCELLED',
      reason: 'caller',
      cause: { message: 'the job was cancelled: enough' },
    });
    expect(await ended).toMatchObject({ cause: { message: 'BullMQ could not renew its lock of job 7' } });
    expect(worker.scope.live).toBe(1);
    worker.scope.cancelAll(new Error('all of you'));
    expect(await other.ended).toMatchObject({ cause: { message: 'all of you' } });
    expect(leaseOf(other.job).isHeld()).toBe(true);
  });

  it('never run twice at once: a second copy ends the first and is put back', async () => {
    const worker = new Town().worker();
    await worker.elected();
    const first = await worker.begin('1', aborted);
    const copy = fakeJob({ id: '1' });
    await expect(worker.run(copy, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    expect(copy.delays).toHaveLength(1);
    expect(await first.ended).toMatchObject({
      code: 'RUN_CANCELLED',
      cause: { message: expect.stringContaining('started job 1 again') },
    });
    await expect(worker.run(fakeJob({ id: '1' }), () => 'again')).resolves.toBe('again');
  });
});

describe('a lost lease', () => {
  it('pauses BullMQ first, then aborts all jobs; each is put back, none of their values counts, nothing is given back', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    const jobs = await Promise.all(
      ['1', '2'].map((id) =>
        worker.begin(id, async (signal) => {
          const reason = await aborted(signal);
          worker.log.push(`job ${id} hears ${(reason as { code?: string }).code}`);
          return 'late';
        }),
      ),
    );
    await usurp(worker, town);
    for (const { job, ended } of jobs) {
      expect(await ended).toBeInstanceOf(DelayedError);
      expect(job.delays).toHaveLength(1);
    }
    expect(worker.log).toEqual([
      ...['elected', 'run', 'pause', 'job 1 lost superseded', 'job 2 lost superseded', 'stepped down superseded'],
      ...['job 1 hears LEASE_LOST', 'job 2 hears LEASE_LOST'],
    ]);
    expect(worker.store.calls.release).toBe(0);
  });

  it('passes what the processor has told BullMQ', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    const control = new UnrecoverableError('this customer is gone');
    const { job, ended } = await worker.begin('1', async (signal) => {
      await aborted(signal);
      throw control;
    });
    await usurp(worker, town);
    expect(await ended).toBe(control);
    expect(job.delays).toEqual([]);
  });

  it.each([
    ['retry', 'LEASE_LOST', Error],
    ['fail', 'UnrecoverableError', UnrecoverableError],
  ] as const)('fails the job where whenLost is %s', async (whenLost, what, type) => {
    const town = new Town();
    const worker = town.worker({ whenLost });
    await worker.elected();
    const { ended } = await worker.begin('1', aborted);
    await usurp(worker, town);
    const error = (await ended) as Error & { code?: string };
    expect(error).toBeInstanceOf(type);
    expect([error.code, error.name]).toContain(what);
  });

  it('is also what a fence says of the bare grant', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    const other = await worker.begin('2', aborted);
    const { ended } = await worker.begin('1', () => {
      const { fencingToken, resource } = leaseOf(other.job).grant;
      const highest = { fencingToken: fencingToken + 1, leaseId: 'a later one' };
      throw new Error('the query failed', {
        cause: new StaleTokenError(resource, { fence: 'ledger', fencingToken, highest }),
      });
    });
    expect(await ended).toBeInstanceOf(DelayedError);
    expect(await other.ended).toBeInstanceOf(DelayedError);
    expect(worker.log).toContain('stepped down fenced');
  });

  it('lost and regained ten times, it goes on, and no job is lost', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    for (let term = 1; term <= 10; term++) {
      const { ended, job } = await worker.begin(`${term}`, aborted);
      const again = worker.heard('elected');
      await usurp(worker, town);
      worker.store.heal();
      expect(await ended).toBeInstanceOf(DelayedError);
      expect(job.delays).toHaveLength(1);
      await town.clock.advanceAsync(TTL_MS);
      await again;
      await expect(worker.run(fakeJob({ id: `${term}` }), () => term)).resolves.toBe(term);
    }
    expect(worker.log.filter((line) => line.startsWith('failed'))).toEqual([]);
    expect(worker.engine.fetches).toBe(true);
  });
});

describe('stepping down with the lease held', () => {
  it.each(['revoked', 'max-hold'] as const)(
    '%s: lets jobs finish up, counts their values, puts back those that gave up, then gives it back',
    async (why) => {
      const town = new Town();
      const worker = town.worker(why === 'max-hold' ? { maxHold: 200 } : {});
      await worker.elected();
      let finish = (): void => {};
      const value = await worker.begin('1', async (signal) => {
        const reason = (await aborted(signal)) as RunCancelledError;
        await new Promise<void>((resolve) => (finish = resolve));
        return reason.reason;
      });
      const gaveUp = await worker.begin('2', async (signal) => {
        throw new Error('aborted', { cause: await aborted(signal) });
      });
      const failed = await worker.begin('3', async (signal) => {
        await aborted(signal);
        throw new Error('without a word of why');
      });
      if (why === 'revoked') await worker.manager.revoke('payments');
      await town.clock.advanceAsync(TTL_MS / 3);
      expect(await gaveUp.ended).toBeInstanceOf(DelayedError);
      expect(await failed.ended).toBeInstanceOf(DelayedError);
      expect(worker.store.calls.release).toBe(0);
      expect(leaseOf(value.job).isHeld()).toBe(true);

      const released = worker.store.next('release', 'settled');
      const again = worker.heard('elected');
      finish();
      expect(await value.ended).toBe(why);
      await released;
      await again;
      expect(worker.log).toEqual(['elected', 'run', 'pause', `stepped down ${why}`, 'elected', 'run']);
    },
  );

  it('the manager closes: it finishes in the same way, and stands no more', async () => {
    const town = new Town();
    const worker = town.worker();
    await worker.elected();
    const { ended } = await worker.begin('1', async (signal) => {
      throw new Error('aborted', { cause: await aborted(signal) });
    });
    const over = worker.heard('failed MANAGER_CLOSED');
    const closed = worker.manager.close({ grace: 0 });
    await town.clock.advanceAsync(10);
    await closed;
    expect(await ended).toBeInstanceOf(DelayedError);
    await over;
    expect(worker.log).toEqual(['elected', 'run', 'pause', 'stepped down shutdown', 'failed MANAGER_CLOSED']);
    expect(worker.store.calls.release).toBe(1);
    await expect.poll(() => worker.candidate.isStanding).toBe(false);
  });
});

describe('a processor that does not hear', () => {
  it('is left behind: its job is put back, its term ends, its lease is not given back before it has run out', async () => {
    const town = new Town();
    const worker = town.worker({ abandonAfter: 20 });
    await worker.elected();
    const outer = new AbortController();
    const job = fakeJob({ id: 'deaf' });
    let end = (): void => {};
    const deaf = worker.run(job, () => new Promise<void>((resolve) => (end = resolve)), outer.signal);
    const other = await worker.begin('other', async (signal) => {
      throw await aborted(signal);
    });
    outer.abort();
    await expect(deaf).rejects.toBeInstanceOf(DelayedError);
    // No job of a term runs beside another copy of itself, so the term is over.
    expect(await other.ended).toBeInstanceOf(DelayedError);
    expect(worker.log).toEqual(['elected', 'run', 'pause', 'stepped down caller', 'job deaf abandoned']);
    const first = leaseOf(job);
    const again = worker.heard('elected');
    await town.clock.advanceAsync(TTL_MS - 100);
    expect(worker.log).toHaveLength(5);
    await town.clock.advanceAsync(200);
    await again;
    expect(worker.store.calls.release).toBe(0);
    const next = fakeJob();
    await worker.run(next, () => {});
    expect(leaseOf(next).fencingToken).toBeGreaterThan(first.fencingToken);
    end();
  });
});

describe('options', () => {
  it('take a name for the resource, and nothing about busy jobs', () => {
    expect(() => parseLeaseOptions({ resource: () => 'a', scope: 'worker' }, 'lease')).toThrow(ConfigError);
    expect(() => parseLeaseOptions({ resource: 'a', scope: 'worker', whenBusy: 'hold' }, 'lease')).toThrow(ConfigError);
  });
});
