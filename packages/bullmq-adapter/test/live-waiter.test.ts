import { DelayedError } from 'bullmq';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { LiveWaiter } from '../src/live-waiter.ts';
import { fakeJob } from './fake-job.ts';
import { setUp } from './set-up.ts';

afterEach(() => {
  vi.useRealTimers();
});

const often = { attemptsStarted: 9, attemptsMade: 0 };

describe('waiting in line with a slot', () => {
  it('is for jobs that were put back eight times', () => {
    const waiter = new LiveWaiter();
    expect(waiter.claim({ attemptsStarted: 8, attemptsMade: 0 })).toBeUndefined();
    expect(waiter.claim({ attemptsStarted: 12, attemptsMade: 4 })).toBeUndefined();
    expect(waiter.claim(often)).toMatchObject({ forMs: 2000 });
  });

  it('is for one job at a time', () => {
    const waiter = new LiveWaiter();
    const first = waiter.claim(often);
    expect(waiter.claim(often)).toBeUndefined();
    first?.end(false);
    first?.end(true);
    expect(waiter.claim(often)).toBeDefined();
  });

  it('takes a tenth of one slot at most where it is in vain', () => {
    vi.useFakeTimers();
    const waiter = new LiveWaiter();
    let waitedMs = 0;
    for (let ms = 0; ms < 600_000; ms += 100) {
      const wait = waiter.claim(often);
      if (wait !== undefined) {
        vi.advanceTimersByTime(wait.forMs);
        waitedMs += wait.forMs;
        wait.end(true);
      }
      vi.advanceTimersByTime(100);
    }
    expect(waitedMs).toBeGreaterThan(40_000);
    expect(waitedMs).toBeLessThan(70_000);
  });
});

describe('a job that was put back again and again', () => {
  it('is not put back once more if its turn comes soon, and nobody passes it', async () => {
    const { run, manager } = setUp();
    const lease = await manager.acquire('reports');
    const order: string[] = [];
    const old = fakeJob({ id: 'old', attemptsStarted: 9 });
    const ended = run(old, () => order.push('old'));
    await vi.waitFor(async () => expect((await manager.inspect('reports'))?.waiting).toBe(1));
    await lease.release();
    const young = fakeJob({ id: 'young' });
    const [, refused] = await Promise.allSettled([ended, run(young, () => order.push('young'))]);
    expect(order).toEqual(['old']);
    expect(old.delays).toEqual([]);
    expect(refused).toMatchObject({ reason: { name: 'DelayedError' } });
  });

  it('is put back by a worker that closes', async () => {
    const { run, manager, closing, heard } = setUp();
    await using _ = await manager.acquire('reports');
    const old = fakeJob({ attemptsStarted: 9 });
    const ended = run(old, () => expect.unreachable());
    await vi.waitFor(async () => expect((await manager.inspect('reports'))?.waiting).toBe(1));
    closing.abort();
    await expect(ended).rejects.toBeInstanceOf(DelayedError);
    expect(old.promoted).toBe(1);
    expect(heard).toEqual([]);
  });

  it('is put back when its turn does not come, and brought back when it could', { timeout: 10_000 }, async () => {
    const { run, manager, heard } = setUp();
    const lease = await manager.acquire('reports');
    const old = fakeJob({ attemptsStarted: 9 });
    await expect(run(old, () => expect.unreachable())).rejects.toBeInstanceOf(DelayedError);
    expect(heard).toEqual(['busy true']);
    await lease.release();
    await vi.waitFor(() => expect(old.promoted).toBe(1));
  });
});
